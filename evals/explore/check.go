package explore

import (
	"fmt"
	"reflect"
	"slices"

	"blastdoor"
	"blastdoor/engine"
)

// checkAppend checks what the properties say about new events: it sees only the
// step from one state to the next, where engine.CheckProperties reads the whole
// history. It is written anew, from the text of the properties, and the tests
// hold one against the other.
func (m *model) checkAppend(before, after *state, run int, h *hand, events []blastdoor.Event) string {
	if back(after.log, len(events)) != before.log {
		return "property 6: the history did not grow by what was appended"
	}
	if !reflect.DeepEqual(engine.Project(after.runs[run].run), after.runs[run].proj) {
		return fmt.Sprintf("property 7: the projection of run %s is not what its events fold to", runID(run))
	}
	var r blastdoor.Run
	if before.runs[run] != nil {
		r = before.runs[run].run
	}
	for _, e := range events {
		breach := ""
		switch body := e.Body.(type) {
		case *blastdoor.VerdictGiven:
			breach = m.checkVerdict(&r, *r.StepByID(e.Step).Plan, body.PolicyDigest, body.Circumstances, body.Verdict)
		case *blastdoor.ReverifyDenied:
			breach = m.checkVerdict(&r, h.cmd.(engine.Recheck).Sealed.Plan, body.PolicyDigest, body.Circumstances, body.Verdict)
		case *blastdoor.ApplyIntended:
			breach = m.checkIntent(before, &r, h, e, body)
		case *blastdoor.Applied:
			if !slices.Contains(after.env.ledger, body.Receipt.Key) {
				breach = "truth: an effect is recorded that is not in the ledger"
			}
			if in := r.StepByID(e.Step).Intent; in == nil || in.Key != body.Receipt.Key {
				breach = "property 2: an effect is recorded that no intent names"
			}
		}
		if breach != "" {
			return breach
		}
		r, _ = m.evolve(r, e) // it has been folded without an error before
	}
	return ""
}

func back(e *entry, n int) *entry {
	for range n {
		e = e.prev
	}
	return e
}

// checkVerdict: 9.
func (m *model) checkVerdict(run *blastdoor.Run, plan blastdoor.Plan, digest string, c blastdoor.Circumstances, want blastdoor.Verdict) string {
	pinned, ok1 := m.byDigest[run.PolicyDigest]
	current, ok2 := m.byDigest[digest]
	if !ok1 || !ok2 || !reflect.DeepEqual(engine.Verdict(plan, pinned, current, c), want) {
		return "property 9: a verdict is not the one that its input gives"
	}
	return ""
}

// checkIntent: 3, 4 and 9 at the commit point, and what the model knows to be true.
func (m *model) checkIntent(before *state, run *blastdoor.Run, h *hand, e blastdoor.Event, body *blastdoor.ApplyIntended) string {
	step := run.StepByID(e.Step)
	hash, err := step.Plan.Hash()
	switch {
	case err != nil || hash != step.PlanHash || body.PlanHash != hash:
		return "property 3: the intent is of another plan than the one that was judged"
	case body.Key != blastdoor.IdempotencyKey(run.ID, e.Step, hash):
		return "property 3: the key does not follow from run, step and plan"
	case body.Verdict.Decision == blastdoor.Deny || step.Verdict.Decision == blastdoor.Deny:
		return "property 3: a denied write is intended"
	case body.ApprovalID == "" && (body.Verdict.Decision != blastdoor.Allow || step.Verdict.Decision != blastdoor.Allow):
		return "property 3: a write that needs an approval is intended without one"
	case body.ApprovalID != "" && slices.Contains(before.consumed, body.ApprovalID):
		return "property 4: an approval is consumed twice"
	}
	if body.ApprovalID != "" {
		if breach := m.checkApproval(run, step.Approval, e, body); breach != "" {
			return breach
		}
	}
	if breach := m.checkVerdict(run, *step.Plan, body.PolicyDigest, body.Circumstances, body.Verdict); breach != "" {
		return breach
	}
	// The model knows what the world was at the last look, whatever it was said to be.
	if h.frozen {
		return "truth: a write is intended though a freeze had begun before the last look"
	}
	if m.plans[planKey{slices.Index([]string{runID(0), runID(1)}, run.ID), e.Step, h.world}].Hash != hash {
		return "truth: a write is intended though the world had changed before the last look"
	}
	return ""
}

