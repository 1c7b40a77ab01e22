// Package powerloss cuts the power under the log and the simulated world. They run
// in a child process on a disk that loses what was not synced; after every cut a
// new process must find all that was acknowledged. It must not know how the log
// makes anything durable.
package powerloss

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"blastdoor"
	"blastdoor/evals/powerloss/powerfs"
	"blastdoor/evals/report"
)

// Eval is the power-loss eval.
func Eval() report.Eval {
	return report.Eval{Name: "powerloss", Short: "the power fails under the log and the simulated world", Caveat: caveat, Run: run}
}

const caveat = "a model of a disk, not a disk: it tests what is done about a disk that keeps what it has synced, and one that lies about " +
	"syncing loses data whatever is done; the engine's runner works on the real log and the real simulated world, without Slack; " +
	"a seed gives the same cuts and the same draws of what survives, not the same interleaving of several clients"

// SkippedError says that the eval cannot run on this machine. It is no pass.
type SkippedError struct{ Reason error }

func (e *SkippedError) Error() string { return "SKIPPED, WHICH IS NO PASS: " + e.Reason.Error() }
func (e *SkippedError) Unwrap() error { return e.Reason }

// Skipped says why, for whoever lists results.
func (e *SkippedError) Skipped() string { return e.Reason.Error() }

// How much is tried.
const (
	randomCuts  = 520
	controlCuts = 24
	defaultSeed = 1
)

func run(ctx context.Context, o report.Options) (figures []report.Figure, err error) {
	if err := powerfs.Available(); err != nil {
		return nil, &SkippedError{Reason: err}
	}
	clean(o.Progress)
	dir, err := os.MkdirTemp("", dirPrefix)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b, err := newBuilder(ctx, dir)
	if err != nil {
		return nil, err
	}
	e := &eval{out: o.Progress, dir: dir, builder: b, seed: cmp.Or(o.Seed, defaultSeed)}
	if err := e.shipped(ctx); err != nil {
		return nil, err
	}
	if err := e.controls(ctx); err != nil {
		return nil, err
	}
	return e.figures, nil
}

// dirPrefix begins the names of the eval's temporary directories.
const dirPrefix = "blastdoor-powerloss-"

// clean removes what killed runs have left behind. What cannot be removed is in
// nobody's way.
func clean(out io.Writer) {
	left, err := powerfs.Clean()
	for _, dir := range left {
		fmt.Fprintf(out, "  … unmounted %s, which a killed run had left behind\n", dir)
		if home := filepath.Dir(dir); strings.HasPrefix(filepath.Base(home), dirPrefix) {
			err = errors.Join(err, os.RemoveAll(home))
		}
	}
	if err != nil {
		fmt.Fprintf(out, "  … left behind by a killed run: %v\n", err)
	}
}

// eval is one run of the eval.
type eval struct {
	out     io.Writer
	dir     string
	builder builder
	seed    uint64
	base    powerfs.Image // a deployment that was just made
	figures []report.Figure
}

func (e *eval) trial(v variant, what string, every int) *trial {
	said := 0
	return &trial{variant: v, dir: e.dir, seed: e.seed, base: e.base, progress: func(t *tally) {
		if t.cuts/every > said {
			said = t.cuts / every
			fmt.Fprintf(e.out, "  … %s: %d cuts, %d acknowledgements, %d lost, %d wrong\n", what, t.cuts, t.promises, t.lost, t.wrong)
		}
	}}
}

