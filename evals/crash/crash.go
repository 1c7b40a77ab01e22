// Package crash kills the real bot at every boundary of a run and holds what is left
// against an uninterrupted run. It drives the bot over the simulated workspace only:
// it must not know how the bot recovers.
package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"blastdoor/evals/report"
)

// Eval is the crash matrix with its negative controls.
func Eval() report.Eval {
	return report.Eval{Name: "crash", Short: "SIGKILL at every boundary, in pairs, and at random instants", Caveat: caveat, Run: run}
}

const caveat = "a killed process loses nothing that it has written, so this says nothing about a power cut; pairs of boundaries are met " +
	"one right after the other, most of them in runs with up to 12 kills; which pairs can follow each other is learnt from the " +
	"runs with one kill; times of messages are not compared, nor how often a private answer is repeated"

// randomRuns is how many runs are killed at a random instant.
const randomRuns = 200

// matrix is one run of the eval.
type matrix struct {
	*workshop
	o     report.Options
	sound bench

	singles, pairs, random tally
	struck                 map[point]bool // where kills at random instants struck
	planner                *planner
	plain                  int // traces of crash points in the binary that is shipped
	controls               []verdict
}

func run(ctx context.Context, o report.Options) (figures []report.Figure, err error) {
	w, err := newWorkshop(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	m := &matrix{workshop: w, o: o}
	for _, part := range []struct {
		name string
		play func(context.Context) error
	}{
		{"building the bot with and without crash points", m.prepare},
		{"one kill: every step × every boundary", m.playSingles},
		{"one kill after another: every pair of boundaries", m.playPairs},
		{"one kill at a random instant", m.playRandom},
		{"negative controls: five builds that are broken on purpose", m.playControls},
	} {
		began := time.Now()
		fmt.Fprintf(o.Progress, "  … %s\n", part.name)
		if err := part.play(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", part.name, err)
		}
		fmt.Fprintf(o.Progress, "    %.1f s\n", time.Since(began).Seconds())
	}
	return m.figures(), nil
}

// prepare builds the bot and takes the end of an uninterrupted run.
func (m *matrix) prepare(ctx context.Context) error {
	shipped, err := m.build(ctx, "")
	if err != nil {
		return err
	}
	if m.plain, err = traces(shipped); err != nil {
		return err
	}
	if m.sound, err = m.openBench(ctx, "crashpoints"); err != nil {
		return err
	}
	// A second uninterrupted run must end the same, or the comparison means nothing.
	again, err := m.sound.play(ctx)
	if err != nil {
		return err
	}
	if !again.sound() {
		return fmt.Errorf("two uninterrupted runs differ: %v", again.differs)
	}
	m.sound.usual = min(m.sound.usual, again.length)
	return hasEveryBoundary(again.first)
}

// hasEveryBoundary reports boundaries that the bot passes and the matrix has not.
func hasEveryBoundary(passed []point) error {
	known := boundaries(everyPoint())
	for _, name := range boundaries(passed) {
		if !slices.Contains(known, name) {
			return fmt.Errorf("the bot passes %s, which is not in the matrix: add it to everyPoint", name)
		}
	}
	return nil
}

// openBench builds a bot and takes the end of an uninterrupted run of it.
func (w *workshop) openBench(ctx context.Context, tags string) (bench, error) {
	binary, err := w.build(ctx, tags)
	if err != nil {
		return bench{}, err
	}
	b := bench{workshop: w, binary: binary, limit: caseLimit}
	r, err := b.play(ctx)
	if err != nil {
		return bench{}, err
	}
	if !r.sound() || r.lost || r.end.duplicates+r.end.doubled > 0 {
		return bench{}, fmt.Errorf("without a kill, the bot with the tags %q does not end well: %v", tags, r.differs)
	}
	b.want, b.usual = &r.end, r.length
	return b, nil
}

func (m *matrix) playSingles(ctx context.Context) error {
	points := everyPoint()
	runs := make([][]kill, len(points))
	for i, p := range points {
		runs[i] = []kill{at(p)}
	}
	m.singles = tally{out: m.o.Progress, total: len(runs)}
	passed := map[point][]point{}
	err := m.sound.playAll(ctx, runs, func(r result) {
		m.singles.add(r)
		passed[*r.kills[0].at] = r.second
	})
	m.planner = newPlanner(passed)
	return err
}

func (m *matrix) playPairs(ctx context.Context) error {
	m.pairs = tally{out: m.o.Progress}
	for runs := m.planner.next(); len(runs) > 0; runs = m.planner.next() {
		fmt.Fprintf(m.o.Progress, "    %d of %d pairs left, in %d runs\n", len(m.planner.missing()), len(m.planner.places), len(runs))
		m.pairs.total += len(runs)
		err := m.sound.playAll(ctx, runs, func(r result) {
			m.pairs.add(r)
			m.planner.note(r)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *matrix) playRandom(ctx context.Context) error {
	seed := m.o.Seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	fmt.Fprintf(m.o.Progress, "    seed %d; within the %.0f ms of an uninterrupted run\n", seed, float64(m.sound.usual)/float64(time.Millisecond))
	rng := rand.New(rand.NewPCG(seed, 0))
	runs := make([][]kill, randomRuns)
	for i := range runs {
		runs[i] = []kill{{after: 1 + time.Duration(rng.Int64N(int64(m.sound.usual)))}}
	}
	m.random = tally{out: m.o.Progress, total: len(runs)}
	m.struck = map[point]bool{}
	return m.sound.playAll(ctx, runs, func(r result) {
		m.random.add(r)
		if n := len(r.first); n > 0 {
			m.struck[r.first[n-1]] = true
		}
	})
}

// figures are what was measured.
func (m *matrix) figures() []report.Figure {
	share := func(n, of int) float64 { return 100 * float64(n) / float64(max(of, 1)) }
	whole := func(name string, n, of int, note string) report.Figure {
		return report.Figure{Name: name, Value: share(n, of), Unit: "%", Target: 100, AtLeast: true, Count: of, Note: note}
	}
	none := func(name string, n, of int) report.Figure {
		return report.Figure{Name: name, Value: float64(n), None: true, Count: of}
	}
	pairs := len(m.planner.places)
	met := pairs - len(m.planner.missing())
	all := []*tally{&m.singles, &m.pairs, &m.random}
	var runs, kills, duplicates, lost, doubled int
	for _, t := range all {
		runs, kills = runs+t.cases, kills+t.kills
		duplicates, lost, doubled = duplicates+t.duplicates, lost+t.lost, doubled+t.doubled
	}
	caught := 0
	for _, c := range m.controls {
		if c.caught {
			caught++
		}
	}
	return []report.Figure{
		{Name: "kills of the real process", Value: float64(kills), Count: runs, Note: fmt.Sprintf("in %d runs; %d boundaries, %d points",
			runs, len(boundaries(everyPoint())), len(everyPoint()))},
		whole("one kill: points reached", m.singles.reached, m.singles.total, fmt.Sprintf("%d of %d", m.singles.reached, m.singles.total)),
		whole("one kill: ended as if uninterrupted", m.singles.sound, m.singles.total, ""),
		{Name: "pairs of boundaries met", Value: share(met, pairs), Unit: "%", Target: 99, AtLeast: true, Count: pairs,
			Note: fmt.Sprintf("%d of %d, in %d runs%s", met, pairs, m.pairs.cases, m.notMet())},
		whole("pairs: ended as if uninterrupted", m.pairs.sound, m.pairs.total, ""),
		whole("random instants: ended as if uninterrupted", m.random.sound, m.random.total,
			fmt.Sprintf("%d runs, struck behind %d different points", m.random.total, len(m.struck))),
		none("duplicate writes", duplicates, runs),
		none("lost approvals", lost, runs),
		none("doubled run cards", doubled, runs),
		{Name: "negative controls caught", Value: float64(caught), Target: float64(len(controls())), AtLeast: true, Note: m.words()},
		none("traces of crash points in the shipped binary", m.plain, 0),
	}
}

// notMet names the pairs that were seen to be possible and could not be brought about.
func (m *matrix) notMet() string {
	missing := m.planner.missing()
	if len(missing) == 0 {
		return ""
	}
	return fmt.Sprintf("; not met: %v", missing)
}
