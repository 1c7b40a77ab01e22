package crash

import (
	"cmp"
	"slices"
	"strings"
)

// pair names two boundaries at which a run is killed one right after the other: the
// second in the process that took over from the first.
type pair struct{ first, second string }

func (p pair) String() string { return p.first + ", " + p.second }

// place is where a pair can be met.
type place struct{ first, second point }

func (p place) pair() pair { return pair{p.first.boundary, p.second.boundary} }

// maxChain bounds the kills of one run, so that a finding can still be understood.
const maxChain = 12

// maxRounds bounds how often a pair is tried, each time at another place. What is
// posted when runs beside what the engine does, so the second point of a place is
// not met every time.
const maxRounds = 8

// planner finds runs with several kills that meet every pair of boundaries. It
// learns from the runs with one kill what can come after a point: all that their
// second processes passed.
type planner struct {
	places map[pair][]place
	after  map[point][]place // nearest first
	met    map[pair]bool
	round  int
}

func newPlanner(passed map[point][]point) *planner {
	p := &planner{places: map[pair][]place{}, after: map[point][]place{}, met: map[pair]bool{}}
	for _, first := range everyPoint() {
		for _, second := range passed[first] {
			if !canFollow(first, second) {
				continue
			}
			here := place{first, second}
			p.after[first] = append(p.after[first], here)
			p.places[here.pair()] = append(p.places[here.pair()], here)
		}
	}
	for _, places := range p.places {
		// A pair that was missed is tried where it is surest: late in the run, where
		// the question has been asked and only one thing happens at a time.
		slices.SortStableFunc(places, func(a, b place) int { return cmp.Compare(sureness(b), sureness(a)) })
	}
	return p
}

// canFollow leaves out what cannot be brought about: a second update of one card, and
// the finding of a message that only by chance was not recorded.
func canFollow(first, second point) bool {
	if strings.HasPrefix(second.boundary, "after_adoption") {
		return first.boundary == "after_post_before_record"
	}
	return slices.Contains(everyPoint(), second)
}

func sureness(p place) int {
	n := 0
	for _, subject := range []string{p.first.subject, p.second.subject} {
		if subject == asking || subject == "decision" {
			n++
		}
	}
	return n
}

// missing returns the pairs that have not been met, in the order of the points.
func (p *planner) missing() []pair {
	var out []pair
	for _, first := range everyPoint() {
		for _, here := range p.after[first] {
			if pair := here.pair(); !p.met[pair] && !slices.Contains(out, pair) {
				out = append(out, pair)
			}
		}
	}
	return out
}

// next plans runs for what is missing: chains in the first round, then one pair
// a run.
func (p *planner) next() [][]kill {
	p.round++
	if p.round > maxRounds {
		return nil
	}
	if p.round > 1 {
		var runs [][]kill
		for _, pair := range p.missing() {
			places := p.places[pair]
			here := places[(p.round-2)%len(places)]
			runs = append(runs, []kill{at(here.first), at(here.second)})
		}
		return runs
	}
	return p.chains()
}

func (p *planner) chains() [][]kill {
	var runs [][]kill
	planned := map[pair]bool{}
	for _, first := range everyPoint() {
		for {
			chain := p.chain(first, planned)
			if len(chain) < 2 {
				break
			}
			runs = append(runs, chain)
		}
	}
	return runs
}

// chain plans one run: each kill follows the one before as closely as it can.
func (p *planner) chain(from point, planned map[pair]bool) []kill {
	chain := []kill{at(from)}
	for len(chain) < maxChain {
		i := slices.IndexFunc(p.after[from], func(here place) bool { return !planned[here.pair()] && here.inOrder() })
		if i < 0 {
			break
		}
		here := p.after[from][i]
		planned[here.pair()] = true
		chain = append(chain, at(here.second))
		from = here.second
	}
	return chain
}

func (p place) inOrder() bool { return inOrder(p.first) && inOrder(p.second) }

// inOrder reports whether a point has one place in the order of things. What is
// posted and updated beside the engine's work has none, unless somebody waits for it.
func inOrder(p point) bool {
	switch p.subject {
	case "restart", "widen", "run_card":
		return !strings.HasSuffix(p.boundary, "_record") && p.boundary != "before_attempt" && p.boundary != "before_post"
	}
	return !strings.HasPrefix(p.boundary, "after_update")
}

// note records the pairs that a run met.
func (p *planner) note(r result) {
	for i := 1; i < r.reached; i++ {
		p.met[pair{r.kills[i-1].at.boundary, r.kills[i].at.boundary}] = true
	}
}
