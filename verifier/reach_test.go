package verifier_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"blastdoor"
	"blastdoor/verifier"
)

// world is the shop of the demo, with two hosts more than it needs.
func world(t testing.TB) *blastdoor.Graph {
	t.Helper()
	var nodes []blastdoor.Node
	var edges []blastdoor.Edge
	for _, h := range []string{"host-a", "host-b", "host-c", "host-d", "host-e", "host-f"} {
		nodes = append(nodes, blastdoor.Node{Name: h, Host: true})
	}
	for _, s := range []struct {
		name, host string
		protected  bool
		calls      []string
	}{
		{"db", "host-a", true, nil},
		{"cache", "host-a", false, nil},
		{"auth-svc", "host-b", true, []string{"db"}},
		{"api", "host-b", false, []string{"db", "cache", "auth-svc"}},
		{"web", "host-c", false, []string{"api"}},
		{"worker", "host-c", false, []string{"db", "cache"}},
		{"search", "host-d", false, []string{"cache"}},
		{"batch-report", "host-d", false, []string{"db"}},
		{"metrics-agent", "host-d", false, nil},
		{"session-cache", "host-e", false, nil},
		{"payment-svc", "host-f", false, []string{"session-cache"}},
	} {
		nodes = append(nodes, blastdoor.Node{Name: s.name, Protected: s.protected})
		edges = append(edges, blastdoor.Edge{From: s.name, To: s.host, Kind: blastdoor.RunsOn})
		for _, to := range s.calls {
			edges = append(edges, blastdoor.Edge{From: s.name, To: to, Kind: blastdoor.Calls})
		}
	}
	g, err := blastdoor.NewGraph(nodes, edges)
	require.NoError(t, err)
	return g
}

const enough = 1000 // a bound that no walk of the small world reaches

func TestReach(t *testing.T) {
	g := world(t)
	tests := []struct {
		name    string
		targets []string
		want    blastdoor.Radius
	}{
		{"drain of host-a", []string{"cache", "db", "host-a"}, blastdoor.Radius{
			Direct:     []string{"cache", "db"},
			Dependents: []string{"api", "auth-svc", "batch-report", "search", "web", "worker"},
			Hosts:      []string{"host-a"}, Protected: []string{"auth-svc", "db"}, Complete: true}},
		{"a host alone brings its residents", []string{"host-a"}, blastdoor.Radius{
			Direct:     []string{"cache", "db"},
			Dependents: []string{"api", "auth-svc", "batch-report", "search", "web", "worker"},
			Hosts:      []string{"host-a"}, Protected: []string{"auth-svc", "db"}, Complete: true}},
		{"restart of cache", []string{"cache"}, blastdoor.Radius{
			Direct: []string{"cache"}, Dependents: []string{"api", "search", "web", "worker"},
			Downstream: []string{"auth-svc", "db"}, Hosts: []string{"host-a"}, Complete: true}},
		{"scaling of auth-svc", []string{"auth-svc"}, blastdoor.Radius{
			Direct: []string{"auth-svc"}, Dependents: []string{"api", "web"},
			Downstream: []string{"cache", "db"}, Hosts: []string{"host-b"}, Protected: []string{"auth-svc"}, Complete: true}},
		{"restart of web", []string{"web"}, blastdoor.Radius{
			Direct: []string{"web"}, Dependents: []string{}, Downstream: []string{"api", "auth-svc", "cache", "db"},
			Hosts: []string{"host-c"}, Complete: true}},
		{"unknown targets are told, sorted and once", []string{"web", "nope", "ghost", "nope"}, blastdoor.Radius{
			Direct: []string{"web"}, Dependents: []string{}, Downstream: []string{"api", "auth-svc", "cache", "db"},
			Hosts: []string{"host-c"}, Unknown: []string{"ghost", "nope"}, Complete: false}},
		{"no target, nobody feels it", nil, blastdoor.Radius{Direct: []string{}, Dependents: []string{}, Complete: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, verifier.Reach(g, tt.targets, enough))
		})
	}
}

func TestReachOfTypedEdges(t *testing.T) {
	g, err := blastdoor.NewGraph(
		[]blastdoor.Node{{Name: "broker"}, {Name: "consumer"}, {Name: "publisher"}, {Name: "rack", Host: true, Protected: true}},
		[]blastdoor.Edge{
			{From: "publisher", To: "broker", Kind: blastdoor.Publishes},
			{From: "consumer", To: "broker", Kind: blastdoor.Consumes},
		})
	require.NoError(t, err)

	starved := verifier.Reach(g, []string{"publisher"}, enough)
	assert.Equal(t, []string{"broker", "consumer"}, starved.Downstream, "starvation travels publisher to broker to consumer")
	assert.Empty(t, starved.Dependents)

	broken := verifier.Reach(g, []string{"broker"}, enough)
	assert.Equal(t, []string{"consumer", "publisher"}, broken.Dependents, "whoever uses a broken broker breaks")

	assert.Equal(t, []string{"rack"}, verifier.Reach(g, []string{"rack"}, enough).Protected, "a protected host is protected")
}

