package engine

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"blastdoor"
	"blastdoor/internal/memstore"
)

// stage is one play under way.
type stage struct {
	t        *testing.T
	world    *world
	store    *memstore.Store
	journal  Journal
	shelf    *shelf
	people   *people
	gate     *gate
	env      *gatedWorld
	runner   *Runner
	stop     func()
	seen     []blastdoor.Event
	policies map[string]blastdoor.Policy
	clicks   int
	result   result
}

// perform plays a run to its end and returns what it came to.
func perform(t *testing.T, p play, with parts) (r result) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{t: t, world: newWorld(t), store: memstore.New(), shelf: newShelf(), people: newPeople(),
			gate: &gate{faults: p.faults}, policies: map[string]blastdoor.Policy{}}
		s.world.naive = with.naive
		s.journal = s.store
		if with.journal != nil {
			s.journal = with.journal(s.store)
		}
		s.env = &gatedWorld{world: s.world, gate: s.gate, transit: map[string]int{}}
		s.start()
		s.play(p)
		s.end()
		s.stop()
		r = s.result
		r.calls, r.struck = s.gate.calls, s.gate.struck
	})
	return r
}

// start makes a new process, again and again until one comes up.
func (s *stage) start() {
	for range 10 {
		s.gate.set(false, s.gate.open)
		var err error
		s.runner, err = NewRunner(Options{Environment: s.env, Planner: gatedPlanner{s.gate}, Journal: gatedJournal{s.journal, s.gate},
			Board: gatedBoard{s.store, s.gate}, Directory: gatedPeople{s.people, s.gate}, Catalogue: gatedShelf{s.shelf, s.gate}, Now: time.Now})
		require.NoError(s.t, err)
		ctx, cancel := context.WithCancel(s.t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.runner.Run(ctx) }()
		time.Sleep(2 * delay) // its first question may be answered slowly
		synctest.Wait()
		select {
		case <-ended:
			cancel()
		default:
			s.stop = func() { cancel(); <-ended }
			return
		}
	}
	s.t.Fatal("no process comes up")
}

// settle lets everything that is under way come to rest, checks the properties,
// and starts the process again when it has died.
func (s *stage) settle() {
	s.rest()
	if s.gate.isDead() {
		s.restart()
	}
}

// rest outlasts every pause that the runner makes before it tries again, and every
// call that is under way: a click would wait for the run's lock, and virtual time
// does not pass while a goroutine waits for a lock.
func (s *stage) rest() {
	for busy := true; busy; {
		time.Sleep(brokenPause + 15*time.Second)
		synctest.Wait()
		s.runner.mu.Lock()
		busy = len(s.runner.active) > 0
		s.runner.mu.Unlock()
	}
	s.check(false)
}

func (s *stage) restart() {
	s.stop()
	s.result.restarts++
	s.start()
	s.rest()
}

// broughtAgain reports whether the inbox brings a request again: only where the
// answer says so. Whoever made any other is told that it failed, and that is that.
func broughtAgain(err error) bool {
	return blastdoor.ErrUnavailable.Is(err) || blastdoor.ErrNotPosted.Is(err)
}

// play asks for the run, and clicks where it waits, until it has ended. What a dead
// process has not answered is brought again by the inbox, too.
func (s *stage) play(p play) {
	req := blastdoor.StartRequest{SourceID: "src", Runbook: p.story, UserID: "U0ALICE", TeamID: "T0ACME", Channel: "C0OPS", InboxID: "in-0"}
	id := RunID(p.story, req.SourceID)
	for range 10 {
		_, err := s.runner.Start(s.t.Context(), req)
		dead := s.gate.isDead()
		s.settle()
		if !dead && !broughtAgain(err) {
			break
		}
	}
	for range 20 {
		run := s.fold(id)
		if run.Len == 0 || run.Ended() {
			break
		}
		if step := run.Current(); step != nil && step.Status == blastdoor.StatusWaiting {
			s.answer(run, step)
			continue
		}
		restarts := s.result.restarts
		if s.settle(); s.fold(id).Len == run.Len && s.result.restarts == restarts {
			s.violated("property 8: the run goes on only after a restart: %s", describe(run))
			break
		}
	}
	s.result.outcome = s.fold(id).Outcome
}

// answer has the requester try to approve, once for each question, and then Bob.
func (s *stage) answer(run blastdoor.Run, step *blastdoor.StepState) {
	ref, err := s.store.Post(step.Approval.DeliveryID)
	require.NoError(s.t, err)
	click := blastdoor.Click{RunID: run.ID, ApprovalID: step.Approval.ID, PlanHash: step.PlanHash, Approve: true,
		UserID: "U0BOB", TeamID: "T0ACME", Message: ref}
	if run.Refusals == 0 {
		click.UserID = "U0ALICE"
	}
	s.clicks++
	click.InboxID = "in-" + strconv.Itoa(s.clicks)
	for range 10 {
		s.gate.hurry(true)
		err := s.runner.Click(s.t.Context(), click)
		s.gate.hurry(false)
		dead := s.gate.isDead()
		s.settle()
		if !dead && !broughtAgain(err) {
			return // dealt with, or the person has been told and may click anew
		}
	}
}

// end stops the faults, starts the process once more and lets all timers run.
func (s *stage) end() {
	s.gate.set(false, true)
	s.stop()
	s.start()
	time.Sleep(aliveTTL + 10*time.Minute)
	synctest.Wait()
	s.check(true)
	s.truth()
}

func (s *stage) fold(id string) blastdoor.Run {
	events, err := s.store.Load(s.t.Context(), id)
	if err != nil {
		return blastdoor.Run{}
	}
	run, err := Fold(events)
	if err != nil {
		return blastdoor.Run{}
	}
	return run
}

// check holds everything that has happened against the ten properties.
func (s *stage) check(quiet bool) {
	history := s.store.History()
	if len(history) == len(s.seen) && !quiet || len(s.result.violations) > 0 {
		return
	}
	for _, e := range history[min(len(s.seen), len(history)):] {
		for _, digest := range PolicyDigests(e.Body) {
			body, err := s.store.Document(s.t.Context(), digest)
			require.NoError(s.t, err)
			s.policies[digest], err = ParsePolicy(body)
			require.NoError(s.t, err)
		}
	}
	s.result.violations = CheckProperties(Evidence{History: history, Earlier: s.seen, Ledger: s.ledger(),
		Projections: s.store.Projections(), Policies: s.policies, Quiet: quiet})
	s.seen = history
}

func (s *stage) ledger() []string {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	return slices.Clone(s.world.ledger)
}

// truth is what must hold beside the properties: the history tells of an effect
// exactly where the ledger has one, except where it says itself that it does not know.
func (s *stage) truth() {
	ledger := s.ledger()
	for id := range s.store.Projections() {
		run := s.fold(id)
		for i := range run.Steps {
			step := &run.Steps[i]
			told := step.Receipt != nil
			landed := step.Intent != nil && slices.Contains(ledger, step.Intent.Key)
			if told != landed && run.Outcome != blastdoor.RunInDoubt {
				s.violated("truth: step %s: the history tells of an effect: %v; the ledger has it: %v", step.Step.ID, told, landed)
			}
		}
	}
}

func (s *stage) violated(format string, args ...any) {
	s.result.violations = append(s.result.violations, fmt.Sprintf(format, args...))
}
