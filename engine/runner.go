package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"blastdoor"
)

// Options are the parts that a Runner works with.
type Options struct {
	Environment Environment
	Planner     Planner
	Journal     Journal
	Board       Board
	Directory   Directory
	Catalogue   Catalogue
	Now         Clock
	Logger      *slog.Logger // nil: nothing is logged
	// AfterDecision, when set, is called once an approval decision is durable, so
	// that a signed head of the log can cover it.
	AfterDecision func(context.Context)
}

// maxDriven bounds how many runs are moved forward at the same time.
const maxDriven = 64

// maxTries is how often an effect is tried again when a part that it needs is
// unavailable, before the run is decided without it (that is: closed).
const maxTries = 6

// Runner moves runs forward: load, fold, ask Next, perform, commit. It holds no
// state that a restart would miss.
type Runner struct {
	Options
	actions map[string]blastdoor.Action
	locks   keyedLock
	slots   chan struct{}

	mu       sync.Mutex
	ctx      context.Context // of Run; nil before and after
	active   map[string]bool // being driven; true: driven again afterwards
	timers   map[string]*time.Timer
	failures map[string]int // tries of the next effect that found a part unavailable
	idle     sync.WaitGroup
}

// NewRunner checks that every part is there. A missing part is an error here, so
// that no safety check can be skipped for want of wiring.
func NewRunner(o Options) (*Runner, error) {
	switch {
	case o.Environment == nil, o.Planner == nil, o.Journal == nil, o.Board == nil,
		o.Directory == nil, o.Catalogue == nil, o.Now == nil:
		return nil, errors.New("making a runner: every port and the clock are required")
	}
	if o.AfterDecision == nil {
		o.AfterDecision = func(context.Context) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Runner{Options: o, actions: map[string]blastdoor.Action{}, slots: make(chan struct{}, maxDriven),
		active: map[string]bool{}, timers: map[string]*time.Timer{}, failures: map[string]int{}}
	for _, a := range o.Environment.Actions() {
		r.actions[a.Name] = a
	}
	return r, nil
}

// Run drives every unfinished run, and those that are poked, until ctx ends; it
// returns once the runs under way have come to a safe point.
func (r *Runner) Run(ctx context.Context) error {
	r.mu.Lock()
	r.ctx = ctx
	r.mu.Unlock()
	// Only now: a run that is begun after the list was read is poked by whoever begins it.
	unfinished, err := r.Journal.Unfinished(ctx)
	for _, id := range unfinished {
		r.Poke(id)
	}
	if err == nil {
		<-ctx.Done()
	}
	r.mu.Lock()
	r.ctx = nil
	for _, t := range r.timers {
		t.Stop()
	}
	clear(r.timers)
	r.mu.Unlock()
	r.idle.Wait()
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("listing unfinished runs: %w", err)
	}
	return nil
}

// Poke asks that a run be driven. It does nothing while Run is not running: the
// next Run finds the run among the unfinished.
func (r *Runner) Poke(runID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx == nil {
		return
	}
	if _, busy := r.active[runID]; busy {
		r.active[runID] = true
		return
	}
	r.active[runID] = false
	ctx := r.ctx
	r.idle.Go(func() { r.drive(ctx, runID) })
}

func (r *Runner) drive(ctx context.Context, runID string) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
	}
	for {
		if ctx.Err() == nil {
			r.advanceSafely(ctx, runID)
		}
		r.mu.Lock()
		if again := r.active[runID]; !again || ctx.Err() != nil {
			delete(r.active, runID)
			r.mu.Unlock()
			return
		}
		r.active[runID] = false
		r.mu.Unlock()
	}
}

// brokenPause is how long a run rests that could not go on for a reason nobody
// foresaw (a full disk, a fault of ours): it is as it is in the journal.
const brokenPause = 30 * time.Second

// advanceSafely keeps one broken run from stopping the others. What does not
// verify, or is not there, is left alone until somebody looks: it is driven again
// only after a click or a restart, and refused again.
func (r *Runner) advanceSafely(ctx context.Context, runID string) {
	defer func() {
		if p := recover(); p != nil {
			r.Logger.ErrorContext(ctx, "run stopped by a panic", "run", runID, "panic", p)
		}
	}()
	wake, err := r.advance(ctx, runID)
	switch {
	case err != nil && ctx.Err() == nil:
		r.Logger.ErrorContext(ctx, "run stopped", "run", runID, "err", err)
		if !blastdoor.ErrIntegrity.Is(err) && !blastdoor.ErrNotFound.Is(err) {
			r.wakeAt(runID, r.Now().Add(brokenPause))
		}
	case !wake.IsZero():
		r.wakeAt(runID, wake)
	}
}

