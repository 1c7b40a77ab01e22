package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"blastdoor"
)

// flavour is what becomes of one call of a port.
type flavour string

const (
	fine       flavour = "fine"
	down       flavour = "down"        // fails, nothing is done, and says: try again
	broken     flavour = "broken"      // fails, nothing is done, and says nothing that is understood
	lostAnswer flavour = "lost"        // done, but the answer does not arrive
	lostDown   flavour = "lost-down"   // done, but says: try again
	late       flavour = "late"        // says: try again, and is done a while later
	slow       flavour = "slow"        // done, after a while
	diesFirst  flavour = "dies-before" // the process dies before it is done
	diesAfter  flavour = "dies-after"  // the process dies just after it is done
)

// delay is how late what is late or slow happens.
const delay = 2 * time.Second

// flavours that a call of an operation can have. What only reads has none that
// differ in what was done.
func flavoursOf(op string) []flavour {
	if changes(op) {
		return []flavour{down, broken, lostAnswer, lostDown, late, slow, diesFirst, diesAfter}
	}
	return []flavour{down, broken, slow, diesFirst}
}

// changes reports whether an operation changes anything.
func changes(op string) bool { return slices.Contains([]string{"begin", "commit", "apply"}, op) }

// gate stands before every call of every port and does to it what the plan says.
type gate struct {
	mu      sync.Mutex
	faults  map[int]flavour // by number of the call
	calls   []string        // the operations called so far
	dead    bool            // the process is gone: nothing it calls answers
	open    bool            // faults have stopped
	hurried bool            // nothing is slow: a click holds the run's lock
	struck  int             // faults that were met
}

var errGone = errors.New("the process is gone")

func (g *gate) next(op string) flavour {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.dead {
		return diesFirst
	}
	if g.open {
		return fine
	}
	f, ok := g.faults[len(g.calls)]
	g.calls = append(g.calls, op)
	if !ok || !slices.Contains(flavoursOf(op), f) {
		return fine
	}
	if f == slow && g.hurried {
		return fine
	}
	g.struck++
	g.dead = f == diesFirst || f == diesAfter
	return f
}

// set says whether the process lives and whether faults have stopped.
func (g *gate) set(dead, open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dead, g.open = dead, open
}

func (g *gate) hurry(on bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hurried = on
}

func (g *gate) isDead() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.dead
}

// pass makes a call through the gate.
func pass[T any](g *gate, op string, call func() (T, error)) (T, error) {
	return befall(g.next(op), op, call)
}

func befall[T any](f flavour, op string, call func() (T, error)) (T, error) {
	var none T
	unavailable := blastdoor.Errorf(blastdoor.ErrUnavailable, "%s is down", op)
	switch f {
	case down:
		return none, unavailable
	case broken:
		return none, fmt.Errorf("%s: connection reset", op)
	case lostAnswer:
		_, _ = call()
		return none, fmt.Errorf("%s: connection reset", op)
	case lostDown:
		_, _ = call()
		return none, unavailable
	case late:
		go func() {
			time.Sleep(delay)
			_, _ = call()
		}()
		return none, unavailable
	case slow:
		time.Sleep(delay)
	case diesFirst:
		return none, errGone
	case diesAfter:
		_, _ = call()
		return none, errGone
	}
	return call()
}

func passOnly(g *gate, op string, call func() error) error {
	_, err := pass(g, op, func() (struct{}, error) { return struct{}{}, call() })
	return err
}

// The ports, each behind the gate.
type (
	gatedWorld struct {
		*world
		gate    *gate
		mu      sync.Mutex
		transit map[string]int // writes on their way, by key
	}
	gatedJournal struct {
		Journal
		gate *gate
	}
	gatedBoard struct {
		Board
		gate *gate
	}
	gatedPeople struct {
		Directory
		gate *gate
	}
	gatedShelf struct {
		*shelf
		gate *gate
	}
	gatedPlanner struct{ gate *gate }
)

func (w *gatedWorld) Observe(ctx context.Context, action string, p blastdoor.Params) (blastdoor.Observation, error) {
	return pass(w.gate, "observe", func() (blastdoor.Observation, error) { return w.world.Observe(ctx, action, p) })
}

func (w *gatedWorld) DryRun(ctx context.Context, action string, p blastdoor.Params) (blastdoor.Rehearsal, error) {
	return pass(w.gate, "dry_run", func() (blastdoor.Rehearsal, error) { return w.world.DryRun(ctx, action, p) })
}

// Apply keeps account of writes on their way, so that Lookup need not guess.
func (w *gatedWorld) Apply(ctx context.Context, key string, plan blastdoor.Plan) (blastdoor.Receipt, error) {
	f := w.gate.next("apply")
	if f == late {
		w.travel(key, 1)
	}
	return befall(f, "apply", func() (blastdoor.Receipt, error) {
		if f == late {
			defer w.travel(key, -1)
		}
		return w.world.Apply(context.WithoutCancel(ctx), key, plan)
	})
}

