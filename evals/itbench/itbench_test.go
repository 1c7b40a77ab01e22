package itbench

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"blastdoor"
	"blastdoor/evals/report"
)

func TestTheShippedDataPasses(t *testing.T) {
	var out strings.Builder
	figures, err := Eval().Run(context.Background(), report.Options{Progress: &out})
	require.NoError(t, err)
	r := report.New(Eval(), figures, time.Now())
	r.Print(&out)
	require.True(t, r.Passed, out.String())
	require.Contains(t, out.String(), "no path of dependence from ad to cart; it depends on flagd alone; it is downstream (frontend → ad)")
	require.Equal(t, 4, strings.Count(out.String(), "  missed: "), "each miss is explained")
}

// TestAWorseRadiusFails: each way of looking at the graph that the controls use,
// taken for the verifier's, falls short of a target.
func TestAWorseRadiusFails(t *testing.T) {
	topo, incidents, err := load("", "")
	require.NoError(t, err)
	nothing := func(topology, []string) (felt, error) { return felt{}, nil }
	for name, look := range map[string]view{"untyped": untyped, "one step": oneStep, "everything": everything, "nothing": nothing} {
		s, err := measure(topo, incidents, look)
		require.NoError(t, err)
		u, _ := measure(topo, incidents, untyped)
		one, _ := measure(topo, incidents, oneStep)
		all, _ := measure(topo, incidents, everything)
		if name == "everything" { // finds all there is to find
			require.Equal(t, []int{57, 59}, []int{s.ErrorsFound, s.StarvedFound})
			sound, _ := measure(topo, incidents, reach)
			require.Less(t, s.Broken.precision(), sound.Broken.precision())
			continue
		}
		require.False(t, report.New(Eval(), figures(s, u, one, all, true), time.Now()).Passed, name)
	}
}

// small is a shop whose radius can be seen with the eye.
func small(t *testing.T, edges ...edge) topology {
	t.Helper()
	_, err := topology{Edges: edges}.graph()
	require.NoError(t, err)
	return topology{Edges: edges}
}

func TestExplanationsAreComputed(t *testing.T) {
	topo := small(t, edge{"web", "api", blastdoor.Calls}, edge{"api", "queue", blastdoor.Publishes}, edge{"mail", "queue", blastdoor.Consumes},
		edge{"island", "sea", blastdoor.Calls})
	for _, c := range []struct {
		who, kind string
		roots     []string
		account   [][2]string
		says      string
	}{
		{"mail", "error", []string{"api"}, [][2]string{{"queue", "mail"}}, "no path of dependence from mail to api; it depends on queue alone; " +
			"it is downstream (api → queue → mail); the incident's account: queue → mail (an edge of the graph)"},
		{"queue", "error", []string{"api"}, [][2]string{{"api", "queue"}}, "it depends on nothing; it is downstream (api → queue); " +
			"the incident's account: api → queue (against the edge of the graph)"},
		{"island", "starved", []string{"web"}, [][2]string{{"chaos", "island"}}, "nothing flows to it from what breaks; the incident's account: chaos → island (not a service of the graph)"},
		{"island", "error", []string{"web"}, nil, "the incident's account does not say how it got there"},
		{"moon", "error", []string{"web"}, nil, "the graph does not know moon"},
		{"web", "error", []string{"moon"}, nil, "the graph does not know the root cause moon"},
	} {
		one := incident{ID: "x", Roots: c.roots, Propagations: c.account, Alerts: []alert{{c.who, "Alert", alertKind(c.kind)}}}
		s, err := measure(topo, []incident{one}, reach)
		require.NoError(t, err)
		require.Len(t, s.Missed, 1)
		require.Contains(t, explain(topo, s.Missed[0]), c.says)
	}
}

func TestOtherDataIsReadStrictly(t *testing.T) {
	const edges = `{"edges":[{"from":"web","to":"api","kind":"calls"}]}`
	const one = `{"id":"a","roots":["api"],"alerts":[{"service":"web","alert":"Slow","kind":"error"}],"propagations":[["api","web"]]}`
	for _, c := range []struct{ graph, cases, says string }{
		{`{"edges":[]}`, one, "g.json: it has no edges"},
		{`{"edges":[{"from":"a","to":"b","kind":"uses"}]}`, one, `edge 1 (a to b) has kind "uses"; it must be calls, publishes or consumes`},
		{`{"edges":[{"from":"a","kind":"calls"}]}`, one, "edge 1 needs both from and to"},
		{`{"edgse":[]}`, one, `unknown field "edgse"`},
		{edges + "{}", one, "something follows the value"},
		{edges, "", "it has no incidents"},
		{edges, one + "\n\n" + one, `c.jsonl, line 3: there is an incident "a" already`},
		{edges, strings.Replace(one, "roots", "root", 1), `line 1: json: unknown field "root"`},
		{edges, strings.Replace(one, `["api"]`, `[]`, 1), "incident a needs the names of its roots"},
		{edges, strings.Replace(one, `"kind":"error"`, `"kind":"fatal"`, 1), `has kind "fatal"; it must be error or starved`},
		{edges, strings.Replace(one, `"service":"web",`, ``, 1), "alert 1 of incident a names no service"},
		{edges, `{"id":"a","roots":["api"]}`, "incident a has no alerts"},
		{edges, `{}`, "the incident has no id"},
	} {
		_, _, err := load(write(t, "g.json", c.graph), write(t, "c.jsonl", c.cases))
		require.ErrorContains(t, err, c.says)
	}
	_, _, err := load(filepath.Join(t.TempDir(), "none"), "")
	require.ErrorIs(t, err, os.ErrNotExist)

	var out strings.Builder
	figures, err := Eval().Run(context.Background(), report.Options{Progress: &out, Graph: write(t, "g.json", edges), Cases: write(t, "c.jsonl", one)})
	require.NoError(t, err)
	require.Equal(t, 1.0, figures[0].Value)
	for _, f := range figures {
		require.Zero(t, f.Target, "what others bring is measured, not judged")
	}
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
