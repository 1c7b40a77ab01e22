// Package slack plays Slack's bad days to a whole bot over a simulated workspace:
// sockets that refresh in the middle of a click, answers that are cut, limits,
// outages. Nothing may be lost, doubled, or refused without a word. It must not
// reach any network but loopback.
package slack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"blastdoor/evals/report"
)

// Eval is the slack eval.
func Eval() report.Eval {
	return report.Eval{Name: "slack", Short: "Slack's own bad days", Run: run,
		Caveat: "Slack is a simulation of ours, with the faults that we know of; the bot is wired as shipped and runs in this process, so that its clock " +
			"can be set, but where a process dies: there it is the real binary. Pauses are shortened but for the lag of 5 s and the process"}
}

// atOnce is how many scenarios are played at the same time: most of them wait.
const atOnce = 4

// noticed is how long a broken bot is waited for. What it never does must not cost
// the patience of a scenario.
const noticed = 15 * time.Second

// result is one scenario, played.
type result struct {
	tally
	took time.Duration
}

func run(ctx context.Context, o report.Options) ([]report.Figure, error) {
	dir, err := os.MkdirTemp("", "blastdoor-slack-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	binary, err := build(ctx, dir)
	if err != nil {
		return nil, err
	}
	all := scenarios()
	results, err := play(ctx, o.Progress, all, func(i int) (tally, error) {
		open := inProcess
		if all[i].process {
			open = asProcess(binary)
		}
		return all[i].run(ctx, filepath.Join(dir, fmt.Sprintf("scenario-%d", i)), open, patience)
	})
	if err != nil {
		return nil, err
	}
	caught, err := tryControls(ctx, o.Progress, dir)
	if err != nil {
		return nil, err
	}
	return append(figures(results), caught), nil
}

// play plays scenarios, those about load first and by themselves, the others a few
// at once, and says how each went.
func play(ctx context.Context, progress io.Writer, all []scenario, one func(int) (tally, error)) ([]result, error) {
	results, errs := make([]result, len(all)), make([]error, len(all))
	var printing sync.Mutex
	do := func(i int) {
		began := time.Now()
		results[i].tally, errs[i] = one(i)
		results[i].took = time.Since(began)
		printing.Lock()
		defer printing.Unlock()
		word := "ok"
		if !results[i].sound() {
			word = "FAILED: " + results[i].String()
		}
		fmt.Fprintf(progress, "  … %-68s %5.1f s  %s\n", all[i].name, results[i].took.Seconds(), word)
	}
	slots := make(chan struct{}, atOnce)
	var playing sync.WaitGroup
	for i := range all {
		if all[i].alone {
			do(i)
			continue
		}
		playing.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if ctx.Err() == nil {
				do(i)
			}
		})
	}
	playing.Wait()
	return results, errors.Join(append(errs, ctx.Err())...)
}

// tryControls plays scenarios with bots that are broken on purpose, all at once:
// most of their time they wait for what a broken bot never does.
func tryControls(ctx context.Context, progress io.Writer, dir string) (report.Figure, error) {
	all := controls()
	f := report.Figure{Name: "broken bots noticed", Unit: "bots", Target: float64(len(all)), AtLeast: true, Count: len(all),
		Note: "each is broken in one place and must be noticed by the scenario that is about it"}
	errs := make([]error, len(all))
	var playing sync.WaitGroup
	var mu sync.Mutex
	for i, c := range all {
		playing.Go(func() {
			t, err := c.try(ctx, filepath.Join(dir, fmt.Sprintf("control-%d", i)))
			mu.Lock()
			defer mu.Unlock()
			errs[i] = err
			word := "NOT NOTICED"
			if err == nil && c.notices(t) {
				f.Value++
				word = "noticed"
			}
			fmt.Fprintf(progress, "  … control: %-59s %s (%s)\n", c.name, word, t.counts())
		})
	}
	playing.Wait()
	return f, errors.Join(errs...)
}

// try plays the control's scenario with the broken bot.
func (c control) try(ctx context.Context, dir string) (tally, error) {
	for _, sc := range scenarios() {
		if sc.name == c.scenario {
			if c.timing != nil {
				sc.timing = c.timing
			}
			return sc.run(ctx, dir, broken(c.spoil), noticed)
		}
	}
	return tally{}, fmt.Errorf("control %q: there is no scenario %q", c.name, c.scenario)
}

// figures sums up.
func figures(results []result) []report.Figure {
	var passed, lost, doubled, duplicates, refused, told float64
	for _, r := range results {
		if r.sound() {
			passed++
		}
		lost += float64(r.lost)
		doubled += float64(r.doubled)
		duplicates += float64(r.duplicates)
		refused += float64(r.refused)
		told += float64(r.told)
	}
	n := len(results)
	return []report.Figure{
		{Name: "scenarios passed", Value: passed, Target: float64(n), AtLeast: true, Count: n},
		{Name: "requests and messages lost", Value: lost, None: true, Count: n},
		{Name: "cards and runs doubled", Value: doubled, None: true, Count: n},
		{Name: "duplicate writes", Value: duplicates, None: true, Count: n},
		{Name: "refusals told", Value: told, Target: refused, AtLeast: true, Count: int(refused), Note: "each to the clicker alone"},
	}
}