func TestReachIsNeverSmallWhenItDidNotLook(t *testing.T) {
	g := world(t)
	assert.False(t, verifier.Reach(nil, []string{"db", "cache", "db"}, enough).Complete, "no graph")
	assert.Equal(t, []string{"cache", "db"}, verifier.Reach(nil, []string{"db", "cache", "db"}, enough).Unknown)
	for _, bound := range []int{-1, 0, 1, 2, 7, 8} { // host-a affects exactly 8
		r := verifier.Reach(g, []string{"host-a"}, bound)
		assert.False(t, r.Complete, "bound %d is reached", bound)
		assert.Equal(t, []string{"cache", "db"}, r.Direct, "direct is never cut")
	}
	assert.True(t, verifier.Reach(g, []string{"host-a"}, 9).Complete)
}

// naive is the definition of the radius, read off the edges with maps.
func naive(nodes []blastdoor.Node, edges []blastdoor.Edge, targets []string) blastdoor.Radius {
	host, known, prot := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, n := range nodes {
		known[n.Name], host[n.Name], prot[n.Name] = true, n.Host, n.Protected
	}
	direct, hosts, unknown, targetHosts := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, name := range targets {
		switch {
		case !known[name]:
			unknown[name] = true
		case host[name]:
			hosts[name], targetHosts[name] = true, true
			for _, e := range edges {
				if e.Kind == blastdoor.RunsOn && e.To == name {
					direct[e.From] = true
				}
			}
		default:
			direct[name] = true
		}
	}
	for _, e := range edges {
		if e.Kind == blastdoor.RunsOn && direct[e.From] {
			hosts[e.To] = true
		}
	}
	grow := func(from map[string]bool, step func(blastdoor.Edge) (string, string)) map[string]bool {
		all := map[string]bool{}
		for n := range from {
			all[n] = true
		}
		for changed := true; changed; {
			changed = false
			for _, e := range edges {
				if a, b := step(e); e.Kind != blastdoor.RunsOn && all[a] && !all[b] {
					all[b], changed = true, true
				}
			}
		}
		return all
	}
	broken := grow(direct, func(e blastdoor.Edge) (string, string) { return e.To, e.From })
	shaken := grow(broken, func(e blastdoor.Edge) (string, string) {
		if e.Kind == blastdoor.Consumes {
			return e.To, e.From
		}
		return e.From, e.To
	})
	protected := map[string]bool{}
	for _, n := range nodes {
		protected[n.Name] = prot[n.Name] && (broken[n.Name] || targetHosts[n.Name])
	}
	return blastdoor.Radius{Direct: list(direct, nil), Dependents: list(broken, direct), Downstream: list(shaken, broken),
		Hosts: list(hosts, nil), Protected: list(protected, nil), Unknown: list(unknown, nil), Complete: len(unknown) == 0}
}

func list(in, less map[string]bool) []string {
	out := []string{}
	for name, ok := range in {
		if ok && !less[name] {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func sameRadius(t assert.TestingT, want, got blastdoor.Radius) {
	for _, l := range []*[]string{&got.Direct, &got.Dependents, &got.Downstream, &got.Hosts, &got.Protected, &got.Unknown} {
		if *l == nil {
			*l = []string{}
		}
	}
	assert.Equal(t, want, got)
}

type drawnGraph struct {
	nodes   []blastdoor.Node
	edges   []blastdoor.Edge
	targets []string
}

func drawGraph(t *rapid.T) drawnGraph {
	var d drawnGraph
	// Bystanders make every level small against the graph; such levels are walked another way.
	for i := range rapid.SampledFrom([]int{0, 1500}).Draw(t, "bystanders") {
		d.nodes = append(d.nodes, blastdoor.Node{Name: fmt.Sprintf("x%d", i)})
	}
	services, hosts := rapid.IntRange(1, 12).Draw(t, "services"), rapid.IntRange(0, 3).Draw(t, "hosts")
	for i := range services {
		d.nodes = append(d.nodes, blastdoor.Node{Name: fmt.Sprintf("s%d", i), Protected: rapid.Bool().Draw(t, "protected")})
	}
	for i := range hosts {
		d.nodes = append(d.nodes, blastdoor.Node{Name: fmt.Sprintf("h%d", i), Host: true, Protected: rapid.Bool().Draw(t, "protected")})
	}
	service := rapid.IntRange(0, services-1)
	for range rapid.IntRange(0, 30).Draw(t, "edges") {
		kind := rapid.SampledFrom([]blastdoor.EdgeKind{blastdoor.Calls, blastdoor.Publishes, blastdoor.Consumes}).Draw(t, "kind")
		d.edges = append(d.edges, blastdoor.Edge{Kind: kind,
			From: fmt.Sprintf("s%d", service.Draw(t, "from")), To: fmt.Sprintf("s%d", service.Draw(t, "to"))})
	}
	for i := range services {
		if hosts > 0 {
			d.edges = append(d.edges, blastdoor.Edge{Kind: blastdoor.RunsOn, From: fmt.Sprintf("s%d", i),
				To: fmt.Sprintf("h%d", rapid.IntRange(0, hosts-1).Draw(t, "host"))})
		}
	}
	names := []string{"ghost", "h0", "h1", "s0", "s1", "s2", "s3", "s4", "s5"} // not all of them exist
	d.targets = rapid.SliceOfN(rapid.SampledFrom(names), 0, 4).Draw(t, "targets")
	return d
}

func TestReachAgreesWithItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawGraph(t)
		g, err := blastdoor.NewGraph(d.nodes, d.edges)
		require.NoError(t, err)
		sameRadius(t, naive(d.nodes, d.edges, d.targets), verifier.Reach(g, d.targets, enough))
	})
}