func (w *gatedWorld) travel(key string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.transit[key] += n
}

func (w *gatedWorld) Lookup(ctx context.Context, key string) (blastdoor.Outcome, blastdoor.Receipt, error) {
	type answer struct {
		outcome blastdoor.Outcome
		receipt blastdoor.Receipt
	}
	a, err := pass(w.gate, "lookup", func() (answer, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.transit[key] > 0 {
			return answer{}, nil
		}
		outcome, receipt, err := w.world.Lookup(ctx, key)
		return answer{outcome, receipt}, err
	})
	return a.outcome, a.receipt, err
}

func (j gatedJournal) Begin(ctx context.Context, source string, c blastdoor.Commit) (string, bool, error) {
	type answer struct {
		id    string
		isNew bool
	}
	a, err := pass(j.gate, "begin", func() (a answer, err error) {
		a.id, a.isNew, err = j.Journal.Begin(ctx, source, c)
		return a, err
	})
	return a.id, a.isNew, err
}

func (j gatedJournal) Commit(ctx context.Context, c blastdoor.Commit) error {
	c.Events = slices.Clone(c.Events)
	return passOnly(j.gate, "commit", func() error { return j.Journal.Commit(ctx, c) })
}

func (j gatedJournal) Load(ctx context.Context, id string) ([]blastdoor.Event, error) {
	return pass(j.gate, "load", func() ([]blastdoor.Event, error) { return j.Journal.Load(ctx, id) })
}

func (j gatedJournal) Unfinished(ctx context.Context) ([]string, error) {
	return pass(j.gate, "unfinished", func() ([]string, error) { return j.Journal.Unfinished(ctx) })
}

func (j gatedJournal) Document(ctx context.Context, digest string) ([]byte, error) {
	return pass(j.gate, "document", func() ([]byte, error) { return j.Journal.Document(ctx, digest) })
}

func (b gatedBoard) InFlight(ctx context.Context) ([]blastdoor.Flight, error) {
	return pass(b.gate, "in_flight", func() ([]blastdoor.Flight, error) { return b.Board.InFlight(ctx) })
}

func (b gatedBoard) Posted(ctx context.Context, id string) (blastdoor.MessageRef, error) {
	return pass(b.gate, "posted", func() (blastdoor.MessageRef, error) { return b.Board.Posted(ctx, id) })
}

func (p gatedPeople) Person(ctx context.Context, user, team string) (blastdoor.Principal, error) {
	return pass(p.gate, "person", func() (blastdoor.Principal, error) { return p.Directory.Person(ctx, user, team) })
}

func (p gatedPeople) Groups(ctx context.Context, user string, groups []string) ([]string, error) {
	return pass(p.gate, "groups", func() ([]string, error) { return p.Directory.Groups(ctx, user, groups) })
}

func (s gatedShelf) Policy(ctx context.Context) (blastdoor.Policy, error) {
	return pass(s.gate, "policy", func() (blastdoor.Policy, error) { return s.shelf.Policy(ctx) })
}

func (s gatedShelf) Runbook(ctx context.Context, name string) (blastdoor.Runbook, error) {
	return pass(s.gate, "runbook", func() (blastdoor.Runbook, error) {
		if name != "reads" {
			return s.shelf.Runbook(ctx, name)
		}
		look := func(id, service string) blastdoor.Step {
			return blastdoor.Step{ID: id, Action: "get_status", Params: blastdoor.Params{"service": service}}
		}
		return blastdoor.Runbook{Name: name, Steps: []blastdoor.Step{look("one", "db"), look("other", "api")}}, nil
	})
}

func (p gatedPlanner) Propose(ctx context.Context, run blastdoor.Run, step blastdoor.StepState) (blastdoor.Proposal, error) {
	return pass(p.gate, "propose", func() (blastdoor.Proposal, error) { return Script{}.Propose(ctx, run, step) })
}

// forgetful is a journal that says yes to an intent and does not keep it.
type forgetful struct{ Journal }

func (j forgetful) Commit(ctx context.Context, c blastdoor.Commit) error {
	if c.Events[0].Body.Kind() == blastdoor.ApplyIntendedKind {
		return nil
	}
	return j.Journal.Commit(ctx, c)
}

// lenient is a journal that takes what was decided on an older history.
type lenient struct{ Journal }

func (j lenient) Commit(ctx context.Context, c blastdoor.Commit) error {
	err := j.Journal.Commit(ctx, c)
	if !blastdoor.ErrConflict.Is(err) || !strings.Contains(err.Error(), "events, not") {
		return err
	}
	history, err := j.Load(ctx, c.RunID)
	if err != nil {
		return err
	}
	c.At = len(history)
	for i := range c.Events {
		c.Events[i].Seq = c.At + i + 1
	}
	return j.Journal.Commit(ctx, c)
}
