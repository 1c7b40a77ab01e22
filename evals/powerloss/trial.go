package powerloss

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"

	"blastdoor"
	"blastdoor/evals/powerloss/powerfs"
)

// The lanes' course.
const (
	lanes        = 2   // lives at the same time
	maxOps       = 150 // power fails within so many operations per client
	maxEarlyOps  = 300 // or within so many of a start, which first finishes what is unfinished
	earlyEvery   = 3   // one cut in so many is counted from the start
	cutsPerStory = 10  // then a new deployment begins, so that looking stays cheap
	maxClients   = 4
)

// trial is some cuts of a variant, over all lanes.
type trial struct {
	variant
	dir      string
	seed     uint64
	base     powerfs.Image
	progress func(*tally)
}

// course is what a lane does; it hands over what came out of each cut.
type course func(ctx context.Context, l *lane, done func(*tally)) error

// inLanes runs a course in every lane and adds up what comes out.
func (t *trial) inLanes(ctx context.Context, run course) (tally, error) {
	var total tally
	var mu sync.Mutex
	var fork forks
	var all sync.WaitGroup
	errs := make([]error, lanes)
	for i := range lanes {
		all.Go(func() {
			l := &lane{variant: t.variant, number: i, dir: filepath.Join(t.dir, fmt.Sprintf("lane-%d", i)), forks: &fork, base: t.base,
				draws: rand.New(rand.NewPCG(t.seed, uint64(i)))}
			if errs[i] = os.MkdirAll(l.dir, 0o700); errs[i] != nil {
				return
			}
			errs[i] = run(ctx, l, func(u *tally) {
				mu.Lock()
				defer mu.Unlock()
				total.add(u)
				t.progress(&total)
			})
		})
	}
	all.Wait()
	return total, errors.Join(errs...)
}

// random cuts the power at random operations, several lives in a row on what the
// cut before has left.
func (t *trial) random(ctx context.Context, cuts int) (tally, error) {
	return t.inLanes(ctx, func(ctx context.Context, l *lane, done func(*tally)) error {
		return l.random(ctx, cuts/lanes, done)
	})
}

func (l *lane) random(ctx context.Context, cuts int, done func(*tally)) error {
	l.anew()
	after := "" // the cut that the next start looks at; empty: none
	for n := 0; n < cuts || after != ""; {
		c := l.draw(n == cuts)
		var t tally
		o, disk, err := l.live(ctx, c, &t, after)
		if err != nil {
			return err
		}
		after = ""
		if t.bad > 0 || !o.cut {
			l.anew() // and if there was a cut, nobody will look at it
		} else {
			n++
			t.begins(&o)
			policy := l.policy()
			l.image = disk.Survivors(policy, l.draws)
			after = fmt.Sprintf("lane %d, life %d, %s, %s", l.number, l.lives, c, policy)
		}
		done(&t)
	}
	return nil
}

// draw draws the next cut, or only a look where the story is over.
func (l *lane) draw(last bool) *cut {
	c := &cut{mode: "work", clients: 1 + l.draws.IntN(maxClients), early: l.draws.IntN(earlyEvery) == 0}
	switch {
	case last || l.cuts >= cutsPerStory:
		return onlyLook()
	case c.early:
		c.at = 1 + l.draws.IntN(maxEarlyOps)
	default:
		c.at = 1 + l.draws.IntN(maxOps*c.clients)
	}
	return c
}

// counter hands out the operations from the first on to several lanes, until one of
// them finds that there are no more.
type counter struct {
	mu    sync.Mutex
	taken int
	ended bool
}

func (c *counter) next() (n int, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken++
	return c.taken, !c.ended
}

func (c *counter) over() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
}

// enumerate lets the lanes cut at each operation from the first on, with draws that
// depend on nothing but the operation. The function reports whether the power failed
// at all.
func (t *trial) enumerate(ctx context.Context, at func(context.Context, *lane, int, *tally) (bool, error)) (tally, error) {
	var c counter
	return t.inLanes(ctx, func(ctx context.Context, l *lane, done func(*tally)) error {
		for n, more := c.next(); more; n, more = c.next() {
			var u tally
			l.draws = rand.New(rand.NewPCG(t.seed, uint64(n)))
			cut, err := at(ctx, l, n, &u)
			if err != nil {
				return err
			}
			if !cut {
				c.over()
			}
			done(&u)
		}
		return nil
	})
}

// every cuts the power during each of the operations of one run's life, from the
// request to the end of an orderly stop, always from the same beginning. What
// survives is drawn once; while the intent is being committed it is looked at in
// every way.
func (t *trial) every(ctx context.Context) (tally, error) {
	return t.enumerate(ctx, func(ctx context.Context, l *lane, n int, u *tally) (bool, error) {
		l.anew()
		c := &cut{mode: "one", clients: 1, at: n}
		o, disk, err := l.live(ctx, c, u, "a deployment just made")
		if err != nil || !o.cut {
			return false, err
		}
		ways := []powerfs.Policy{l.policy()}
		if o.begun == string(blastdoor.ApplyIntendedKind) {
			ways = l.policies
		}
		promised := l.book.Clone()
		for _, policy := range ways {
			u.begins(&o)
			l.image, l.book = disk.Survivors(policy, l.draws), promised.Clone()
			if _, _, err := l.live(ctx, onlyLook(), u, fmt.Sprintf("%s, %s", c, policy)); err != nil {
				return true, err
			}
		}
		return true, nil
	})
}