// Small and large levels take turns in a graph of some thousand services.
func TestReachOnALargerGraphAgreesWithItsDefinition(t *testing.T) {
	nodes, links := bigWorld(3000, 9000)
	g, err := blastdoor.NewGraph(nodes, links)
	require.NoError(t, err)
	root, middle := bigTargets(g)
	for _, targets := range [][]string{{root}, {middle}, {"svc-000000", "svc-000001"}} {
		sameRadius(t, naive(nodes, links, targets), verifier.Reach(g, targets, 3001))
	}
}

// A smaller bound never claims to have seen everything, and never names a service
// that is not affected.
func TestReachUnderABound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawGraph(t)
		g, err := blastdoor.NewGraph(d.nodes, d.edges)
		require.NoError(t, err)
		whole := verifier.Reach(g, d.targets, enough)
		bound := rapid.IntRange(-1, 14).Draw(t, "bound")
		cut := verifier.Reach(g, d.targets, bound)
		assert.Equal(t, whole.Direct, cut.Direct)
		if cut.Complete {
			assert.Equal(t, whole, cut)
		}
		visited := len(cut.Direct) + len(cut.Dependents) + len(cut.Downstream)
		assert.LessOrEqual(t, visited, max(bound, len(cut.Direct)))
		for _, name := range cut.Dependents {
			assert.Contains(t, whole.Dependents, name)
		}
		for _, name := range cut.Downstream {
			assert.Contains(t, whole.Downstream, name)
		}
	})
}

// bigWorld is a seeded graph whose first service is called, over some hops, by
// everything else: its radius is the largest that there is.
func bigWorld(services, edges int) ([]blastdoor.Node, []blastdoor.Edge) {
	rng := rand.New(rand.NewPCG(7, 11))
	nodes := make([]blastdoor.Node, services)
	order := rng.Perm(services) // so that neighbours in the graph are not neighbours by name
	for i := range nodes {
		nodes[i] = blastdoor.Node{Name: fmt.Sprintf("svc-%06d", order[i]), Protected: i%1000 == 0}
	}
	links := make([]blastdoor.Edge, 0, edges)
	for i := 1; len(links) < edges; i = i%(services-1) + 1 {
		links = append(links, blastdoor.Edge{From: nodes[i].Name, To: nodes[rng.IntN(i)].Name, Kind: blastdoor.Calls})
	}
	return nodes, links
}

func bigGraph(tb testing.TB) *blastdoor.Graph {
	tb.Helper()
	g, err := blastdoor.NewGraph(bigWorld(bigServices, bigEdges))
	require.NoError(tb, err)
	return g
}

const (
	bigServices = 100_000
	bigEdges    = 1_000_000
	bigBound    = 200_000
)

// The name of the service that everything depends on, and of one in the middle.
func bigTargets(g *blastdoor.Graph) (root, middle string) {
	best := -1
	for n := range int32(g.Len()) {
		r := len(g.Dependents(n))
		if r > best {
			best, root = r, g.Name(n)
		}
		if middle == "" && r == 3 {
			middle = g.Name(n)
		}
	}
	return root, middle
}

func BenchmarkReach(b *testing.B) {
	before := heap()
	g := bigGraph(b)
	graphMB := float64(heap()-before) / (1 << 20)
	root, middle := bigTargets(g)
	for _, bm := range []struct{ name, target string }{{"largest", root}, {"middle", middle}} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			var took []time.Duration
			var r blastdoor.Radius
			for b.Loop() {
				start := time.Now()
				r = verifier.Reach(g, []string{bm.target}, bigBound)
				took = append(took, time.Since(start))
			}
			require.True(b, r.Complete)
			slices.Sort(took)
			p50 := took[len(took)/2]
			b.ReportMetric(float64(p50.Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(p50)/float64(5*time.Millisecond), "of-5ms-target")
			b.ReportMetric(float64(p50.Nanoseconds())/float64(r.Affected()+len(r.Downstream)), "ns/service-reached")
			b.ReportMetric(float64(r.Affected()), "affected")
			b.ReportMetric(graphMB, "graph-MB")
		})
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestGraphMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a large graph")
	}
	before := heap()
	g := bigGraph(t)
	used := heap() - before
	root, _ := bigTargets(g)
	r := verifier.Reach(g, []string{root}, bigBound)
	assert.True(t, r.Complete)
	assert.Greater(t, r.Affected(), bigServices/2, "the largest radius is most of the graph")
	assert.Less(t, used, uint64(64<<20), "the graph holds at most 64 MB")
}