// wakeAt pokes the run again at a time of the clock.
func (r *Runner) wakeAt(runID string, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx == nil {
		return
	}
	if t := r.timers[runID]; t != nil {
		t.Stop()
	}
	r.timers[runID] = time.AfterFunc(max(at.Sub(r.Now()), 0), func() { r.Poke(runID) })
}

// advance performs effects until the run waits or has ended. It returns when to
// go on, or zero for: not before somebody clicks.
func (r *Runner) advance(ctx context.Context, runID string) (time.Time, error) {
	unlock := r.locks.lock(runID)
	defer unlock()
	run, err := r.load(ctx, runID)
	if err != nil {
		return time.Time{}, err
	}
	for {
		now := r.Now()
		effect := Next(run, now)
		switch effect.Kind {
		case EffectNone:
			return time.Time{}, nil
		case EffectWait:
			return effect.At, nil
		}
		tries := r.tries(runID)
		next, err := r.perform(ctx, run, effect, tries+1 >= maxTries)
		switch {
		case ctx.Err() != nil:
			return time.Time{}, ctx.Err()
		case blastdoor.ErrUnavailable.Is(err), blastdoor.ErrTargetLocked.Is(err):
			r.setTries(runID, tries+1)
			r.Logger.WarnContext(ctx, "will try again", "run", runID, "effect", effect.Kind, "try", tries+1, "err", err)
			return now.Add(backoff(tries + 1)), nil
		case blastdoor.ErrConflict.Is(err):
			// Somebody else appended. What they wrote decides; look again.
			if next, err = r.load(ctx, runID); err != nil {
				return time.Time{}, err
			}
		case err != nil:
			return time.Time{}, fmt.Errorf("run %s, %s: %w", runID, effect.Kind, err)
		}
		r.setTries(runID, 0)
		run = next
	}
}

func (r *Runner) tries(runID string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failures[runID]
}

func (r *Runner) setTries(runID string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n == 0 {
		delete(r.failures, runID)
		return
	}
	r.failures[runID] = n
}

// backoff is 0.1, 0.4, 1.6 … at most 5 seconds.
func backoff(tries int) time.Duration {
	wait := 100 * time.Millisecond
	for i := 1; i < tries && wait < 5*time.Second; i++ {
		wait *= 4
	}
	return min(wait, 5*time.Second)
}

func (r *Runner) load(ctx context.Context, runID string) (blastdoor.Run, error) {
	events, err := r.Journal.Load(ctx, runID)
	if err != nil {
		return blastdoor.Run{}, fmt.Errorf("loading run %s: %w", runID, err)
	}
	run, err := Fold(events)
	if err != nil {
		return blastdoor.Run{}, fmt.Errorf("folding run %s: %w", runID, err)
	}
	return run, nil
}

// record decides on a command, commits what it causes and returns the new run.
// With no events to record it returns the run as it was.
func (r *Runner) record(ctx context.Context, run blastdoor.Run, cmd Command, extra extras) (blastdoor.Run, error) {
	events, err := Decide(run, cmd, r.Now())
	if err != nil || len(events) == 0 {
		return run, err
	}
	next, commit, err := transition(run, events, r.Now(), extra)
	if err != nil {
		return run, err
	}
	if err := r.Journal.Commit(ctx, commit); err != nil {
		return run, err
	}
	return next, nil
}

// extras are what goes into a commit beside the events.
type extras struct {
	settles    string
	deliveries []blastdoor.Delivery
	documents  []blastdoor.Document
}

// transition builds the one transaction for some events.
func transition(run blastdoor.Run, events []blastdoor.Event, now time.Time, extra extras) (blastdoor.Run, blastdoor.Commit, error) {
	next := run
	for _, e := range events {
		var err error
		if next, err = Evolve(next, e); err != nil {
			return run, blastdoor.Commit{}, err
		}
	}
	return next, blastdoor.Commit{RunID: next.ID, At: run.Len, Events: events, Projection: Project(next),
		Documents: extra.documents, Deliveries: append(Deliveries(next, events, now), extra.deliveries...), Settles: extra.settles}, nil
}

// keyedLock lets one goroutine at a time work on a run.
type keyedLock struct {
	mu   sync.Mutex
	held map[string]*waiters
}

type waiters struct {
	mu sync.Mutex
	n  int
}

func (k *keyedLock) lock(key string) (unlock func()) {
	k.mu.Lock()
	if k.held == nil {
		k.held = map[string]*waiters{}
	}
	w := k.held[key]
	if w == nil {
		w = &waiters{}
		k.held[key] = w
	}
	w.n++
	k.mu.Unlock()
	w.mu.Lock()
	return func() {
		w.mu.Unlock()
		k.mu.Lock()
		if w.n--; w.n == 0 {
			delete(k.held, key)
		}
		k.mu.Unlock()
	}
}
