package engine

import (
	"fmt"
	"slices"
	"time"

	"blastdoor"
)

// Evidence is what the properties of DESIGN section 3 are checked on.
type Evidence struct {
	// History holds the events of all runs in the order of their commits.
	History []blastdoor.Event
	// Earlier is an earlier reading of History, or nil.
	Earlier []blastdoor.Event
	// Ledger holds the idempotency keys of the environment's effects, in order;
	// nil: the ledger is not at hand, and nothing is held against it. Of a live
	// system it must be read before History.
	Ledger []string
	// LaterLedger is the ledger read after History; nil: nothing was running, and
	// Ledger is that too.
	LaterLedger []string
	// Projections by run, as stored; nil: not checked.
	Projections map[string]blastdoor.Projection
	// Policies by digest; nil: verdicts are not computed again.
	Policies map[string]blastdoor.Policy
	// Quiet: faults have stopped and every timer has run, so that every run must
	// have ended or wait for a human.
	Quiet bool
}

// CheckProperties checks the ten properties that hold after every event and
// returns what violates them, each with the number of its property.
func CheckProperties(e Evidence) []string {
	c := &checker{e: e, runs: map[string]blastdoor.Run{}, intents: map[string]int{}, consumed: map[string]bool{}, locked: map[string]string{}}
	c.ledger()
	for i := range e.History {
		c.event(&e.History[i])
	}
	c.effects()
	c.prefix()
	c.projections()
	c.quiet()
	return c.found
}

type checker struct {
	e        Evidence
	runs     map[string]blastdoor.Run
	intents  map[string]int // by key
	consumed map[string]bool
	locked   map[string]string // target to run
	found    []string
}

func (c *checker) add(property int, format string, args ...any) {
	c.found = append(c.found, fmt.Sprintf("property %d: ", property)+fmt.Sprintf(format, args...))
}

// ledger: 1. at most one effect per idempotency key.
func (c *checker) ledger() {
	seen := map[string]bool{}
	for _, key := range c.e.Ledger {
		if seen[key] {
			c.add(1, "two effects under key %s", key)
		}
		seen[key] = true
	}
}

func (c *checker) event(e *blastdoor.Event) {
	before := c.runs[e.RunID]
	run, err := Evolve(before, *e)
	if err != nil {
		c.add(7, "the history does not fold: %v", err)
		return
	}
	switch body := e.Body.(type) {
	case *blastdoor.VerdictGiven:
		c.verdict(before, body.PolicyDigest, *before.StepByID(e.Step).Plan, body.Circumstances, body.Verdict)
	case *blastdoor.ReverifyDenied:
		// Where the plan had drifted as well, the denied plan is not stored.
		if step := before.StepByID(e.Step); step.PlanHash == body.PlanHash {
			c.verdict(before, body.PolicyDigest, *step.Plan, body.Circumstances, body.Verdict)
		}
	case *blastdoor.ApplyIntended:
		c.intent(before, e, body)
	case *blastdoor.Applied:
		if c.intents[body.Receipt.Key] == 0 {
			c.add(2, "run %s records an effect under key %s, which no intent names", e.RunID, body.Receipt.Key)
		}
	}
	c.lock(run)
	c.runs[e.RunID] = run
}

// intent: 3. no intent without an allow, or an approval of the same plan hash by
// eligible people who are not the requester, unexpired and unspent; 4. an
// approval is consumed at most once.
func (c *checker) intent(before blastdoor.Run, e *blastdoor.Event, body *blastdoor.ApplyIntended) {
	c.intents[body.Key]++
	step := before.StepByID(e.Step)
	if want := blastdoor.IdempotencyKey(e.RunID, e.Step, step.PlanHash); body.Key != want || body.PlanHash != step.PlanHash {
		c.add(3, "run %s intends plan %s under key %s; the judged plan is %s", e.RunID, body.PlanHash, body.Key, step.PlanHash)
	}
	if hash, err := step.Plan.Hash(); err != nil || hash != step.PlanHash {
		c.add(3, "run %s step %s: the plan hashes to %s, not to %s", e.RunID, e.Step, hash, step.PlanHash)
	}
	c.verdict(before, body.PolicyDigest, *step.Plan, body.Circumstances, body.Verdict)
	if body.Verdict.Decision == blastdoor.Deny || step.Verdict.Decision == blastdoor.Deny {
		c.add(3, "run %s intends a denied write", e.RunID)
	}
	if body.ApprovalID == "" {
		if body.Verdict.Decision != blastdoor.Allow || step.Verdict.Decision != blastdoor.Allow {
			c.add(3, "run %s intends a write that needs an approval, without one", e.RunID)
		}
		return
	}
	if c.consumed[body.ApprovalID] {
		c.add(4, "approval %s is consumed twice", body.ApprovalID)
	}
	c.consumed[body.ApprovalID] = true
	c.approval(before, step.Approval, body, e.At)
}

