// Package explore walks the pure core of the engine through every interleaving of
// commands, clicks, clock steps, changes of world and rules, outcomes of writes,
// crashes and lost leases, over a small model, and checks the properties of DESIGN
// section 3 after each transition. It drives Decide, Evolve, Next and Project and
// nothing else of the product: it must not know of Slack, SQL or any real environment.
package explore

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"

	"blastdoor/evals/report"
)

// Eval is the exhaustive exploration.
func Eval() report.Eval {
	return report.Eval{Name: "explore", Short: "the pure core through every interleaving of a small model", Caveat: caveat, Run: run}
}

const caveat = "exhaustive within its bounds only: at most two runs, one target, three steps, five people, cards that live two seconds, " +
	"one or two disturbances; an environment that answers Unknown while a write is on its way, and one owner of the journal at a time " +
	"(the controls show what breaks without either); checks and rollbacks have no producer yet and are not in it"

// part is a bounded model that is walked to its end.
type part struct {
	name   string
	bounds bounds
}

// A state that two parts have in common is counted once.
var parts = [...]part{
	{"one run, two disturbances, leases lost", bounds{runs: 1, disturb: 2, stale: true}},
	{"two runs on one target", bounds{runs: 2}},
}

// limit is where a part is given up; it is then reported as not exhausted.
const limit = 5_000_000

// sampled: every n-th state is also held against engine.CheckProperties, which
// reads the whole history.
const sampled = 256

// control is a model that is broken on purpose, and the property that must say so.
type control struct {
	name   string
	bounds bounds
	flaws  flaws
	want   string
}

func controls() []control {
	one, two, leases := bounds{runs: 1}, bounds{runs: 2}, bounds{runs: 1, stale: true}
	return []control{
		{"an approval is not consumed", one, flaws{reusesApproval: true}, "property 4"},
		{"expiry is compared the wrong way", one, flaws{countsAtExpiry: true}, "property 3"},
		{"the environment ignores key and version", one, flaws{naive: true}, "property 1"},
		{"the environment ignores the key", one, flaws{ignoresKey: true}, "property 5"},
		{"the look before the write is skipped", bounds{runs: 1, disturb: 1}, flaws{skipsRecheck: true}, "truth"},
		{"the requester may approve", one, flaws{selfApproval: true}, "property 3"},
		{"the journal does not check for conflicts", leases, flaws{noConflict: true}, "property 7"},
		{"targets are not locked", two, flaws{noLocks: true}, "property 10"},
		{"Lookup guesses while a write is on its way", one, flaws{guesses: true}, "property 5"},
		{"a lost lease is noticed by the length alone", leases, flaws{lengthOnly: true}, "property 5"},
		{"a worker writes without its lease", leases, flaws{writesStale: true}, "property 5"},
	}
}

func run(ctx context.Context, o report.Options) ([]report.Figure, error) {
	// States live until the end: collecting less often halves the time.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	caught, err := tryControls(ctx, o.Progress)
	if err != nil {
		return nil, err
	}
	total := found{exhausted: true}
	var before []map[[16]byte]uint32
	for _, p := range parts {
		fmt.Fprintf(o.Progress, "  … %s\n", p.name)
		s, err := walk(ctx, p.bounds, flaws{}, o.Progress)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		f := s.found
		how := "exhausted"
		if !f.exhausted {
			how = "NOT exhausted"
		}
		fmt.Fprintf(o.Progress, "    %s: %d states, %d transitions, depth %d\n", how, f.states, f.transitions, f.depth)
		if f.breach != "" {
			tell(o.Progress, f)
		}
		f.states = countNew(s.number, before)
		before = append(before, s.number)
		total.add(f)
	}
	return figures(total, caught), nil
}

// countNew counts the states that no earlier part has seen.
func countNew(states map[[16]byte]uint32, before []map[[16]byte]uint32) int {
	n := 0
	for sum := range states {
		if !slices.ContainsFunc(before, func(m map[[16]byte]uint32) bool { _, ok := m[sum]; return ok }) {
			n++
		}
	}
	return n
}

func (f *found) add(g found) {
	f.states += g.states
	f.transitions += g.transitions
	f.checked += g.checked
	f.depth = max(f.depth, g.depth)
	f.exhausted = f.exhausted && g.exhausted
	if f.breach == "" {
		f.breach = g.breach
	}
}

func walk(ctx context.Context, b bounds, f flaws, progress io.Writer) (*search, error) {
	m, err := newModel(b, f)
	if err != nil {
		return nil, err
	}
	s := newSearch(m, limit, sampled)
	_, err = s.run(ctx, progress)
	return s, err
}

// tryControls walks the broken models and counts those that are found out, by the
// property that they break.
func tryControls(ctx context.Context, progress io.Writer) (caught int, err error) {
	for _, c := range controls() {
		s, err := walk(ctx, c.bounds, c.flaws, io.Discard)
		if err != nil {
			return caught, fmt.Errorf("control %q: %w", c.name, err)
		}
		f := s.found
		if !strings.HasPrefix(f.breach, c.want) {
			fmt.Fprintf(progress, "  control NOT caught: %s (wanted %s, found %q in %d states)\n", c.name, c.want, f.breach, f.states)
			continue
		}
		caught++
		fmt.Fprintf(progress, "  control caught: %s, after %d states\n", c.name, f.states)
		tell(progress, f)
	}
	return caught, nil
}

// tell prints a violation with the shortest way to it.
func tell(w io.Writer, f found) {
	fmt.Fprintf(w, "    %s\n    shortest trace, %d moves:\n", f.breach, len(f.trace))
	line := "     "
	for i, word := range f.trace {
		item := fmt.Sprintf(" %d. %s", i+1, word)
		if len(line)+len(item) > 150 {
			fmt.Fprintln(w, line)
			line = "     "
		}
		line += item
	}
	fmt.Fprintln(w, line)
}

func figures(total found, caught int) []report.Figure {
	exhausted, violated := 0.0, 0.0
	if total.exhausted {
		exhausted = 1
	}
	if total.breach != "" {
		violated = 1
	}
	return []report.Figure{
		{Name: "distinct states", Value: float64(total.states), Target: 1_000_000, AtLeast: true,
			Note: fmt.Sprintf("%d parts; %d of the states also held against the checker that reads whole histories", len(parts), total.checked)},
		{Name: "transitions, each checked", Value: float64(total.transitions)},
		{Name: "depth, in moves", Value: float64(total.depth)},
		{Name: "parts exhausted within their bounds (1: all)", Value: exhausted, Target: 1, AtLeast: true},
		{Name: "properties violated", Value: violated, None: true, Note: total.breach},
		{Name: "models broken on purpose and found out", Value: float64(caught), Target: float64(len(controls())), AtLeast: true},
	}
}
