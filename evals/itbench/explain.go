package itbench

import (
	"fmt"
	"slices"
	"strings"

	"blastdoor"
)

// explain says why an alert was not foreseen, as facts computed from the graph and
// from the incident's own account.
func explain(t topology, m miss) string {
	who := m.alert.Service
	known := t.services()
	for _, root := range m.incident.Roots {
		if !slices.Contains(known, root) {
			return fmt.Sprintf("the graph does not know the root cause %s", root)
		}
	}
	if !slices.Contains(known, who) {
		return fmt.Sprintf("the graph does not know %s", who)
	}
	facts := []string{fmt.Sprintf("no path of dependence from %s to %s", who, strings.Join(m.incident.Roots, " or "))}
	if needs := t.dependencies(who); len(needs) == 0 {
		facts = append(facts, "it depends on nothing")
	} else {
		facts = append(facts, "it depends on "+strings.Join(needs, ", ")+" alone")
	}
	if way := path(t.flows, m.felt.broken, who); way != nil {
		facts = append(facts, fmt.Sprintf("it is downstream (%s)", strings.Join(way, " → ")))
	} else {
		facts = append(facts, "nothing flows to it from what breaks")
	}
	return strings.Join(append(facts, m.account(t)), "; ")
}

// account is how the incident's own account says that the fault got there.
func (m miss) account(t topology) string {
	var says []string
	for _, p := range m.incident.Propagations {
		if p[1] != m.alert.Service {
			continue
		}
		word := "no such edge in the graph"
		if slices.ContainsFunc(t.Edges, func(e edge) bool { return e.From == p[1] && e.To == p[0] }) {
			word = "an edge of the graph"
		} else if slices.ContainsFunc(t.Edges, func(e edge) bool { return e.From == p[0] && e.To == p[1] }) {
			word = "against the edge of the graph"
		} else if !slices.Contains(t.services(), p[0]) {
			word = "not a service of the graph"
		}
		says = append(says, fmt.Sprintf("%s → %s (%s)", p[0], p[1], word))
	}
	if len(says) == 0 {
		return "the incident's account does not say how it got there"
	}
	return "the incident's account: " + strings.Join(says, ", ")
}

// dependencies are all services that one depends on, transitively, without itself.
func (t topology) dependencies(of string) []string {
	seen := map[string]bool{of: true}
	var found []string
	for queue := []string{of}; len(queue) > 0; queue = queue[1:] {
		for _, e := range t.Edges {
			if e.From == queue[0] && !seen[e.To] {
				seen[e.To] = true
				found, queue = append(found, e.To), append(queue, e.To)
			}
		}
	}
	slices.Sort(found)
	return found
}

// flows are the services to which requests or data flow from one directly.
func (t topology) flows(from string) []string {
	var to []string
	for _, e := range t.Edges {
		switch {
		case e.Kind == blastdoor.Consumes && e.To == from:
			to = append(to, e.From)
		case e.Kind != blastdoor.Consumes && e.From == from:
			to = append(to, e.To)
		}
	}
	return to
}

// path is a shortest way from any of the starts to the goal, or nil.
func path(next func(string) []string, starts []string, goal string) []string {
	before := map[string]string{}
	for _, s := range starts {
		before[s] = ""
	}
	for queue := slices.Clone(starts); len(queue) > 0; queue = queue[1:] {
		if queue[0] == goal {
			var way []string
			for at := goal; at != ""; at = before[at] {
				way = append(way, at)
			}
			slices.Reverse(way)
			return way
		}
		for _, n := range next(queue[0]) {
			if _, seen := before[n]; !seen {
				before[n] = queue[0]
				queue = append(queue, n)
			}
		}
	}
	return nil
}