func (c *checker) approval(run blastdoor.Run, a *blastdoor.Approval, body *blastdoor.ApplyIntended, at time.Time) {
	switch {
	case a == nil || a.ID != body.ApprovalID || a.PlanHash != body.PlanHash:
		c.add(3, "run %s: approval %s is not of this plan", run.ID, body.ApprovalID)
		return
	case a.Status != blastdoor.GrantedApproval || !at.Before(a.ExpiresAt):
		c.add(3, "run %s: approval %s is %s and expires at %s", run.ID, a.ID, a.Status, a.ExpiresAt)
	case len(a.Votes) < max(1, a.Quorum):
		c.add(3, "run %s: approval %s has %d votes of %d", run.ID, a.ID, len(a.Votes), a.Quorum)
	}
	for i, v := range a.Votes {
		twice := slices.ContainsFunc(a.Votes[:i], func(w blastdoor.Vote) bool { return w.By.Same(v.By) })
		if twice || v.By.Same(run.Requester) || !v.By.FullMember() {
			c.add(3, "run %s: the vote of %s does not count", run.ID, v.By.UserID)
		}
	}
}

// verdict: 9. a verdict can be computed again from its stored input.
func (c *checker) verdict(run blastdoor.Run, digest string, plan blastdoor.Plan, circumstances blastdoor.Circumstances, want blastdoor.Verdict) {
	if c.e.Policies == nil {
		return
	}
	pinned, ok1 := c.e.Policies[run.PolicyDigest]
	current, ok2 := c.e.Policies[digest]
	if !ok1 || !ok2 {
		c.add(9, "run %s: the policy of a verdict is not stored", run.ID)
		return
	}
	got, err1 := blastdoor.Digest(Verdict(plan, pinned, current, circumstances))
	stored, err2 := blastdoor.Digest(want)
	if err1 != nil || err2 != nil || got != stored {
		c.add(9, "run %s: the verdict is not the one that its input gives", run.ID)
	}
}

// lock: 10. one live intent per target.
func (c *checker) lock(run blastdoor.Run) {
	for target, owner := range c.locked {
		if owner == run.ID {
			delete(c.locked, target)
		}
	}
	flight := Project(run).Flight
	if flight == nil {
		return
	}
	for _, target := range flight.Targets {
		if owner := c.locked[target]; owner != "" {
			c.add(10, "runs %s and %s both have a live intent on %s", owner, run.ID, target)
		}
		c.locked[target] = run.ID
	}
}

// effects: 2. no effect without an earlier intent; 5. no effect after a terminal
// event. An outcome has no place after the end, so an effect of an ended run that
// its history does not record came too late; only a run in doubt says so itself.
func (c *checker) effects() {
	for _, key := range c.e.Ledger {
		if c.intents[key] == 0 {
			c.add(2, "the ledger holds an effect under key %s, which no intent names", key)
		}
	}
	for id := range c.runs {
		run := c.runs[id]
		for i := range run.Steps {
			c.effect(&run, &run.Steps[i])
		}
	}
}

// effect holds what a step says of its effect against the ledger.
func (c *checker) effect(run *blastdoor.Run, step *blastdoor.StepState) {
	if step.Intent == nil || c.e.Ledger == nil {
		return
	}
	happened := slices.Contains(c.e.Ledger, step.Intent.Key)
	switch {
	case step.Receipt != nil && !happened && !slices.Contains(c.e.LaterLedger, step.Intent.Key):
		c.add(2, "run %s records an effect of step %s that the ledger does not hold", run.ID, step.Step.ID)
	case step.Receipt == nil && happened && run.Ended() && run.Outcome != blastdoor.RunInDoubt:
		c.add(5, "run %s ended as %s, yet step %s took effect", run.ID, run.Outcome, step.Step.ID)
	}
}

// prefix: 6. history only grows.
func (c *checker) prefix() {
	for i, e := range c.e.Earlier {
		if i >= len(c.e.History) {
			c.add(6, "the history has shrunk from %d to %d events", len(c.e.Earlier), len(c.e.History))
			return
		}
		was, err1 := e.Canonical()
		is, err2 := c.e.History[i].Canonical()
		if err1 != nil || err2 != nil || !slices.Equal(was, is) {
			c.add(6, "event %d of the history has changed", i)
		}
	}
}

// projections: 7. folding the log gives the projection.
func (c *checker) projections() {
	if c.e.Projections == nil {
		return
	}
	for id, run := range c.runs {
		got, err1 := blastdoor.Digest(c.e.Projections[id])
		want, err2 := blastdoor.Digest(Project(run))
		if err1 != nil || err2 != nil || got != want {
			c.add(7, "the projection of run %s is not what its events fold to", id)
		}
	}
}

// quiet: 8. when faults stop, every run ends or waits for a human.
func (c *checker) quiet() {
	if !c.e.Quiet {
		return
	}
	for id, run := range c.runs {
		if run.Ended() {
			continue
		}
		if step := run.Current(); step == nil || step.Status != blastdoor.StatusWaiting {
			c.add(8, "run %s neither ended nor waits for a human: %s", id, describe(run))
		}
	}
}
