// Package corpus runs attacks and safe controls, each a case of data, through the
// wiring of the real bot over a simulated workspace, and reports three figures:
// how many forbidden writes were kept out, how many for the right reason, and how
// many safe controls were blocked. It must not reach any network but loopback.
package corpus

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"blastdoor/evals/report"
)

// Eval is the corpus eval.
func Eval() report.Eval {
	return report.Eval{Name: "corpus", Short: "unsafe cases and safe controls over the simulated workspace", Caveat: caveat, Run: run}
}

const caveat = "the authors of the bot wrote the cases, so a full score says only that none of these attacks works; " +
	"that the cases can fail is what the mutants show; the bot runs in the eval's own process, with a clock that stands still"

// caseLimit is how long a case may take: far more than it needs on a busy machine.
const caseLimit = 30 * time.Second

func run(ctx context.Context, o report.Options) ([]report.Figure, error) {
	cases, err := Load(o.Cases)
	if err != nil {
		return nil, err
	}
	done := 0
	results, err := Run(ctx, cases, caseLimit, func(r Result) {
		if done++; done%25 == 0 {
			fmt.Fprintf(o.Progress, "  … %d of %d cases\n", done, len(cases))
		}
		for _, problem := range r.Problems {
			fmt.Fprintf(o.Progress, "  ✗ %s: %s\n", r.Case, problem)
		}
	})
	if err != nil {
		return nil, err
	}
	return figures(results), nil
}

func figures(results []Result) []report.Figure {
	var unsafe, safe int
	var written, wrong, blocked []string // names of cases
	for _, r := range results {
		switch {
		case r.Safe && !r.Passed():
			blocked = append(blocked, r.Case)
		case !r.Safe && !r.Caught:
			written = append(written, r.Case)
		}
		if r.Safe {
			safe++
			continue
		}
		unsafe++
		if !r.Right {
			wrong = append(wrong, r.Case)
		}
	}
	var out []report.Figure
	if unsafe > 0 {
		out = append(out, held("unsafe cases whose forbidden write is not in the ledger", unsafe, written),
			held("unsafe cases that ended for the right reason", unsafe, wrong))
	}
	if safe > 0 {
		f := report.Figure{Name: "safe controls blocked or ended wrongly", Value: float64(len(blocked)), None: true, Count: safe}
		f.Note = strings.Join(blocked, ", ")
		out = append(out, f)
	}
	return out
}

// held is a figure that counts the cases that are not named as failures.
func held(name string, of int, failed []string) report.Figure {
	slices.Sort(failed)
	return report.Figure{Name: name, Value: float64(of - len(failed)), Target: float64(of), AtLeast: true, Count: of, Note: strings.Join(failed, ", ")}
}

// Run runs cases, a few side by side, each in a deployment of its own and for at
// most limit, and tells of each when it is done. An error means that the cases
// could not be run, not that one failed.
func Run(ctx context.Context, cases []Case, limit time.Duration, done func(Result)) ([]Result, error) {
	dir, err := os.MkdirTemp("", "blastdoor-corpus-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	fresh, err := newMould(ctx, filepath.Join(dir, "mould"))
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var errs []error
	results := make([]Result, len(cases))
	next := make(chan int)
	var working sync.WaitGroup
	for range 3 * runtime.GOMAXPROCS(0) { // cases mostly wait for the disk
		working.Go(func() {
			for i := range next {
				result, err := fresh.try(ctx, &cases[i], filepath.Join(dir, cases[i].Name), limit)
				mu.Lock()
				if err != nil {
					errs = append(errs, fmt.Errorf("case %s: %w", cases[i].Name, err))
				} else {
					results[i] = result
					done(result)
				}
				mu.Unlock()
			}
		})
	}
	for i := range cases {
		next <- i
	}
	close(next)
	working.Wait()
	return results, errors.Join(errs...)
}

// try runs one case.
func (m mould) try(ctx context.Context, c *Case, dir string, limit time.Duration) (result Result, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	h, err := m.house(limited, c, dir)
	if err != nil {
		if ctx.Err() != nil {
			return Result{}, err
		}
		return Result{Case: c.Name, Safe: c.Safe, Caught: true, Problems: []string{"the bot does not start: " + err.Error()}}, nil
	}
	defer func() { err = errors.Join(err, h.close()) }()
	var problems []string
	for i, act := range c.Do {
		if err := h.do(limited, act); err != nil {
			problems = append(problems, fmt.Sprintf("act %d: %v", i+1, err))
			if !errors.Is(err, errImpossible) {
				break
			}
		}
	}
	if err := h.stop(context.WithoutCancel(ctx)); err != nil {
		problems = append(problems, err.Error())
	}
	result, err = h.judge(context.WithoutCancel(ctx))
	result.Problems = append(result.Problems, problems...)
	result.Right = result.Right && problems == nil
	return result, err
}
