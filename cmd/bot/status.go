package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"blastdoor"
	"blastdoor/engine"
	"blastdoor/store"
)

const statusHelp = `Reads the database while the bot runs, or after; it changes nothing.
` + configHelp

func (p program) status(ctx context.Context, args []string) (err error) {
	var asJSON bool
	rest, err := parse("status", args, func(f *flag.FlagSet) { f.BoolVar(&asJSON, "json", false, "") })
	if err != nil {
		return err
	}
	if len(rest) > 1 {
		return none("status RUN", rest[1:])
	}
	s, err := p.openLog(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if len(rest) == 1 {
		return p.statusRun(ctx, s, rest[0], asJSON)
	}
	runs, err := s.Runs(ctx, store.RunFilter{Limit: 50})
	if err != nil {
		return err
	}
	counts, err := s.Counts(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		if runs == nil {
			runs = []blastdoor.RunSummary{}
		}
		return printJSON(p.stdout, map[string]any{"runs": runs, "counts": counts})
	}
	fmt.Fprintf(p.stdout, "%d runs, %d not ended, %d waiting for a second person, %d records\n", counts.Runs, counts.Unfinished, counts.Waiting, counts.Events)
	for _, run := range runs {
		fmt.Fprintf(p.stdout, "%-32s %-10s %s  asked by %s\n", run.ID, run.Status, stamp(run.UpdatedAt), run.Requester)
	}
	return nil
}

// openLog opens the log for reading.
func (p program) openLog(ctx context.Context) (*store.Store, error) {
	c, err := p.config(ctx)
	if err != nil {
		return nil, err
	}
	return store.OpenReadOnly(ctx, c.files().Store(), store.Options{Now: p.now})
}

func (p program) statusRun(ctx context.Context, s *store.Store, id string, asJSON bool) error {
	events, err := s.Load(ctx, id)
	if err != nil {
		return err
	}
	run, err := engine.Fold(events)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(p.stdout, run)
	}
	printRun(p.stdout, run)
	return nil
}

func printRun(w io.Writer, run blastdoor.Run) {
	status := string(run.Outcome)
	if status == "" {
		status = "not ended"
	}
	fmt.Fprintf(w, "%s: %s\n  asked by %s in %s at %s\n", run.ID, status, run.Requester.UserID, run.Channel, stamp(run.RequestedAt))
	if run.Detail != "" {
		fmt.Fprintf(w, "  %q\n", run.Detail)
	}
	for i := range run.Steps {
		printStep(w, &run.Steps[i])
	}
}

func printStep(w io.Writer, step *blastdoor.StepState) {
	fmt.Fprintf(w, "  %s: %s %s\n", step.Step.ID, step.Status, stamp(step.Since))
	if v := step.Verdict; v != nil {
		var codes []string
		for _, r := range v.Reasons {
			codes = append(codes, string(r.Code))
		}
		fmt.Fprintf(w, "    verdict %s: %s\n", v.Decision, strings.Join(codes, ", "))
	}
	if a := step.Approval; a != nil {
		fmt.Fprintf(w, "    approval %s: %s, expires %s\n", a.ID, a.Status, stamp(a.ExpiresAt))
		for _, vote := range a.Votes {
			fmt.Fprintf(w, "      approved by %s at %s\n", vote.By.UserID, stamp(vote.At))
		}
	}
	if r := step.Receipt; r != nil {
		fmt.Fprintf(w, "    written at %s, effect %s: %q\n", stamp(r.At), r.Effect, r.Summary)
	}
	if step.Detail != "" {
		fmt.Fprintf(w, "    %q\n", step.Detail)
	}
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }
