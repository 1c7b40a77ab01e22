// Package itbench holds the radius against incidents that others have recorded: a
// public call graph, the root cause of each incident, and who failed and who
// starved in it. It knows the graph and the verifier, and must not know the bot.
package itbench

import (
	"context"
	"fmt"
	"io"

	"blastdoor/evals/report"
)

// The targets are what a first probe with typed edges found in the shipped data.
const (
	errorsWanted  = 53
	starvedWanted = 59
)

// Eval is the itbench eval.
func Eval() report.Eval {
	return report.Eval{Name: "itbench", Short: "the radius against 16 public incidents", Run: run,
		Caveat: "16 incidents of one demo shop with 30 services, felt through the alerts that its monitors raised: " +
			"the radius is asked to miss nobody, so it names services that bore the fault without an alert (precision); " +
			"the verifier alone, without bot or Slack"}
}

func run(_ context.Context, o report.Options) ([]report.Figure, error) {
	t, incidents, err := load(o.Graph, o.Cases)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(o.Progress, "  … %d incidents on a graph of %d services and %d dependencies\n", len(incidents), len(t.services()), len(t.Edges))
	scores := map[string]score{}
	for _, way := range []struct {
		name string
		look view
	}{{"reach", reach}, {"untyped", untyped}, {"one step", oneStep}, {"everything", everything}} {
		if scores[way.name], err = measure(t, incidents, way.look); err != nil {
			return nil, fmt.Errorf("%s: %w", way.name, err)
		}
	}
	tell(o.Progress, t, scores["reach"])
	shippedData := o.Graph == "" && o.Cases == ""
	return figures(scores["reach"], scores["untyped"], scores["one step"], scores["everything"], shippedData), nil
}

// tell explains every alert that was not foreseen.
func tell(w io.Writer, t topology, s score) {
	for _, m := range s.Missed {
		fmt.Fprintf(w, "  missed: %s, %s of %s (%s): %s\n", m.incident.ID, m.alert.Alert, m.alert.Service, m.alert.Kind, explain(t, m))
	}
	fmt.Fprintf(w, "  named to break without an alert: %s\n", s.quiet())
}

// figures judges the scores. Targets and controls belong to the shipped data; what
// others bring is measured and not judged.
func figures(s, untyped, oneStep, everything score, judged bool) []report.Figure {
	out := []report.Figure{
		{Name: "error alerts in direct + dependents", Value: float64(s.ErrorsFound), Unit: "alerts", Count: s.Errors, Target: errorsWanted, AtLeast: true,
			Note: fmt.Sprintf("of %d", s.Errors)},
		{Name: "starved alerts in direct + dependents + downstream", Value: float64(s.StarvedFound), Unit: "alerts", Count: s.Starved, Target: starvedWanted,
			AtLeast: true, Note: fmt.Sprintf("of %d", s.Starved)},
		{Name: "precision of direct + dependents", Value: s.Broken.precision(), Unit: "%", Count: s.Broken.Named, Note: s.Broken.String()},
		{Name: "the same, among services that ever raise an alert", Value: s.Heard.precision(), Unit: "%", Count: s.Heard.Named, Note: s.Heard.String()},
		{Name: "precision of direct + dependents + downstream", Value: s.Reached.precision(), Unit: "%", Count: s.Reached.Named, Note: s.Reached.String()},
		{Name: "control: precision when every service is named", Value: everything.Broken.precision(), Unit: "%", Target: s.Broken.precision(),
			Note: "it misses nobody, so only precision tells it from an answer"},
		{Name: "control: starved alerts when edges have no type", Value: float64(untyped.StarvedFound), Unit: "alerts", Target: float64(s.StarvedFound - 1),
			Note: "it must find fewer, else the types do nothing"},
		{Name: "control: error alerts when dependents are not transitive", Value: float64(oneStep.ErrorsFound), Unit: "alerts", Target: float64(s.ErrorsFound - 1),
			Note: "it must find fewer, else the walk does nothing"},
	}
	if !judged {
		for i := range out {
			out[i].Target = 0
		}
	}
	return out
}
