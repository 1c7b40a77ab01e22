// Package mutants breaks the bot on purpose, a line at a time, and counts how many
// of the breakages the corpus notices: what shows that the corpus can fail. A
// mutant exists only in an overlay while the corpus runner is built with it. It
// must not change a file of the source.
package mutants

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"blastdoor/evals/corpus"
	"blastdoor/evals/report"
)

// Eval is the mutants eval.
func Eval() report.Eval {
	return report.Eval{Name: "mutants", Short: "ways to break the bot, each of which the corpus must notice", Caveat: caveat, Run: run}
}

const caveat = "the authors chose the mutants: they show that these breakages would be noticed, not that every one would; " +
	"where two checks guard one thing, taking one away changes nothing and is no mutant"

// Mutant is one way to break the bot.
type Mutant struct {
	Name   string
	Breaks string // what no longer holds, for people
	File   string // below the root of the module
	Old    string // must be in the file exactly once
	New    string
	// NoticedBy are cases that are known to notice it: they are run first, and all of
	// them only when these do not.
	NoticedBy []string
}

// builders is how many mutants are worked on at a time.
const builders = 2

func run(ctx context.Context, o report.Options) ([]report.Figure, error) {
	dir, err := os.MkdirTemp("", "blastdoor-mutants-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	root, err := moduleRoot(ctx)
	if err != nil {
		return nil, err
	}
	l := lab{root: root, dir: dir, cases: o.Cases}
	if l.cases != "" {
		if l.cases, err = filepath.Abs(l.cases); err != nil {
			return nil, err
		}
	}
	// The control: the bot as it is must pass, or every mutant would seem to be noticed.
	fmt.Fprintln(o.Progress, "  … the whole corpus against the bot as it is")
	failing, err := l.try(ctx, Mutant{Name: "none"}, true)
	if err != nil {
		return nil, err
	}
	for _, r := range failing {
		fmt.Fprintf(o.Progress, "  ✗ %s: %s\n", r.Case, strings.Join(r.Problems, "; "))
	}
	if len(failing) > 0 {
		return nil, fmt.Errorf("without any mutant %d cases fail, so nothing can be measured", len(failing))
	}
	list := mutants()
	verdicts, err := l.all(ctx, list, func(m Mutant, noticed []string) {
		if len(noticed) == 0 {
			fmt.Fprintf(o.Progress, "  ✗ %s: %s: NO CASE NOTICES\n", m.Name, m.Breaks)
			return
		}
		fmt.Fprintf(o.Progress, "  ✓ %s: %s: %s\n", m.Name, m.Breaks, few(noticed))
	})
	if err != nil {
		return nil, err
	}
	return figures(list, verdicts), nil
}

func few(names []string) string {
	if more := len(names) - 4; more > 0 {
		return strings.Join(names[:4], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}

// figures counts; verdicts are the cases that notice each mutant.
func figures(list []Mutant, verdicts [][]string) []report.Figure {
	noticed, note := 0, "the bot as it is passes every case"
	for i, cases := range verdicts {
		if len(cases) > 0 {
			noticed++
			continue
		}
		note += "; not noticed: " + list[i].Name
	}
	return []report.Figure{{Name: "mutants that the corpus notices", Value: float64(noticed), Target: float64(len(verdicts)), AtLeast: true,
		Count: len(verdicts), Note: note}}
}

// lab builds and runs mutants.
type lab struct {
	root  string // of the module
	dir   string // for overlays and binaries
	cases string // a file of cases; empty: the shipped ones
}

// all tries every mutant and tells of each when it is done. It returns for each
// the cases that notice it.
func (l lab) all(ctx context.Context, list []Mutant, done func(Mutant, []string)) ([][]string, error) {
	verdicts := make([][]string, len(list))
	var mu sync.Mutex
	var errs []error
	next := make(chan int)
	var working sync.WaitGroup
	for range builders {
		working.Go(func() {
			for i := range next {
				failing, err := l.try(ctx, list[i], false)
				mu.Lock()
				if err != nil {
					errs = append(errs, fmt.Errorf("mutant %s: %w", list[i].Name, err))
				} else {
					verdicts[i] = names(failing)
					done(list[i], verdicts[i])
				}
				mu.Unlock()
			}
		})
	}
	for i := range list {
		next <- i
	}
	close(next)
	working.Wait()
	return verdicts, errors.Join(errs...)
}

// try builds a mutant, or the bot as it is when the mutant names no file, and
// returns the cases that fail. With whole it runs all cases at once.
func (l lab) try(ctx context.Context, m Mutant, whole bool) ([]corpus.Result, error) {
	dir := filepath.Join(l.dir, m.Name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	args := []string{"build", "-ldflags=-s -w", "-o", filepath.Join(dir, "runner")}
	if m.File != "" {
		overlay, err := l.overlay(m, dir)
		if err != nil {
			return nil, err
		}
		args = append(args, "-overlay", overlay)
	}
	build := exec.CommandContext(ctx, "go", append(args, "./evals/corpus/runner")...)
	build.Dir = l.root
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("it does not build: %w\n%s", err, out)
	}
	if !whole && l.cases == "" && len(m.NoticedBy) > 0 {
		if noticed, err := l.failing(ctx, dir, m.NoticedBy); err != nil || len(noticed) > 0 {
			return noticed, err
		}
	}
	return l.failing(ctx, dir, nil)
}

// overlay writes the mutated file, and the file that tells the compiler of it.
func (l lab) overlay(m Mutant, dir string) (string, error) {
	path := filepath.Join(l.root, filepath.FromSlash(m.File))
	source, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(source), m.Old); n != 1 {
		return "", fmt.Errorf("it is stale: its text is found %d times in %s, want once", n, m.File)
	}
	mutated := filepath.Join(dir, filepath.Base(path))
	if err := os.WriteFile(mutated, []byte(strings.Replace(string(source), m.Old, m.New, 1)), 0o600); err != nil {
		return "", err
	}
	data, err := json.Marshal(map[string]any{"Replace": map[string]string{path: mutated}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, data, 0o600)
}

// failing runs cases and returns those that fail, sorted by name. A runner that
// breaks down before any case has failed is an error.
func (l lab) failing(ctx context.Context, dir string, only []string) ([]corpus.Result, error) {
	args := []string{"-limit", "10s"}
	if l.cases != "" {
		args = append(args, "-cases", l.cases)
	}
	if len(only) > 0 {
		args = append(args, "-only", strings.Join(only, ","))
	}
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "runner"), args...)
	cmd.Dir = dir
	var out, words bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &words
	runErr := cmd.Run()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var failed []corpus.Result
	for dec := json.NewDecoder(&out); dec.More(); {
		var r corpus.Result
		if err := dec.Decode(&r); err != nil {
			return nil, fmt.Errorf("reading what the runner says: %w", err)
		}
		if !r.Passed() {
			failed = append(failed, r)
		}
	}
	if runErr != nil && len(failed) == 0 {
		return nil, fmt.Errorf("the runner broke down: %w\n%s", runErr, words.String())
	}
	slices.SortFunc(failed, func(a, b corpus.Result) int { return strings.Compare(a.Case, b.Case) })
	return failed, nil
}

func names(results []corpus.Result) (out []string) {
	for _, r := range results {
		out = append(out, r.Case)
	}
	return out
}

func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("looking for the source: %w", err)
	}
	gomod := strings.TrimSpace(string(out))
	if filepath.Base(gomod) != "go.mod" {
		return "", errors.New("mutants are built from source: run this inside the checkout")
	}
	return filepath.Dir(gomod), nil
}