// shipped tries the product as it is shipped: nothing may be lost.
func (e *eval) shipped(ctx context.Context) (err error) {
	fmt.Fprintf(e.out, "  … building the child, seed %d\n", e.seed)
	child, err := e.builder.child(ctx, "FULL")
	if err != nil {
		return err
	}
	if e.base, err = e.makeBase(ctx, child); err != nil {
		return err
	}
	v := variant{binary: child, policies: powerfs.Cuts(), evidence: e.dir + "-evidence"}
	t, err := e.trial(v, "random cuts", 100).random(ctx, randomCuts)
	if err != nil {
		return err
	}
	e.must("random cuts after which everything acknowledged was there", randomCuts, t)
	if t, err = e.trial(v, "every operation of a run", 100).every(ctx); err != nil {
		return err
	}
	intent := t.begun[string(blastdoor.ApplyIntendedKind)]
	if intent == 0 {
		return errors.New("no cut has hit the commit of the intent")
	}
	ways := len(powerfs.Cuts())
	e.must("the same at each operation of a run", t.cuts, t)
	e.note("%d operations, %d of them in the commit of the intent and cut %d ways each", t.cuts-intent/ways*(ways-1), intent/ways, ways)
	if v.binary, err = e.builder.bot(ctx); err != nil {
		return err
	}
	if t, err = e.trial(v, "every operation of init", 100).making(ctx); err != nil {
		return err
	}
	e.must("bot init cut at each operation: there, or can be made again", t.cuts, t)
	e.note("what survives is looked at %d ways", ways)
	return nil
}

// makeBase makes a deployment on an ordinary disk, for every trial to begin with.
func (e *eval) makeBase(ctx context.Context, child string) (powerfs.Image, error) {
	dir := filepath.Join(e.dir, "base")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	if said, err := exec.CommandContext(ctx, child, "-mode", "init", "-dir", dir).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("making a deployment: %w\n%s", err, said)
	}
	return powerfs.Load(dir)
}

// must adds a figure of cuts that all have to be survived. No cuts at all are a miss.
func (e *eval) must(name string, target int, t tally) {
	note := fmt.Sprintf("%d findings", t.wrong)
	if t.promises > 0 {
		note = fmt.Sprintf("%d acknowledgements, %d lost; %d other findings", t.promises, t.lost, t.wrong)
	}
	if t.early > 0 {
		note += fmt.Sprintf("; %d cuts while the start was finishing what it had found", t.early)
	}
	e.figures = append(e.figures, report.Figure{Name: name, Value: float64(t.survived()), Unit: "cuts", Target: float64(max(target, 1)),
		AtLeast: true, Count: t.cuts, Note: note})
	for i, example := range t.examples {
		if i == 10 {
			fmt.Fprintf(e.out, "      … and %d more\n", len(t.examples)-i)
			break
		}
		fmt.Fprintf(e.out, "      %s\n", example)
	}
}

// note adds to what the last figure says of itself.
func (e *eval) note(format string, args ...any) {
	f := &e.figures[len(e.figures)-1]
	f.Note = fmt.Sprintf(format, args...) + "; " + f.Note
}

// controls shows that the eval bites, and why a kill alone does not: settings that
// do not sync, and a disk that lies about it, must lose what was acknowledged when
// the power fails, and nothing when only the process is killed.
func (e *eval) controls(ctx context.Context) error {
	for _, c := range []struct {
		name, synchronous string
		lying, killed     bool
	}{
		{name: "synchronous NORMAL", synchronous: "NORMAL"},
		{name: "synchronous OFF", synchronous: "OFF"},
		{name: "an fsync that lies", synchronous: "FULL", lying: true},
		{name: "kill only, synchronous OFF", synchronous: "OFF", killed: true},
		{name: "kill only, an fsync that lies", synchronous: "FULL", lying: true, killed: true},
	} {
		child, err := e.builder.child(ctx, c.synchronous)
		if err != nil {
			return err
		}
		v := variant{binary: child, lying: c.lying, policies: powerfs.Cuts()}
		f := report.Figure{Name: "control, " + c.name + ": acknowledged and lost", Target: 1, AtLeast: true}
		if c.killed {
			v.policies = []powerfs.Policy{powerfs.Keep}
			f.Target, f.AtLeast, f.None = 0, false, true
		}
		t, err := e.trial(v, "control, "+c.name, controlCuts).random(ctx, controlCuts)
		if err != nil {
			return err
		}
		f.Value, f.Count = float64(t.lost), t.cuts
		f.Note = fmt.Sprintf("%d cuts, %d acknowledgements, %d other findings", t.cuts, t.promises, t.wrong)
		if c.killed {
			f.Value = float64(t.lost + t.wrong)
			f.Note += "; none is the target: a kill cannot show that anything is durable"
		}
		e.figures = append(e.figures, f)
	}
	return nil
}