func (m *model) checkApproval(run *blastdoor.Run, a *blastdoor.Approval, e blastdoor.Event, body *blastdoor.ApplyIntended) string {
	switch {
	case a == nil || a.ID != body.ApprovalID || a.PlanHash != body.PlanHash:
		return "property 3: the approval is of another plan"
	case a.Status != blastdoor.GrantedApproval:
		return fmt.Sprintf("property 3: the approval is %s", a.Status)
	case !e.At.Before(a.ExpiresAt):
		return "property 3: the approval has expired"
	case len(a.Votes) < max(1, a.Quorum):
		return "property 3: the quorum is not reached"
	}
	for i, v := range a.Votes {
		if !m.mayApprove(v.By.UserID, run) {
			return fmt.Sprintf("property 3: the vote of %s does not count", v.By.UserID)
		}
		if slices.ContainsFunc(a.Votes[:i], func(w blastdoor.Vote) bool { return w.By.UserID == v.By.UserID }) {
			return "property 3: one person is counted twice"
		}
	}
	return ""
}

// checkState checks what can be seen of a state alone: 1, 2, 5, 8 and 10.
func (m *model) checkState(s *state) string {
	for i, key := range s.env.ledger {
		if slices.Contains(s.env.ledger[:i], key) {
			return "property 1: two effects under one key"
		}
		if breach := checkEffect(s, key); breach != "" {
			return breach
		}
	}
	for run, v := range s.runs {
		if v != nil && v.proj.Flight != nil && s.locked(run, v.proj.Flight) {
			return "property 10: two live intents on one target"
		}
	}
	if m.isQuiet(s) {
		for _, v := range s.runs {
			if v != nil && !v.run.Ended() && v.run.Current().Status != blastdoor.StatusWaiting {
				return fmt.Sprintf("property 8: run %s neither ended nor waits for a human", v.run.ID)
			}
		}
	}
	return ""
}

// checkEffect: 2, no effect without an intent; 5, no effect after the end.
func checkEffect(s *state, key string) string {
	for _, v := range s.runs {
		if v == nil {
			continue
		}
		for i := range v.run.Steps {
			step := &v.run.Steps[i]
			if step.Intent == nil || step.Intent.Key != key {
				continue
			}
			if v.run.Ended() && v.run.Outcome != blastdoor.RunInDoubt && step.Receipt == nil {
				return fmt.Sprintf("property 5: run %s ended as %s, yet its write took effect", v.run.ID, v.run.Outcome)
			}
			return ""
		}
	}
	return "property 2: an effect that no intent names"
}

// fair is the move that follows when faults have stopped and nobody does
// anything: writes under way arrive, workers go on (first those that hold a
// target), and then the clock. False: the state is quiet.
func (m *model) fair(s *state) (move, bool) {
	if len(s.env.transit) > 0 {
		return move{kind: lands}, true
	}
	for run := range s.stale {
		if s.stale[run].snapshot != nil {
			return move{kind: crash}, true // of the process that has lost its lease, too
		}
	}
	for _, flying := range []bool{true, false} {
		for run, v := range s.runs {
			if v == nil || (v.proj.Flight != nil) != flying {
				continue
			}
			effect := m.next(v.run, at(s.now)).Kind
			if effect == engine.EffectRecheck && s.locked(run, &blastdoor.Flight{Targets: []string{target}}) {
				continue // it tries again when the other run has let go
			}
			switch {
			case s.hands[run].write:
				return move{writes, run, answered}, true
			case s.hands[run].snapshot != nil:
				return move{kind: commits, run: run}, true
			case effect != engine.EffectNone && effect != engine.EffectWait:
				return move{kind: looks, run: run}, true
			}
		}
	}
	for _, v := range s.runs {
		if v != nil && v.proj.Flight != nil && s.left(v.timers[2]) > 0 {
			return move{kind: clock}, true
		}
	}
	return move{}, false
}

func (m *model) isQuiet(s *state) bool {
	_, goesOn := m.fair(s)
	return !goesOn
}

// evidence is what engine.CheckProperties is asked about a state.
func (m *model) evidence(s *state) engine.Evidence {
	e := engine.Evidence{History: s.history(), Ledger: s.env.ledger, Projections: map[string]blastdoor.Projection{},
		Policies: m.byDigest, Quiet: m.isQuiet(s)}
	for _, v := range s.runs {
		if v != nil {
			e.Projections[v.run.ID] = v.proj
		}
	}
	return e
}
