//go:build linux

package store_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"blastdoor"
	"blastdoor/internal/storetest"
	"blastdoor/store"
)

// BenchmarkCommit measures one checkpoint: an event of about 600 bytes, the
// projection and a delivery, durable. In the same run, commit by commit, it
// measures the floor: as many bytes as a commit adds to the write-ahead log,
// overwritten in place and synced with fdatasync. "ratio" is the one against the
// other at the median. A run here lives for 20 events.
func BenchmarkCommit(b *testing.B) {
	b.Run("goroutines=1", benchmarkAlone)
	b.Run("goroutines=64", func(b *testing.B) { benchmarkAtOnce(b, 64) })
}

func benchmarkAlone(b *testing.B) {
	s := create(b)
	raw := newRawLog(b, s)
	life := &life{store: s, name: "alone"}
	warmUp(b, life)
	var commits, floor []time.Duration
	for b.Loop() {
		commits = append(commits, life.timedStep(b))
		floor = append(floor, raw.write(b))
	}
	p50, p99 := percentiles(commits)
	floor50, _ := percentiles(floor)
	b.ReportMetric(micros(p50), "p50-µs")
	b.ReportMetric(micros(p99), "p99-µs")
	b.ReportMetric(micros(floor50), "raw-p50-µs")
	b.ReportMetric(float64(p50)/float64(floor50), "ratio")
	b.ReportMetric(float64(len(raw.data)), "wal-B/commit")
	b.ReportMetric(float64(len(commits))/sum(commits).Seconds(), "commits/s")
}

func benchmarkAtOnce(b *testing.B, goroutines int) {
	s := create(b)
	warmUp(b, &life{store: s, name: "warm"})
	latencies := make([][]time.Duration, goroutines)
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	b.ResetTimer()
	for i := range goroutines {
		wg.Go(func() {
			life := &life{store: s, name: fmt.Sprint("g", i)}
			for left.Add(-1) >= 0 {
				latencies[i] = append(latencies[i], life.timedStep(b))
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	p50, p99 := percentiles(slices.Concat(latencies...))
	b.ReportMetric(micros(p50), "p50-µs")
	b.ReportMetric(micros(p99), "p99-µs")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
}

// warmUp commits until the write-ahead log has been checkpointed once: from then
// on it is overwritten and no longer grows.
func warmUp(b *testing.B, l *life) {
	for range 2000 {
		l.timedStep(b)
	}
}

// life is one goroutine's runs, one after the other.
type life struct {
	store *store.Store
	name  string
	runs  int
	last  blastdoor.Commit
}

// next builds the next commit outside of what is timed.
func (l *life) next() (c blastdoor.Commit, source string) {
	if l.last.RunID == "" || l.last.Projection.Ended {
		l.runs++
		runID := fmt.Sprintf("run-%s-%06d", l.name, l.runs)
		return storetest.Begin(runID, "src-"+runID), "src-" + runID
	}
	c = storetest.Follow(l.last, &blastdoor.Observed{Summary: strings.Repeat("all is well. ", 40)})
	if c.Projection.Run.Len == 20 {
		c = storetest.Follow(l.last, &blastdoor.RunEnded{Outcome: blastdoor.RunCompleted})
		c.Projection.Ended, c.Projection.Run.Status = true, string(blastdoor.RunCompleted)
	}
	return c, ""
}

func (l *life) timedStep(b *testing.B) time.Duration {
	c, source := l.next()
	c.Deliveries = []blastdoor.Delivery{storetest.Card(c.RunID, c.Projection.Run.Len)}
	begin := time.Now()
	var err error
	if source != "" {
		_, _, err = l.store.Begin(context.Background(), source, c)
	} else {
		err = l.store.Commit(context.Background(), c)
	}
	took := time.Since(begin)
	if err != nil {
		b.Error(err)
	}
	l.last = c
	return took
}

// rawLog is the floor: a file as long as a write-ahead log, overwritten in place.
type rawLog struct {
	file   *os.File
	data   []byte // as many bytes as a commit of s logs
	offset int64
	length int64
}

// newRawLog counts the bytes that a commit logs, while the log of s still grows.
func newRawLog(b *testing.B, s *store.Store) *rawLog {
	const commits = 200
	life := &life{store: s, name: "count"}
	size := func() int64 {
		info, err := os.Stat(s.Path() + "-wal")
		require.NoError(b, err)
		return info.Size()
	}
	life.timedStep(b)
	before := size()
	for range commits {
		life.timedStep(b)
	}
	r := &rawLog{data: make([]byte, (size()-before)/commits), length: 16 << 20}
	var err error
	r.file, err = os.Create(filepath.Join(b.TempDir(), "raw"))
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, r.file.Close()) })
	_, err = r.file.Write(make([]byte, r.length))
	require.NoError(b, err)
	require.NoError(b, r.file.Sync())
	return r
}

func (r *rawLog) write(b *testing.B) time.Duration {
	if r.offset+int64(len(r.data)) > r.length {
		r.offset = 0
	}
	begin := time.Now()
	_, err := r.file.WriteAt(r.data, r.offset)
	if err == nil {
		err = syscall.Fdatasync(int(r.file.Fd()))
	}
	took := time.Since(begin)
	if err != nil {
		b.Error(err)
	}
	r.offset += int64(len(r.data))
	return took
}

func percentiles(d []time.Duration) (p50, p99 time.Duration) {
	slices.Sort(d)
	return d[len(d)/2], d[len(d)*99/100]
}

func sum(d []time.Duration) (total time.Duration) {
	for _, one := range d {
		total += one
	}
	return total
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
