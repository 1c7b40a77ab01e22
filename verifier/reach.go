package verifier

import (
	"math/bits"
	"slices"

	"blastdoor"
)

// Reach computes who would feel a write on targets. Direct are the targeted
// services and those that live on a targeted host. From them breakage travels
// against dependence (Dependents), and from everything broken requests and data
// travel along the flow (Downstream). Protected are the protected names among the
// broken services and the targeted hosts.
//
// The walk visits at most bound services. Reaching the bound makes the radius
// incomplete, as do a nil graph and a target that the graph does not know: what
// was not looked at is never small. Direct is never cut.
func Reach(g *blastdoor.Graph, targets []string, bound int) blastdoor.Radius {
	if g == nil {
		return blastdoor.Radius{Direct: []string{}, Dependents: []string{}, Unknown: sortedUnique(targets)}
	}
	s := locate(g, targets)
	w := walk{reached: slices.Clone(s.direct), frontier: s.direct.members(), room: bound - s.direct.count()}
	complete := w.follow(g.Dependents)
	broken := slices.Clone(w.reached)
	if complete {
		complete = w.starve(g)
	}
	return blastdoor.Radius{
		Direct:     names(g, s.direct, nil),
		Dependents: names(g, broken, s.direct),
		Downstream: orNil(names(g, w.reached, broken)),
		Hosts:      orNil(names(g, s.hosts, nil)),
		Protected:  protected(g, broken, s.targetHosts),
		Unknown:    sortedUnique(s.unknown),
		Complete:   complete && len(s.unknown) == 0,
	}
}

// site is where a write happens.
type site struct {
	direct      bitset // services that are targets, or live on a target
	targetHosts bitset
	hosts       bitset // the targeted ones, and those that direct services run on
	unknown     []string
}

func locate(g *blastdoor.Graph, targets []string) site {
	s := site{direct: newBitset(g), targetHosts: newBitset(g), hosts: newBitset(g)}
	touch := func(service int32) {
		s.direct.add(service)
		for _, host := range g.Hosts(service) {
			s.hosts.add(host)
		}
	}
	for _, name := range targets {
		n, ok := g.Number(name)
		switch {
		case !ok:
			s.unknown = append(s.unknown, name)
		case g.IsHost(n):
			s.targetHosts.add(n)
			s.hosts.add(n)
			for _, service := range g.Residents(n) {
				touch(service)
			}
		default:
			touch(n)
		}
	}
	return s
}

// walk is a breadth-first walk, level by level, that never visits a service twice.
type walk struct {
	reached  bitset
	frontier []int32 // the services of the newest level
	room     int     // how many more services may be visited; at 0 the bound is reached
}

// follow extends the walk from the frontier until nothing new is reached. It
// returns false when the bound stopped it.
func (w *walk) follow(next func(int32) []int32) bool {
	for len(w.frontier) > 0 && w.room > 0 {
		if len(w.frontier) < len(w.reached)/8 {
			w.frontier = w.few(next)
		} else {
			w.frontier = w.many(next)
		}
		w.room -= len(w.frontier)
	}
	return w.room > 0
}

// few finds the next level one service at a time. It is for small levels, so that
// a long thin chain does not cost a pass over the whole set per link.
func (w *walk) few(next func(int32) []int32) (found []int32) {
	for _, from := range w.frontier {
		for _, n := range next(from) {
			if w.reached.has(n) {
				continue
			}
			w.reached.add(n)
			if found = append(found, n); len(found) == w.room {
				return found
			}
		}
	}
	return found
}

// many finds the next level of a large one: it marks everything that the level
// leads to and then takes away what was reached before. That has no branch to
// guess wrong, and the next level comes out in the order in which the graph lies
// in memory; on a large graph it halves the time.
func (w *walk) many(next func(int32) []int32) []int32 {
	fresh := make(bitset, len(w.reached))
	for _, from := range w.frontier {
		for _, n := range next(from) {
			fresh.add(n)
		}
	}
	for i := range fresh {
		fresh[i] &^= w.reached[i]
	}
	found := fresh.members()
	found = found[:min(len(found), w.room)]
	for _, n := range found {
		w.reached.add(n)
	}
	return found
}

// starve extends the walk from everything reached along the flow. When little is
// left that could starve, it asks that little where its requests and data come
// from: on a large graph that is a few rows instead of nearly all.
func (w *walk) starve(g *blastdoor.Graph) bool {
	rest := w.unreached(g)
	if len(rest) >= w.reached.count()/8 {
		w.frontier = w.reached.members()
		return w.follow(g.Flows)
	}
	for again := true; again && w.room > 0; {
		again = false
		rest = slices.DeleteFunc(rest, func(n int32) bool {
			if w.room == 0 || !slices.ContainsFunc(g.Sources(n), w.reached.has) {
				return false
			}
			w.reached.add(n)
			w.room--
			again = true
			return true
		})
	}
	return w.room > 0
}

// unreached returns the services that the walk has not reached.
func (w *walk) unreached(g *blastdoor.Graph) (out []int32) {
	for i, word := range w.reached {
		for word = ^word; word != 0; word &= word - 1 {
			n := int32(i<<6 + bits.TrailingZeros64(word))
			if int(n) < g.Len() && !g.IsHost(n) {
				out = append(out, n)
			}
		}
	}
	return out
}

// bitset is a set of node numbers. It is small enough to stay in the cache during
// a walk, and reading it upwards yields sorted names without sorting.
type bitset []uint64

func newBitset(g *blastdoor.Graph) bitset { return make(bitset, (g.Len()+63)/64) }

func (b bitset) has(n int32) bool { return b[uint32(n)/64]&(1<<(uint32(n)%64)) != 0 }
func (b bitset) add(n int32)      { b[uint32(n)/64] |= 1 << (uint32(n) % 64) }

func (b bitset) count() (n int) {
	for _, word := range b {
		n += bits.OnesCount64(word)
	}
	return n
}

// members returns the members in ascending order.
func (b bitset) members() []int32 {
	to := make([]int32, 0, b.count())
	for i, word := range b {
		for ; word != 0; word &= word - 1 {
			to = append(to, int32(i<<6+bits.TrailingZeros64(word)))
		}
	}
	return to
}

// names returns the sorted names of the members of b that are not in less.
func names(g *blastdoor.Graph, b, less bitset) []string {
	if less != nil {
		b = slices.Clone(b)
		for i := range b {
			b[i] &^= less[i]
		}
	}
	out := make([]string, 0, b.count())
	for i, word := range b {
		for ; word != 0; word &= word - 1 {
			out = append(out, g.Name(int32(i<<6+bits.TrailingZeros64(word))))
		}
	}
	return out
}

func protected(g *blastdoor.Graph, broken, targetHosts bitset) (out []string) {
	for i := range broken {
		for word := broken[i] | targetHosts[i]; word != 0; word &= word - 1 {
			if n := int32(i<<6 + bits.TrailingZeros64(word)); g.IsProtected(n) {
				out = append(out, g.Name(n))
			}
		}
	}
	return out
}

// orNil keeps an optional list out of the canonical JSON when it is empty.
func orNil(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	return list
}

func sortedUnique(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return orNil(slices.Compact(list))
}
