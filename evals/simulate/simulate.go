// Package simulate plays runs of the engine's Runner under virtual time with faults
// on every port, by running the engine's own TestSimulate at full size, and reports
// its figures. It must not know how the Runner works.
package simulate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"strings"

	"blastdoor/evals/report"
)

// Eval is the simulation with faults.
func Eval() report.Eval {
	return report.Eval{Name: "simulate", Short: "the runner under virtual time, with faults on every port", Caveat: caveat, Run: run}
}

const caveat = "journal, environment and people are in memory, and only what a port answers goes wrong; pairs of faults are exhaustive for " +
	"three stories of one run each, in the flavours fails, fails but happened, lands late, and the process dies; one process at a time"

// runs is how many plays the issue asks for.
const runs = 10_000

// line is what the test prints.
type line struct {
	Runs       int            `json:"runs"`
	Single     int            `json:"single"`
	Pairs      int            `json:"pairs"`
	Random     int            `json:"random"`
	Calls      int            `json:"calls"`
	Faults     int            `json:"faults"`
	Restarts   int            `json:"restarts"`
	Violations int            `json:"violations"`
	Failing    []string       `json:"failing"`
	Controls   map[string]int `json:"controls"`
	Outcomes   map[string]int `json:"outcomes"`
	Seed       uint64         `json:"seed"`
}

// controls is how many broken parts the test must notice.
const controls = 3

const mark = "SIMULATE "

func run(ctx context.Context, o report.Options) ([]report.Figure, error) {
	if o.Seed != 0 {
		return replay(ctx, o)
	}
	seed := rand.Uint64()>>32 + 1
	fmt.Fprintf(o.Progress, "  … at least %d runs; random ones from seed %d (replay a failing one with --seed)\n", runs, seed)
	l, err := play(ctx, o.Progress, "-simulate.runs="+strconv.Itoa(runs), "-simulate.seed="+strconv.FormatUint(seed, 10))
	if err != nil {
		return nil, err
	}
	for _, failing := range l.Failing {
		fmt.Fprintf(o.Progress, "  FAILED %s\n", failing)
	}
	return figures(l), nil
}

// play runs the test as a child. A test that fails has printed its figures all the
// same, and they say so; one that has printed none could not be run.
func play(ctx context.Context, progress io.Writer, args ...string) (line, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "blastdoor/engine", "-run", "^TestSimulate$", "-count=1",
		"-timeout=20m", "-v", "-args"}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return line{}, err
	}
	var complaint strings.Builder
	cmd.Stderr = &complaint
	if err := cmd.Start(); err != nil {
		return line{}, fmt.Errorf("starting the simulation: %w", err)
	}
	l, readErr := read(out, progress)
	err = cmd.Wait()
	if readErr != nil {
		return l, errors.Join(readErr, err, errors.New(strings.TrimSpace(complaint.String())))
	}
	if err != nil && l.Violations == 0 && l.noticed() == controls {
		return l, fmt.Errorf("the simulation failed though its figures are good: %w", err)
	}
	return l, nil
}

// read finds the line of figures and passes the names of the stages on.
func read(out io.Reader, progress io.Writer) (line, error) {
	var l line
	found := false
	last := ""
	scanner := bufio.NewScanner(out)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		text := scanner.Text()
		if stage, ok := strings.CutPrefix(text, "=== RUN   TestSimulate/"); ok && !strings.Contains(stage, "/") {
			fmt.Fprintf(progress, "  … %s\n", stage)
		}
		if body, ok := strings.CutPrefix(text, mark); ok {
			if err := json.Unmarshal([]byte(body), &l); err != nil {
				return l, fmt.Errorf("reading the figures of the simulation: %w", err)
			}
			found = true
		}
		last = text
	}
	if err := scanner.Err(); err != nil {
		return l, err
	}
	if !found {
		return l, fmt.Errorf("the simulation printed no figures; its last line was %q", last)
	}
	return l, nil
}

func (l line) noticed() int {
	n := 0
	for _, plays := range l.Controls {
		if plays > 0 {
			n++
		}
	}
	return n
}

func figures(l line) []report.Figure {
	return []report.Figure{
		{Name: "runs with faults", Value: float64(l.Runs), Target: runs, AtLeast: true,
			Note: fmt.Sprintf("%d with one fault, every call in every flavour; %d with two, exhaustively; %d with three to six, seed %d",
				l.Single, l.Pairs, l.Random, l.Seed)},
		{Name: "runs with every two faults", Value: float64(l.Pairs), Target: 1, AtLeast: true},
		{Name: "calls of ports", Value: float64(l.Calls)},
		{Name: "faults that struck", Value: float64(l.Faults), Target: runs, AtLeast: true},
		{Name: "restarts after a death of the process", Value: float64(l.Restarts), Target: 1, AtLeast: true},
		{Name: "runs that violate a property", Value: float64(l.Violations), None: true},
		{Name: "parts broken on purpose and noticed", Value: float64(l.noticed()), Target: controls, AtLeast: true},
	}
}

// replay plays the run of one seed and shows every call of it.
func replay(ctx context.Context, o report.Options) ([]report.Figure, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "blastdoor/engine", "-run", "^TestSimulate$", "-count=1", "-v",
		"-args", fmt.Sprintf("-simulate.play=seed %d", o.Seed))
	cmd.Stdout, cmd.Stderr = o.Progress, o.Progress
	failed := 0.0
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && ctx.Err() == nil {
		failed = 1
	} else if err != nil {
		return nil, fmt.Errorf("replaying seed %d: %w", o.Seed, err)
	}
	return []report.Figure{{Name: fmt.Sprintf("seed %d violates a property", o.Seed), Value: failed, None: true}}, nil
}
