package crash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"
)

// caseLimit bounds one case. A sound one takes about a second on a busy machine.
const caseLimit = 30 * time.Second

// result is what came of a case.
type result struct {
	kills   []kill
	reached int // of the kills
	differs []string
	end     end
	lost    bool          // Bob's click was acknowledged, and did not count
	first   []point       // passed by the first process
	second  []point       // passed by the process after the first kill
	length  time.Duration // of the story, until the run was shown as completed
}

func (r result) sound() bool { return len(r.differs) == 0 }

// bench plays cases with one binary against one end.
type bench struct {
	*workshop
	binary string
	want   *end          // of an uninterrupted run; nil while there is none
	usual  time.Duration // length of such a run
	limit  time.Duration // for one case
}

// play plays one case. An error means that the case could not be held at all; what
// the bot did wrong is in the result.
func (b bench) play(ctx context.Context, kills ...kill) (r result, err error) {
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	s, playing, err := b.openStage(ctx, b.binary, kills...)
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	r = result{kills: kills}
	if err := s.play(playing); err != nil {
		r.differs = append(r.differs, err.Error())
		s.fail(err)
		<-s.kept
	}
	r.reached = s.reached()
	if err := r.readPoints(s.lives); err != nil {
		return r, err
	}
	// What is left is looked at whatever happened, and in time of its own.
	var unreadable error
	if r.end, unreadable = s.gather(context.WithoutCancel(ctx)); unreadable != nil {
		r.differs = append(r.differs, unreadable.Error())
	}
	if b.want != nil {
		r.differs = append(r.differs, r.end.against(b.want)...)
	}
	r.lost = s.acked && !(r.end.granted && r.end.completed)
	r.length = s.length
	return r, nil
}

// readPoints reads what the first two processes passed.
func (r *result) readPoints(lives []*process) error {
	for i, passed := range []*[]point{&r.first, &r.second} {
		if i >= len(lives) {
			break
		}
		var err error
		if *passed, err = lives[i].passed(); err != nil {
			return err
		}
	}
	return nil
}

// playAll plays cases side by side and reports each, in the order in which they end.
func (b bench) playAll(ctx context.Context, cases [][]kill, each func(result)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var errs []error
	var wg sync.WaitGroup
	next := make(chan int)
	for range 2 * runtime.NumCPU() {
		wg.Go(func() {
			for i := range next {
				r, err := b.play(ctx, cases[i]...)
				mu.Lock()
				if err != nil {
					errs = append(errs, err)
					cancel()
				} else if ctx.Err() == nil {
					each(r)
				}
				mu.Unlock()
			}
		})
	}
	for i := range cases {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	wg.Wait()
	return errors.Join(append(errs, ctx.Err())...)
}

// maxShown bounds how many wrong ends are shown: a broken bot breaks hundreds.
const maxShown = 10

// tally adds results up, and prints those that went wrong, and some progress.
type tally struct {
	out     io.Writer
	total   int
	cases   int
	kills   int
	reached int
	sound   int

	duplicates, lost, doubled int
}

func (t *tally) add(r result) {
	t.cases++
	t.kills += r.reached
	if r.reached == len(r.kills) {
		t.reached++
	}
	if r.sound() {
		t.sound++
	}
	t.duplicates += r.end.duplicates
	t.doubled += r.end.doubled
	if r.lost {
		t.lost++
	}
	if !r.sound() && t.cases-t.sound <= maxShown {
		fmt.Fprintf(t.out, "    WRONG %v: %s\n", r.kills, r.differs[0])
	}
	if t.cases%100 == 0 {
		fmt.Fprintf(t.out, "    %d of %d runs\n", t.cases, t.total)
	}
}
