// Package latency measures the figures of DESIGN section 9. It must not reach any
// network but loopback.
package latency

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"blastdoor"
	"blastdoor/evals/report"
	"blastdoor/runbooks"
	"blastdoor/simenv"
	"blastdoor/verifier"
)

// Eval is the latency eval.
func Eval() report.Eval {
	return report.Eval{Name: "latency", Short: "figures of DESIGN section 9", Caveat: caveat, Run: run}
}

const caveat = "one machine, shared with other work: trust the ratios, not the absolute times; " +
	"the disk is whatever the machine has, and a virtual disk may acknowledge a flush early"

// run measures section 9 of the design.
func run(ctx context.Context, o report.Options) ([]report.Figure, error) {
	dir, err := os.MkdirTemp("", "blastdoor-latency-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var figures []report.Figure
	for _, part := range []struct {
		name string
		run  func(context.Context, string) ([]report.Figure, error)
	}{
		{"verdict", measureVerdict}, {"dry run", measureDryRun}, {"radius of a large graph", measureReach},
		{"checkpoint", measureCheckpoint}, {"slash to ack", measureAck}, {"start-up", measureStart},
	} {
		fmt.Fprintf(o.Progress, "  … %s\n", part.name)
		more, err := part.run(ctx, filepath.Join(dir, part.name))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", part.name, err)
		}
		figures = append(figures, more...)
	}
	return figures, nil
}

// measureVerdict judges a restart that the shipped policy allows: the default plan.
func measureVerdict(ctx context.Context, dir string) ([]report.Figure, error) {
	env, err := defaultWorld(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer env.Close()
	policy, plan, err := defaultPlan(ctx, env)
	if err != nil {
		return nil, err
	}
	in := verifier.Input{Plan: &plan, Policy: &policy, Circumstances: &blastdoor.Circumstances{Now: time.Now(), Channel: "C0OPS",
		Runbook: "safe-restart", Confidence: 1, GraphAsOf: time.Now(),
		Requester: blastdoor.Principal{UserID: "U0ALICE", TeamID: "T0ACME", Verified: true}}}
	if got := verifier.Verify(in); got.Decision != blastdoor.Allow {
		return nil, fmt.Errorf("the default plan is not allowed: %+v", got)
	}
	const batch = 100 // the clock is coarse against one verdict
	samples := make([]time.Duration, 20_000)
	for i := range samples {
		start := time.Now()
		for range batch {
			verifier.Verify(in)
		}
		samples[i] = time.Since(start) / batch
	}
	allocs := testing.AllocsPerRun(1000, func() { verifier.Verify(in) })
	zero := report.Figure{Name: "verdict: allocations when allowed", Value: allocs, None: true}
	return []report.Figure{report.Median("verdict on a default plan, p50", samples, time.Nanosecond, "ns", 1000), zero}, nil
}

func defaultWorld(ctx context.Context, dir string) (*simenv.Env, error) {
	world, err := simenv.DefaultWorld()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "world.db")
	if err := simenv.Create(ctx, path, world); err != nil {
		return nil, err
	}
	return simenv.Open(ctx, path, simenv.Options{})
}

func defaultPlan(ctx context.Context, env *simenv.Env) (blastdoor.Policy, blastdoor.Plan, error) {
	library, err := runbooks.Open(runbooks.Options{Actions: simenv.Actions()})
	if err != nil {
		return blastdoor.Policy{}, blastdoor.Plan{}, err
	}
	policy, err := library.Policy(ctx)
	if err != nil {
		return blastdoor.Policy{}, blastdoor.Plan{}, err
	}
	params := blastdoor.Params{"service": "web"}
	rehearsal, err := env.DryRun(ctx, "restart_service", params)
	return policy, blastdoor.Plan{RunID: "r", StepID: "restart", Action: "restart_service", Kind: blastdoor.Write, Params: params,
		Targets: rehearsal.Targets, Changes: rehearsal.Changes, Versions: rehearsal.Versions,
		Radius: verifier.Reach(rehearsal.Graph, rehearsal.Targets, policy.GraphWalkBound)}, err
}

func measureDryRun(ctx context.Context, dir string) ([]report.Figure, error) {
	env, err := defaultWorld(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer env.Close()
	samples := make([]time.Duration, 20_000)
	for i := range samples {
		start := time.Now()
		if _, err := env.DryRun(ctx, "restart_service", blastdoor.Params{"service": "web"}); err != nil {
			return nil, err
		}
		samples[i] = time.Since(start)
	}
	return []report.Figure{report.Median("dry run of a default plan, p50", samples, time.Microsecond, "µs", 30)}, nil
}

// The large graph: seeded, most services depend on a few early ones.
const (
	graphServices = 100_000
	graphEdges    = 1_000_000
)

func largeGraph() (*blastdoor.Graph, error) {
	rng := rand.New(rand.NewPCG(1, 2))
	nodes := make([]blastdoor.Node, graphServices)
	for i := range nodes {
		nodes[i].Name = fmt.Sprintf("svc-%06d", i)
	}
	edges := make([]blastdoor.Edge, graphEdges)
	for i := range edges {
		from := 1 + rng.IntN(graphServices-1)
		to := rng.IntN(from)
		edges[i] = blastdoor.Edge{From: nodes[from].Name, To: nodes[to].Name, Kind: blastdoor.Calls}
	}
	return blastdoor.NewGraph(nodes, edges)
}

func measureReach(context.Context, string) ([]report.Figure, error) {
	before := heapInUse()
	graph, err := largeGraph()
	if err != nil {
		return nil, err
	}
	memory := float64(heapInUse()-before) / (1 << 20)
	samples := make([]time.Duration, 200)
	var radius blastdoor.Radius
	for i := range samples {
		start := time.Now()
		radius = verifier.Reach(graph, []string{"svc-000000"}, 2*graphServices)
		samples[i] = time.Since(start)
	}
	if !radius.Complete {
		return nil, fmt.Errorf("the walk did not end by itself")
	}
	largest := report.Median("radius of the widest service of 100,000 (1,000,000 edges), p50", samples, time.Millisecond, "ms", 5)
	largest.Note = fmt.Sprintf("%d services affected", radius.Affected())
	each := report.Figure{Name: "radius: per affected service", Value: largest.Value * 1e6 / float64(radius.Affected()), Unit: "ns", Target: 1000}
	runtime.KeepAlive(graph)
	return []report.Figure{largest, each, {Name: "radius: memory of the graph", Value: memory, Unit: "MB", Target: 64}}, nil
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
