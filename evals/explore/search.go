package explore

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"

	"blastdoor/engine"
)

// batch is how many states are expanded between two merges: the bound on what
// waits to be merged.
const batch = 1 << 13

// none is the number of no state.
const none = ^uint32(0)

// search walks a model breadth first. Its order is fixed, so a model always gives
// the same numbers and the same shortest trace.
type search struct {
	model    *model
	number   map[[16]byte]uint32
	parents  []parent
	fair     []uint32 // the state that follows when faults have stopped; itself: quiet; none: not expanded
	frontier []node
	limit    int // states
	sample   int // every n-th state is held against engine.CheckProperties
	found    found
}

// parent says how a state was first reached.
type parent struct {
	state uint32
	move  uint8
}

type node struct {
	state  *state
	number uint32
}

// found is what a search reports.
type found struct {
	states, transitions, depth int
	exhausted                  bool
	checked                    int    // states held against engine.CheckProperties
	breach                     string // empty: every property held
	trace                      []string
	end                        *state // where the trace leads
}

// step is one transition out of a state.
type step struct {
	sum    [16]byte
	state  *state // nil: known already
	breach string
	move   uint8
	fair   bool
}

func newSearch(m *model, limit, sample int) *search {
	return &search{model: m, number: map[[16]byte]uint32{}, limit: limit, sample: sample}
}

// run walks until the model is exhausted, the limit is reached, or a property is violated.
func (s *search) run(ctx context.Context, progress io.Writer) (found, error) {
	var b printer
	start := &state{}
	start.env.version = 1
	s.add(start.fingerprint(&b), parent{state: none})
	s.frontier = []node{{start, 0}}
	for len(s.frontier) > 0 && s.found.breach == "" && len(s.parents) < s.limit {
		if err := ctx.Err(); err != nil {
			return s.found, err
		}
		if s.found.depth%5 == 0 {
			fmt.Fprintf(progress, "    depth %2d: %9d states, %9d to expand\n", s.found.depth, len(s.parents), len(s.frontier))
		}
		s.level()
	}
	s.found.states, s.found.exhausted = len(s.parents), len(s.frontier) == 0
	if s.found.breach == "" {
		s.checkProgress()
	}
	return s.found, nil
}

// add numbers a new state.
func (s *search) add(sum [16]byte, p parent) uint32 {
	n := uint32(len(s.parents))
	s.number[sum] = n
	s.parents = append(s.parents, p)
	s.fair = append(s.fair, none)
	return n
}

// level expands the whole frontier: batches in parallel, merged in order.
func (s *search) level() {
	s.found.depth++
	var next []node
	for chunk := range slices.Chunk(s.frontier, batch) {
		steps := make([][]step, len(chunk))
		each(len(chunk), func(i int, sc *scratch) { steps[i] = s.expand(chunk[i], sc) })
		for i, from := range chunk {
			next = s.merge(from, steps[i], next)
			if s.found.breach != "" {
				return
			}
		}
	}
	s.frontier = next
}

// scratch is what one goroutine uses again and again.
type scratch struct {
	printer printer
	moves   []move
}

// each calls f for 0 to n-1 from as many goroutines as there are processors.
func each(n int, f func(i int, sc *scratch)) {
	var wait sync.WaitGroup
	procs := runtime.GOMAXPROCS(0)
	for p := range procs {
		wait.Go(func() {
			var sc scratch
			for i := p; i < n; i += procs {
				f(i, &sc)
			}
		})
	}
	wait.Wait()
}

// expand makes every move from a state. Of a state that is known already only its
// number is kept.
func (s *search) expand(from node, sc *scratch) []step {
	m := s.model
	sc.moves = m.moves(from.state, sc.moves)
	fair, goesOn := m.fair(from.state)
	out := make([]step, 0, len(sc.moves))
	var refused [workers]int // by run: the step of the first press that was refused, and one
	for i, mv := range sc.moves {
		if mv.kind == clicks && refused[mv.run] > 0 && m.isRefused(from.state, mv) {
			out = append(out, out[refused[mv.run]-1]) // every refusal leads to the same state
			continue
		}
		next, breach := m.do(from.state, mv)
		st := step{sum: next.fingerprint(&sc.printer), breach: breach, move: uint8(i), fair: goesOn && mv == fair}
		if _, known := s.number[st.sum]; !known {
			fresh := next
			st.state = &fresh
		}
		out = append(out, st)
		if mv.kind == clicks && next.runs[mv.run].run.Refusals > from.state.runs[mv.run].run.Refusals {
			refused[mv.run] = len(out)
		}
	}
	if breach := s.whole(from); breach != "" {
		out = append(out, step{breach: breach, move: noMove})
	}
	return out
}

// noMove: the violation is of the state itself.
const noMove = 255

// whole holds a sample of the states against engine.CheckProperties and a fold of
// the history.
func (s *search) whole(n node) string {
	if n.number%uint32(s.sample) != 0 {
		return ""
	}
	if breach := s.model.refold(n.state); breach != "" {
		return breach
	}
	if list := engine.CheckProperties(s.model.evidence(n.state)); len(list) > 0 {
		return strings.Join(list, "; ")
	}
	return ""
}

func (s *search) merge(from node, steps []step, next []node) []node {
	if from.number%uint32(s.sample) == 0 {
		s.found.checked++
	}
	if s.model.isQuiet(from.state) {
		s.fair[from.number] = from.number
	}
	for i := range steps {
		st := &steps[i]
		if st.breach != "" {
			s.found.breach = st.breach
			s.trace(from.number, st.move)
			return next
		}
		s.found.transitions++
		number, known := s.number[st.sum]
		if !known {
			number = s.add(st.sum, parent{from.number, st.move})
			next = append(next, node{st.state, number})
		}
		if st.fair {
			s.fair[from.number] = number
		}
	}
	return next
}

// checkProgress: 8. From every state that was expanded, the way without faults
// ends in a quiet state, or where the search has not been; it never goes round.
func (s *search) checkProgress() {
	const unseen, passing, fine = 0, 1, 2
	mark := make([]byte, len(s.fair))
	var path []uint32
	for start := range s.fair {
		path = path[:0]
		at := uint32(start)
		for at != none && mark[at] == unseen && s.fair[at] != at {
			mark[at] = passing
			path = append(path, at)
			at = s.fair[at]
		}
		if at != none && mark[at] == passing {
			s.found.breach = "property 8: without faults and clicks a run goes round for ever"
			s.trace(at, noMove)
			return
		}
		for _, n := range path {
			mark[n] = fine
		}
	}
}

// trace replays the way to a state and says what happened on it.
func (s *search) trace(to uint32, last uint8) {
	var way []uint8
	if last != noMove {
		way = append(way, last)
	}
	for s.parents[to].state != none {
		way = append(way, s.parents[to].move)
		to = s.parents[to].state
	}
	slices.Reverse(way)
	at := state{}
	at.env.version = 1
	for _, i := range way {
		mv := s.model.moves(&at, nil)[i]
		next, _ := s.model.do(&at, mv)
		s.found.trace = append(s.found.trace, s.model.tell(&at, &next, mv))
		at = next
	}
	s.found.end = &at
}
