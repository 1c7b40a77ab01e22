// Command evals measures and tries the product offline, prints a report and
// writes evals/results/NAME.json. `go run ./evals` runs all, `go run ./evals
// NAME…` some, `go run ./evals table` renders the results into the documents. It exits non-zero when anything falls short of its target. It must
// not reach any network but loopback.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "evals: %v\n", err)
		os.Exit(1)
	}
}

// eval is one named eval. It returns what it measured; an error means that it
// could not be run, not that a target was missed.
type eval struct {
	name   string
	short  string
	caveat string
	run    func(ctx context.Context, progress io.Writer) ([]figure, error)
}

func all() []eval {
	return []eval{{"latency", "figures of DESIGN section 9", latencyCaveat, latency}}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	set := flag.NewFlagSet("evals", flag.ContinueOnError)
	results := set.String("results", filepath.Join("evals", "results"), "directory of the result files")
	if err := set.Parse(args); err != nil {
		return err
	}
	if set.NArg() == 1 && set.Arg(0) == "table" {
		return writeTables(*results, "README.md")
	}
	chosen, err := choose(set.Args())
	if err != nil {
		return err
	}
	var missed []error
	for _, e := range chosen {
		fmt.Fprintf(out, "== %s: %s\n", e.name, e.short)
		began := time.Now()
		figures, err := e.run(ctx, out)
		if err != nil {
			return fmt.Errorf("running %s: %w", e.name, err)
		}
		r := newResult(e, figures, began)
		r.print(out)
		if err := r.write(*results); err != nil {
			return err
		}
		if !r.Passed {
			missed = append(missed, fmt.Errorf("%s fell short of a target", e.name))
		}
	}
	return errors.Join(missed...)
}

func choose(names []string) ([]eval, error) {
	if len(names) == 0 {
		return all(), nil
	}
	var chosen []eval
	for _, name := range names {
		found := false
		for _, e := range all() {
			if e.name == name {
				chosen, found = append(chosen, e), true
			}
		}
		if !found {
			var known []string
			for _, e := range all() {
				known = append(known, e.name)
			}
			return nil, fmt.Errorf("there is no eval %q; there are: %s", name, strings.Join(known, ", "))
		}
	}
	return chosen, nil
}
