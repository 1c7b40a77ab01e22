package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"strings"

	"blastdoor"
	"blastdoor/internal/app"
)

const planHelp = `Rehearses every step of the runbook against the infrastructure of now, and prints who would
feel it and what the verifier would decide, as if a full member had asked in the channel (by
default the first of the policy). Nothing is written, and no Slack is needed. Exit status 0
whatever the verdicts are; 1 when the plan could not be made.
` + configHelp

func (p program) plan(ctx context.Context, args []string) error {
	var channel string
	var asJSON bool
	rest, err := parse("plan", args, func(f *flag.FlagSet) {
		f.StringVar(&channel, "channel", "", "")
		f.BoolVar(&asJSON, "json", false, "")
	})
	if err != nil {
		return err
	}
	if len(rest) == 0 {
		return &blastdoor.Error{Code: blastdoor.ErrUsage, Msg: "the runbook is missing", Want: "bot plan RUNBOOK [KEY=VALUE…]"}
	}
	inputs, err := pairs(rest[1:])
	if err != nil {
		return err
	}
	c, err := p.config(ctx)
	if err != nil {
		return err
	}
	preview, err := app.Preview(ctx, app.PreviewRequest{Files: c.files(), RunbookDir: c.Runbooks, PolicyFile: c.Policy,
		Runbook: rest[0], Inputs: inputs, Channel: channel, Now: p.now})
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(p.stdout, preview)
	}
	printPreview(p.stdout, preview)
	return nil
}

func pairs(args []string) (map[string]string, error) {
	out := map[string]string{}
	for _, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		if _, twice := out[key]; !ok || key == "" || twice {
			return nil, &blastdoor.Error{Code: blastdoor.ErrUsage, Msg: fmt.Sprintf("%q is not a new KEY=VALUE", arg), Want: "bot plan RUNBOOK [KEY=VALUE…]"}
		}
		out[key] = value
	}
	return out, nil
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

func printPreview(w io.Writer, preview blastdoor.Preview) {
	fmt.Fprintf(w, "%s, under policy %s\n", preview.Runbook, preview.Policy)
	for i, step := range preview.Steps {
		fmt.Fprintf(w, "\n%d. %s: %s %s\n", i+1, step.Step.ID, step.Plan.Action, paramText(step.Plan.Params))
		fmt.Fprintf(w, "   verdict     %s\n", strings.ReplaceAll(string(step.Verdict.Decision), "_", " "))
		for _, reason := range step.Verdict.Reasons {
			fmt.Fprintf(w, "               %s: %s\n", reason.Code, reason.Text)
		}
		if step.Plan.Kind == blastdoor.Write {
			printRadius(w, step.Plan)
			fmt.Fprintf(w, "   plan        %s\n", step.Hash)
		}
	}
	fmt.Fprint(w, "\nNothing was written. A later step's world may differ once an earlier one has run.\n")
}

func printRadius(w io.Writer, plan blastdoor.Plan) {
	r := plan.Radius
	list := func(name string, items []string) {
		if len(items) > 0 {
			fmt.Fprintf(w, "   %-11s %d: %s\n", name, len(items), strings.Join(items, ", "))
		}
	}
	fmt.Fprintf(w, "   affected    %d\n", r.Affected())
	list("direct", r.Direct)
	list("dependents", r.Dependents)
	list("downstream", r.Downstream)
	list("protected", r.Protected)
	list("hosts", r.Hosts)
	list("unknown", r.Unknown)
	for _, change := range plan.Changes {
		fmt.Fprintf(w, "   change      %s %s: %s → %s\n", change.Target, change.Field, change.Before, change.After)
	}
}

func paramText(params blastdoor.Params) string {
	data, err := blastdoor.CanonicalJSON(params)
	if err != nil || len(params) == 0 {
		return ""
	}
	return string(data)
}
