package simenv_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"blastdoor"
	"blastdoor/simenv"
)

// dryRunTarget is the p50 that a rehearsal in the default world must reach.
const dryRunTarget = 30 * time.Microsecond

// reportTimes reports the median and the 99th percentile, in microseconds.
func reportTimes(b *testing.B, times []time.Duration) (p50 time.Duration) {
	b.Helper()
	slices.Sort(times)
	p50 = times[len(times)/2]
	b.ReportMetric(micros(p50), "p50-µs")
	b.ReportMetric(micros(times[len(times)*99/100]), "p99-µs")
	return p50
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// BenchmarkDryRun measures rehearsals of a world that does not change meanwhile;
// p50/target is to be at most 1.
func BenchmarkDryRun(b *testing.B) {
	env := newEnv(b)
	for _, c := range []struct {
		action string
		params blastdoor.Params
	}{
		{"restart_service", blastdoor.Params{"service": "cache"}},
		{"scale_service", blastdoor.Params{"service": "auth-svc", "replicas": 4}},
		{"drain_host", blastdoor.Params{"host": "host-a"}},
	} {
		b.Run(c.action, func(b *testing.B) {
			b.ReportAllocs()
			times := make([]time.Duration, 0, 1<<16)
			for b.Loop() {
				start := time.Now()
				if _, err := env.DryRun(b.Context(), c.action, c.params); err != nil {
					b.Fatal(err)
				}
				times = append(times, time.Since(start))
			}
			p50 := reportTimes(b, times)
			b.ReportMetric(float64(p50)/float64(dryRunTarget), "p50/target")
		})
	}
}

// BenchmarkDryRunAfterChange measures a rehearsal that finds a new version of the
// world each time, and so loads it whole.
func BenchmarkDryRunAfterChange(b *testing.B) {
	for _, services := range []int{11, 1000} {
		b.Run(fmt.Sprint(services, "-services"), func(b *testing.B) {
			env := openWorld(b, createWorld(b, simenv.GenerateWorld(1, services, 3*services)), simenv.Options{})
			var times []time.Duration
			for i := 0; b.Loop(); i++ {
				require.NoError(b, env.SetMetric(b.Context(), "svc-000000", "cpu_pct", float64(i)))
				start := time.Now()
				_, err := env.DryRun(b.Context(), "restart_service", blastdoor.Params{"service": "svc-000000"})
				times = append(times, time.Since(start))
				require.NoError(b, err)
			}
			reportTimes(b, times)
		})
	}
}

// BenchmarkApply measures rehearsal and write together: one durable transaction.
func BenchmarkApply(b *testing.B) {
	env := newEnv(b)
	params := blastdoor.Params{"service": "cache"}
	var times []time.Duration
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		p, err := planFor(b.Context(), env, "restart_service", params)
		require.NoError(b, err)
		_, err = env.Apply(b.Context(), fmt.Sprint("key-", i), p)
		times = append(times, time.Since(start))
		require.NoError(b, err)
	}
	reportTimes(b, times)
}
