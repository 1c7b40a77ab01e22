package latency

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"blastdoor"
	"blastdoor/evals/report"
	"blastdoor/internal/storetest"
	"blastdoor/store"
)

// Counts of measureCheckpoint: commits before anything is timed (the write-ahead
// log then no longer grows), commits timed one at a time, and commits by 64.
const (
	warmCommits   = 2000
	aloneCommits  = 4000
	crowdCommits  = 40_000
	crowdRunners  = 64
	eventsOfALife = 20
)

// measureCheckpoint commits an event of about 600 bytes with projection and
// delivery, durable, against the floor: the same number of bytes overwritten in
// place and synced with fdatasync, in turns with the commits.
func measureCheckpoint(ctx context.Context, dir string) (figures []report.Figure, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	s, err := store.Create(ctx, filepath.Join(dir, "log.db"), store.Options{Origin: "latency"})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	life := &life{store: s, name: "alone"}
	size, err := bytesPerCommit(ctx, s, life)
	if err != nil {
		return nil, err
	}
	floor, err := newFloor(filepath.Join(dir, "floor"), size)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, floor.file.Close()) }()
	for range warmCommits {
		if _, err := life.step(ctx); err != nil {
			return nil, err
		}
	}
	var commits, raw []time.Duration
	for range aloneCommits {
		took, err1 := life.step(ctx)
		least, err2 := floor.write()
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		commits, raw = append(commits, took), append(raw, least)
	}
	crowd, rate, err := measureCrowd(ctx, s)
	if err != nil {
		return nil, err
	}
	return checkpointFigures(commits, raw, crowd, rate, size), nil
}

func checkpointFigures(commits, raw, crowd []time.Duration, rate float64, size int) []report.Figure {
	alone := report.Median("checkpoint at full durability, p50", commits, time.Microsecond, "µs", 0)
	least := report.Median("write and fdatasync of the same bytes, p50", raw, time.Microsecond, "µs", 0)
	least.Note = fmt.Sprintf("%d bytes a commit", size)
	var total time.Duration
	for _, d := range commits {
		total += d
	}
	aloneRate := float64(len(commits)) / total.Seconds()
	slices.Sort(crowd)
	p99 := crowd[len(crowd)*99/100]
	return []report.Figure{alone, least,
		{Name: "checkpoint over the floor", Value: alone.Value / least.Value, Unit: "×", Target: 1.5, Count: len(commits)},
		{Name: "commits a second, one run", Value: aloneRate, Unit: "/s"},
		{Name: "commits a second, 64 runs at once", Value: rate, Unit: "/s", Count: len(crowd)},
		{Name: "64 runs over one run", Value: rate / aloneRate, Unit: "×", Target: 4, AtLeast: true},
		{Name: "64 runs at once, p99", Value: float64(p99) / float64(time.Millisecond), Unit: "ms", Target: 20, Count: len(crowd)}}
}

func measureCrowd(ctx context.Context, s *store.Store) ([]time.Duration, float64, error) {
	samples := make([][]time.Duration, crowdRunners)
	errs := make([]error, crowdRunners)
	var wg sync.WaitGroup
	start := time.Now()
	for i := range crowdRunners {
		wg.Go(func() {
			life := &life{store: s, name: fmt.Sprint("crowd", i)}
			for range crowdCommits / crowdRunners {
				took, err := life.step(ctx)
				if err != nil {
					errs[i] = err
					return
				}
				samples[i] = append(samples[i], took)
			}
		})
	}
	wg.Wait()
	all := slices.Concat(samples...)
	return all, float64(len(all)) / time.Since(start).Seconds(), errors.Join(errs...)
}

// bytesPerCommit counts what a commit adds to the write-ahead log, while that grows.
func bytesPerCommit(ctx context.Context, s *store.Store, l *life) (int, error) {
	size := func() (int64, error) {
		info, err := os.Stat(s.Path() + "-wal")
		if err != nil {
			return 0, err
		}
		return info.Size(), nil
	}
	const commits = 200
	if _, err := l.step(ctx); err != nil {
		return 0, err
	}
	before, err := size()
	for range commits {
		if err == nil {
			_, err = l.step(ctx)
		}
	}
	after, err2 := size()
	return int(after-before) / commits, errors.Join(err, err2)
}

// life is one goroutine's runs, one after the other.
type life struct {
	store *store.Store
	name  string
	runs  int
	last  blastdoor.Commit
}

// step makes the next commit, and times only that.
func (l *life) step(ctx context.Context) (time.Duration, error) {
	begins := l.last.RunID == "" || l.last.Projection.Ended
	c := l.next(begins)
	c.Deliveries = []blastdoor.Delivery{storetest.Card(c.RunID, c.Projection.Run.Len)}
	l.last = c
	var err error
	start := time.Now()
	if begins {
		_, _, err = l.store.Begin(ctx, "src-"+c.RunID, c)
	} else {
		err = l.store.Commit(ctx, c)
	}
	return time.Since(start), err
}

func (l *life) next(begins bool) blastdoor.Commit {
	if begins {
		l.runs++
		id := fmt.Sprintf("run-%s-%06d", l.name, l.runs)
		return storetest.Begin(id, "src-"+id)
	}
	c := storetest.Follow(l.last, &blastdoor.Observed{Summary: fmt.Sprintf("%520d", l.runs)})
	if c.Projection.Run.Len == eventsOfALife {
		c = storetest.Follow(l.last, &blastdoor.RunEnded{Outcome: blastdoor.RunCompleted})
		c.Projection.Ended, c.Projection.Run.Status = true, string(blastdoor.RunCompleted)
	}
	return c
}

// floor is the least that durability costs: bytes overwritten in place, and a sync.
type floor struct {
	file   *os.File
	data   []byte
	offset int64
}

const floorLength = 16 << 20 // about as long as a write-ahead log

func newFloor(path string, size int) (*floor, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	_, err = f.Write(make([]byte, floorLength))
	return &floor{file: f, data: make([]byte, size)}, errors.Join(err, f.Sync())
}

func (f *floor) write() (time.Duration, error) {
	if f.offset+int64(len(f.data)) > floorLength {
		f.offset = 0
	}
	start := time.Now()
	_, err := f.file.WriteAt(f.data, f.offset)
	if err == nil {
		err = syscall.Fdatasync(int(f.file.Fd()))
	}
	f.offset += int64(len(f.data))
	return time.Since(start), err
}
