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

	"blastdoor/evals/corpus"
	"blastdoor/evals/crash"
	"blastdoor/evals/explore"
	"blastdoor/evals/itbench"
	"blastdoor/evals/latency"
	"blastdoor/evals/mutants"
	"blastdoor/evals/powerloss"
	"blastdoor/evals/report"
	"blastdoor/evals/simulate"
	slackdays "blastdoor/evals/slack"
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

// documents are the files that hold tables of results.
func documents() []string { return []string{"README.md", filepath.Join("docs", "EVALS.md")} }

// all lists the evals in the order in which they run.
func all() []report.Eval {
	return []report.Eval{crash.Eval(), corpus.Eval(), mutants.Eval(), explore.Eval(), simulate.Eval(), powerloss.Eval(), slackdays.Eval(), itbench.Eval(), latency.Eval()}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	set := flag.NewFlagSet("evals", flag.ContinueOnError)
	results := set.String("results", filepath.Join("evals", "results"), "directory of the result files")
	o := report.Options{Progress: out}
	set.StringVar(&o.Cases, "cases", "", "file of cases to run instead of the shipped ones")
	set.StringVar(&o.Graph, "graph", "", "file of a graph, for itbench")
	set.Uint64Var(&o.Seed, "seed", 0, "seed to replay")
	if err := set.Parse(args); err != nil {
		return err
	}
	if set.NArg() == 1 && set.Arg(0) == "table" {
		return report.WriteTables(*results, documents()...)
	}
	if set.NArg() == 2 && set.Arg(0) == "compare" {
		return compare(*results, set.Arg(1), out)
	}
	chosen, err := choose(set.Args())
	if err != nil {
		return err
	}
	var missed []error
	for _, e := range chosen {
		fmt.Fprintf(out, "== %s: %s\n", e.Name, e.Short)
		if err := one(ctx, e, o, *results, out); err != nil {
			fmt.Fprintf(out, "!! %v\n", err)
			missed = append(missed, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(missed...)
}

// one runs an eval, prints and writes its result, and returns why it did not pass.
// An eval that this machine cannot run says so loudly; where CI is set, that counts
// as a failure, for there nothing may be left out.
func one(ctx context.Context, e report.Eval, o report.Options, results string, out io.Writer) error {
	began := time.Now()
	figures, err := e.Run(ctx, o)
	r := report.New(e, figures, began)
	var skip interface{ Skipped() string }
	switch {
	case errors.As(err, &skip):
		r.Passed, r.Skipped = false, skip.Skipped()
		fmt.Fprintf(out, "!!!! SKIPPED, WHICH IS NO PASS: %s\n", r.Skipped)
	case err != nil:
		return fmt.Errorf("running %s: %w", e.Name, err)
	}
	r.Print(out)
	if err := r.Write(results); err != nil {
		return err
	}
	if !r.Passed && (r.Skipped == "" || os.Getenv("CI") != "") {
		return fmt.Errorf("%s did not pass", e.Name)
	}
	return nil
}

// compare holds fresh results against those that are committed.
func compare(committed, fresh string, out io.Writer) error {
	differences, err := report.Differences(committed, fresh)
	for _, d := range differences {
		fmt.Fprintln(out, d)
	}
	if err == nil && len(differences) > 0 {
		err = errors.New("the committed results are not what the evals say now: run them and commit")
	}
	return err
}

func choose(names []string) ([]report.Eval, error) {
	if len(names) == 0 {
		return all(), nil
	}
	var chosen []report.Eval
	for _, name := range names {
		found := false
		for _, e := range all() {
			if e.Name == name {
				chosen, found = append(chosen, e), true
			}
		}
		if !found {
			var known []string
			for _, e := range all() {
				known = append(known, e.Name)
			}
			return nil, fmt.Errorf("there is no eval %q; there are: %s", name, strings.Join(known, ", "))
		}
	}
	return chosen, nil
}
