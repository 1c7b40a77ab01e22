package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"blastdoor"
	"blastdoor/internal/app"
	"blastdoor/store"
)

const auditHelp = `The log is a hash chain per run and one Merkle tree over all runs; it can be checked while the
bot runs. A head kept elsewhere is what shows that the whole log has been rewritten.

  verify [--json] [--anchor FILE]… [--key VKEY] [--export FILE]
                 recompute every hash; check heads and anchors, the ten properties of a run, and the
                 ledger of the infrastructure. Exit status 0 only when nothing is found.
                 --anchor: a head printed earlier; --key: the verifier key you noted, instead of
                 the one in the database; --export: verify that file, without a database
  show RUN       the run's records as they were hashed
  export         everything needed to verify offline, as JSON lines
  head           the newest signed head; keep it somewhere else
  rebuild [--write]
                 fold every run again and compare with the stored projections; --write replaces
                 them (stop the bot first)
` + configHelp

func (p program) audit(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return &blastdoor.Error{Code: blastdoor.ErrUsage, Msg: "what to audit is missing", Want: "see `bot help audit`"}
	}
	switch args[0] {
	case "verify":
		return p.auditVerify(ctx, args[1:])
	case "rebuild":
		return p.auditRebuild(ctx, args[1:])
	case "show", "export", "head":
		return p.auditPrint(ctx, args[0], args[1:])
	default:
		return &blastdoor.Error{Code: blastdoor.ErrUsage, Msg: fmt.Sprintf("there is no audit %q", args[0]), Want: "see `bot help audit`"}
	}
}

func (p program) auditVerify(ctx context.Context, args []string) error {
	var o store.AuditOptions
	var export string
	var asJSON bool
	rest, err := parse("audit", args, func(f *flag.FlagSet) {
		f.BoolVar(&asJSON, "json", false, "")
		f.StringVar(&o.VerifierKey, "key", "", "")
		f.StringVar(&export, "export", "", "")
		f.Func("anchor", "", func(file string) error {
			text, err := os.ReadFile(file)
			o.Anchors = append(o.Anchors, string(text))
			return err
		})
	})
	if err != nil {
		return err
	}
	if err := none("audit verify", rest); err != nil {
		return err
	}
	audit, err := p.verify(ctx, export, o)
	if err != nil {
		return err
	}
	if asJSON {
		// A list that is empty is a list, for whoever reads it with a program.
		audit.Findings, audit.Violations = append([]store.Finding{}, audit.Findings...), append([]string{}, audit.Violations...)
		err = printJSON(p.stdout, audit)
	} else {
		p.printAudit(audit)
	}
	if err == nil && !audit.OK() {
		err = blastdoor.Errorf(blastdoor.ErrIntegrity, "the log does not verify: %d findings", len(audit.Findings)+len(audit.Violations))
	}
	return err
}

func (p program) verify(ctx context.Context, export string, o store.AuditOptions) (app.Audit, error) {
	if export != "" {
		f, err := os.Open(export)
		if err != nil {
			return app.Audit{}, err
		}
		report, err := store.VerifyExport(f, o)
		return app.Audit{Report: report, Ledger: -1}, errors.Join(err, f.Close())
	}
	c, err := p.config(ctx)
	if err != nil {
		return app.Audit{}, err
	}
	return app.Verify(ctx, c.files(), o, p.now)
}

func (p program) printAudit(a app.Audit) {
	fmt.Fprintf(p.stdout, "%s: %d runs, %d records, %d signed heads, %d anchors; root %s\n", a.Origin, a.Runs, a.Events, a.Heads, a.Anchors, a.Root)
	if a.Ledger >= 0 {
		fmt.Fprintf(p.stdout, "%d effects in the ledger of the infrastructure\n", a.Ledger)
	}
	for _, finding := range a.Findings {
		fmt.Fprintf(p.stdout, "FOUND %s\n", finding)
	}
	for _, violation := range a.Violations {
		fmt.Fprintf(p.stdout, "FOUND %s\n", violation)
	}
	if a.OK() {
		fmt.Fprintln(p.stdout, "everything verifies")
	}
}

func (p program) auditRebuild(ctx context.Context, args []string) error {
	var write bool
	rest, err := parse("audit", args, func(f *flag.FlagSet) { f.BoolVar(&write, "write", false, "") })
	if err != nil {
		return err
	}
	if err := none("audit rebuild", rest); err != nil {
		return err
	}
	c, err := p.config(ctx)
	if err != nil {
		return err
	}
	differences, err := app.Rebuild(ctx, c.files(), write, p.now)
	if err != nil {
		return err
	}
	for _, d := range differences {
		fmt.Fprintln(p.stdout, d)
	}
	switch {
	case len(differences) == 0:
		fmt.Fprintln(p.stdout, "the projections are what the events fold to")
	case !write:
		return &blastdoor.Error{Code: blastdoor.ErrIntegrity, Msg: "the projections differ from the events", Want: "`bot audit rebuild --write` makes them anew"}
	}
	return nil
}

func (p program) auditPrint(ctx context.Context, what string, args []string) (err error) {
	wanted := 0
	if what == "show" {
		wanted = 1
	}
	if len(args) != wanted {
		return &blastdoor.Error{Code: blastdoor.ErrUsage, Msg: fmt.Sprintf("audit %s takes %d arguments, not %d", what, wanted, len(args)), Want: "see `bot help audit`"}
	}
	s, err := p.openLog(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	switch what {
	case "export":
		return s.Export(ctx, p.stdout)
	case "head":
		head, err := s.LatestHead(ctx)
		if err == nil {
			fmt.Fprint(p.stdout, head)
		}
		return err
	}
	events, err := s.Show(ctx, args[0])
	for _, e := range events {
		fmt.Fprintf(p.stdout, "%d %s %s\n", e.Leaf, e.ChainHash, e.Canonical)
	}
	return err
}
