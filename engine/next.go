package engine

import (
	"time"

	"blastdoor"
)

// EffectKind is what a run's state calls for.
type EffectKind string

const (
	EffectNone     EffectKind = "none"     // the run has ended
	EffectWait     EffectKind = "wait"     // nothing before At, unless somebody clicks
	EffectPropose  EffectKind = "propose"  // ask the planner
	EffectRehearse EffectKind = "rehearse" // dry run, seal the plan
	EffectJudge    EffectKind = "judge"    // ask the verifier
	EffectAsk      EffectKind = "ask"      // ask a second person
	EffectObserve  EffectKind = "observe"  // perform a read
	EffectRecheck  EffectKind = "recheck"  // rehearse and verify again; then journal the intent
	EffectResolve  EffectKind = "resolve"  // look the key up; then write, or record what happened
	EffectCheck    EffectKind = "check"    // watch the metric
	EffectRollback EffectKind = "rollback" // journal and perform the declared way back
	EffectEscalate EffectKind = "escalate" // page a human
	EffectEnd      EffectKind = "end"      // record how the run ended
)

// Effect is the one thing to do next.
type Effect struct {
	Kind EffectKind
	Step string
	At   time.Time // of a wait
}

// MaxDoubts is how often an outcome may be unknown before the run ends in doubt.
const MaxDoubts = 4

// MaxPlans is how often a step is planned before a world that keeps moving ends the run.
const MaxPlans = 5

// Next says which effect the state calls for at now. It is total: every state has
// exactly one answer, and start-up asks it the same question as normal running.
func Next(run blastdoor.Run, now time.Time) Effect {
	if run.Ended() {
		return Effect{Kind: EffectNone}
	}
	step := run.Current()
	if step == nil {
		return Effect{Kind: EffectEnd}
	}
	effect := Effect{Kind: EffectEnd, Step: step.Step.ID}
	switch step.Status {
	case blastdoor.StatusPending:
		effect.Kind = EffectPropose
	case blastdoor.StatusProposed:
		if step.Plans < MaxPlans {
			effect.Kind = EffectRehearse
		}
	case blastdoor.StatusPlanned:
		effect.Kind = EffectJudge
	case blastdoor.StatusAsking:
		effect.Kind = EffectAsk
	case blastdoor.StatusWaiting:
		if now.Before(step.Approval.ExpiresAt) {
			effect.Kind, effect.At = EffectWait, step.Approval.ExpiresAt
		}
	case blastdoor.StatusApproved:
		if now.Before(step.Approval.ExpiresAt) {
			effect.Kind = EffectRecheck
		}
	case blastdoor.StatusAllowed:
		effect.Kind = EffectRecheck
		if step.Plan.Kind == blastdoor.Read {
			effect.Kind = EffectObserve
		}
	case blastdoor.StatusIntended:
		effect.Kind = EffectResolve
	case blastdoor.StatusDoubtful:
		effect = nextDoubtful(step, now)
	case blastdoor.StatusChecking:
		effect.Kind = EffectCheck
	case blastdoor.StatusUndoing, blastdoor.StatusReverting:
		effect.Kind = EffectRollback
	case blastdoor.StatusEscalating:
		effect.Kind = EffectEscalate
	}
	return effect
}

func nextDoubtful(step *blastdoor.StepState, now time.Time) Effect {
	effect := Effect{Kind: EffectResolve, Step: step.Step.ID}
	switch {
	case step.Intent.Doubts >= MaxDoubts:
		effect.Kind = EffectEnd
	case now.Before(step.Intent.RetryAt):
		effect.Kind, effect.At = EffectWait, step.Intent.RetryAt
	}
	return effect
}
