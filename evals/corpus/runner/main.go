// Command runner runs cases of the corpus, shipped or of a file, and prints one
// line of JSON for each. It is what a mutant is built into. It must not judge
// whether a result is good enough.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"blastdoor/evals/corpus"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "runner: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	set := flag.NewFlagSet("runner", flag.ContinueOnError)
	file := set.String("cases", "", "file of cases instead of the shipped ones")
	only := set.String("only", "", "names of the cases to run, with commas; empty: all")
	limit := set.Duration("limit", 30*time.Second, "how long one case may take")
	if err := set.Parse(args); err != nil {
		return err
	}
	cases, err := corpus.Load(*file)
	if err != nil {
		return err
	}
	if *only != "" {
		names := strings.Split(*only, ",")
		cases = slices.DeleteFunc(cases, func(c corpus.Case) bool { return !slices.Contains(names, c.Name) })
		if len(cases) != len(names) {
			return fmt.Errorf("not all of %q are cases", names)
		}
	}
	out := json.NewEncoder(os.Stdout)
	var failed error
	_, err = corpus.Run(ctx, cases, *limit, func(r corpus.Result) {
		failed = errors.Join(failed, out.Encode(r))
	})
	return errors.Join(err, failed)
}
