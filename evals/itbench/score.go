package itbench

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"blastdoor"
	"blastdoor/verifier"
)

// walkBound is far above any graph that a person draws; a walk that reaches it is
// an error of the eval.
const walkBound = 1_000_000

// felt is what a way of looking at the graph says of one incident.
type felt struct {
	broken  []string // direct and dependents
	reached []string // broken and downstream
}

// view answers who feels a fault of the roots. The verifier's is reach; the others
// are the negative controls.
type view func(t topology, roots []string) (felt, error)

// reach asks the verifier.
func reach(t topology, roots []string) (felt, error) {
	g, err := t.graph()
	if err != nil {
		return felt{}, err
	}
	r := verifier.Reach(g, roots, walkBound)
	if !r.Complete && len(r.Unknown) == 0 {
		return felt{}, fmt.Errorf("the walk from %v reached its bound", roots)
	}
	broken := slices.Concat(r.Direct, r.Dependents)
	return felt{broken: broken, reached: slices.Concat(broken, r.Downstream)}, nil
}

// untyped forgets that data flows from a broker to its consumers.
func untyped(t topology, roots []string) (felt, error) {
	t.Edges = slices.Clone(t.Edges)
	for i := range t.Edges {
		t.Edges[i].Kind = blastdoor.Calls
	}
	return reach(t, roots)
}

// oneStep looks no further than who depends on a root itself.
func oneStep(t topology, roots []string) (felt, error) {
	// An edge that leads nowhere from a root is turned into a loop, so that its
	// ends stay known.
	t.Edges = slices.Clone(t.Edges)
	for i, e := range t.Edges {
		if !slices.Contains(roots, e.To) {
			t.Edges[i].To = e.From
			t.Edges = append(t.Edges, edge{From: e.To, To: e.To, Kind: e.Kind})
		}
	}
	return reach(t, roots)
}

// everything says that everybody feels it, which nobody could call wrong about who
// does.
func everything(t topology, _ []string) (felt, error) {
	all := t.services()
	return felt{broken: all, reached: all}, nil
}

// score counts alerts that were foreseen.
type score struct {
	Errors, ErrorsFound   int
	Starved, StarvedFound int
	Broken, Reached       naming
	Heard                 naming // Broken, of services that raise an alert in some incident
	Missed                []miss
}

// miss is an alert of a service that was not foreseen.
type miss struct {
	incident incident
	alert    alert
	felt     felt
}

// naming counts the services that were named, over all incidents, and how many of
// them raised any alert. Quiet are the others.
type naming struct {
	Named, Right int
	Quiet        map[string]int
}

func (n *naming) add(c incident, names []string) {
	if n.Quiet == nil {
		n.Quiet = map[string]int{}
	}
	n.Named += len(names)
	for _, name := range names {
		if slices.ContainsFunc(c.Alerts, func(a alert) bool { return a.Service == name }) {
			n.Right++
		} else {
			n.Quiet[name]++
		}
	}
}

// among leaves out the services that raise no alert in any incident: whether they
// felt a fault cannot be known.
func (n naming) among(incidents []incident) naming {
	out := naming{Named: n.Named, Right: n.Right, Quiet: maps.Clone(n.Quiet)}
	for name, times := range n.Quiet {
		speaks := slices.ContainsFunc(incidents, func(c incident) bool {
			return slices.ContainsFunc(c.Alerts, func(a alert) bool { return a.Service == name })
		})
		if !speaks {
			out.Named -= times
			delete(out.Quiet, name)
		}
	}
	return out
}

func (n naming) precision() float64 { return 100 * float64(n.Right) / float64(max(1, n.Named)) }

func (n naming) String() string {
	return fmt.Sprintf("%d of the %d services named raised an alert", n.Right, n.Named)
}

// quiet lists who was named to break and raised no alert, the most frequent first.
func (s *score) quiet() string {
	names := slices.Sorted(maps.Keys(s.Broken.Quiet))
	slices.SortStableFunc(names, func(a, b string) int { return s.Broken.Quiet[b] - s.Broken.Quiet[a] })
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d×", name, s.Broken.Quiet[name])
	}
	return strings.Join(names, ", ")
}

// measure looks at every incident.
func measure(t topology, incidents []incident, look view) (score, error) {
	var s score
	for _, c := range incidents {
		f, err := look(t, c.Roots)
		if err != nil {
			return s, fmt.Errorf("incident %s: %w", c.ID, err)
		}
		s.add(c, f)
	}
	s.Heard = s.Broken.among(incidents)
	return s, nil
}

func (s *score) add(c incident, f felt) {
	for _, a := range c.Alerts {
		total, found, among := &s.Errors, &s.ErrorsFound, f.broken
		if a.Kind == starved {
			total, found, among = &s.Starved, &s.StarvedFound, f.reached
		}
		*total++
		if slices.Contains(among, a.Service) {
			*found++
		} else {
			s.Missed = append(s.Missed, miss{c, a, f})
		}
	}
	s.Broken.add(c, f.broken)
	s.Reached.add(c, f.reached)
}
