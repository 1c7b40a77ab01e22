package engine

import (
	"fmt"
	"slices"
	"time"

	"blastdoor"
)

// Fold builds a run from its whole history.
func Fold(events []blastdoor.Event) (blastdoor.Run, error) {
	var run blastdoor.Run
	for _, e := range events {
		var err error
		if run, err = Evolve(run, e); err != nil {
			return blastdoor.Run{}, err
		}
	}
	return run, nil
}

// Evolve folds one event into a run and returns the new run; the old one is not
// touched. An event that the state machine has no place for is ErrIntegrity: a
// history that makes no sense must not be acted on.
func Evolve(run blastdoor.Run, e blastdoor.Event) (blastdoor.Run, error) {
	if e.Seq != run.Len+1 {
		return run, blastdoor.Errorf(blastdoor.ErrIntegrity, "run %s: event %d follows event %d", e.RunID, e.Seq, run.Len)
	}
	next := run
	next.Steps = slices.Clone(run.Steps)
	next.Len, next.UpdatedAt = e.Seq, e.At
	var ok bool
	switch body := e.Body.(type) {
	case *blastdoor.RunRequested:
		ok = run.Len == 0 && open(&next, e, body)
	case *blastdoor.ApprovalRefused:
		next.Refusals++
		ok = run.Len > 0
	case *blastdoor.RunEnded:
		ok = run.Len > 0 && !run.Ended() && end(&next, e.At, body)
	default:
		ok = run.Len > 0 && !run.Ended() && evolveStep(&next, e)
	}
	if !ok {
		return run, blastdoor.Errorf(blastdoor.ErrIntegrity, "run %s: event %d (%s) has no place in state %s",
			e.RunID, e.Seq, e.Body.Kind(), describe(run))
	}
	return next, nil
}

func describe(run blastdoor.Run) string {
	switch current := run.Current(); {
	case run.Len == 0:
		return "new"
	case run.Ended():
		return "ended:" + string(run.Outcome)
	case current == nil:
		return "all steps done"
	default:
		return fmt.Sprintf("step %s %s", current.Step.ID, current.Status)
	}
}

func open(run *blastdoor.Run, e blastdoor.Event, body *blastdoor.RunRequested) bool {
	run.ID, run.Runbook, run.RunbookDigest, run.PolicyDigest = e.RunID, body.Runbook, body.RunbookDigest, body.PolicyDigest
	run.Inputs, run.Requester, run.Channel, run.RequestedAt = body.Inputs, body.Requester, body.Channel, e.At
	run.BreakGlass = body.BreakGlass
	run.Steps = make([]blastdoor.StepState, len(body.Steps))
	for i, step := range body.Steps {
		run.Steps[i] = blastdoor.StepState{Step: step, Status: blastdoor.StatusPending, Since: e.At}
	}
	return true
}

// evolveStep folds an event of the current step. It reports false when the step
// is not the current one or is not in a status that the event can follow.
func evolveStep(run *blastdoor.Run, e blastdoor.Event) bool {
	step := run.Current()
	if step == nil || e.Step != step.Step.ID || !slices.Contains(follows(e.Body.Kind()), step.Status) {
		return false
	}
	before := step.Status
	ok := foldPlanning(step, e) || foldWriting(run, step, e) || foldChecking(step, e)
	if step.Status != before {
		step.Since = e.At
	}
	return ok
}

// follows is the state machine: the statuses that an event of a step can follow.
func follows(kind blastdoor.EventKind) []blastdoor.StepStatus {
	type list = []blastdoor.StepStatus
	switch kind {
	case blastdoor.StepProposedKind:
		return list{blastdoor.StatusPending}
	case blastdoor.PlanMadeKind:
		return list{blastdoor.StatusProposed}
	case blastdoor.VerdictGivenKind:
		return list{blastdoor.StatusPlanned}
	case blastdoor.ApprovalRequestedKind:
		return list{blastdoor.StatusAsking}
	case blastdoor.ApprovalGrantedKind, blastdoor.ApprovalDeclinedKind:
		return list{blastdoor.StatusWaiting}
	case blastdoor.PlanDriftedKind, blastdoor.ReverifyDeniedKind, blastdoor.ApplyIntendedKind:
		return list{blastdoor.StatusAllowed, blastdoor.StatusApproved}
	case blastdoor.AppliedKind, blastdoor.ApplyFailedKind, blastdoor.ApplyUnknownKind, blastdoor.ApplyAbandonedKind:
		return list{blastdoor.StatusIntended, blastdoor.StatusDoubtful}
	case blastdoor.ObservedKind, blastdoor.ObserveFailedKind:
		return list{blastdoor.StatusAllowed}
	case blastdoor.CheckPassedKind, blastdoor.CheckFailedKind, blastdoor.CheckInconclusiveKind:
		return list{blastdoor.StatusChecking}
	case blastdoor.RollbackIntendedKind:
		return list{blastdoor.StatusUndoing}
	case blastdoor.RolledBackKind:
		return list{blastdoor.StatusReverting}
	case blastdoor.RollbackFailedKind:
		return list{blastdoor.StatusUndoing, blastdoor.StatusReverting}
	case blastdoor.EscalatedKind:
		return list{blastdoor.StatusEscalating}
	default:
		return nil
	}
}

func foldPlanning(step *blastdoor.StepState, e blastdoor.Event) bool {
	switch body := e.Body.(type) {
	case *blastdoor.StepProposed:
		step.Proposal, step.Status = &body.Proposal, blastdoor.StatusProposed
	case *blastdoor.PlanMade:
		step.Plan, step.PlanHash, step.GraphAsOf, step.Status = &body.Plan, body.Hash, body.GraphAsOf, blastdoor.StatusPlanned
		step.Verdict, step.Approval = nil, nil
		step.Plans++
	case *blastdoor.VerdictGiven:
		if body.PlanHash != step.PlanHash {
			return false
		}
		step.Verdict, step.Status = &body.Verdict, statusOf(body.Verdict.Decision)
	case *blastdoor.ApprovalRequested:
		if body.Approval.PlanHash != step.PlanHash {
			return false
		}
		approval := body.Approval
		step.Approval, step.Status = &approval, blastdoor.StatusWaiting
	case *blastdoor.ApprovalGranted:
		return foldVote(step, body, e.At)
	case *blastdoor.ApprovalDeclined:
		if step.Approval.ID != body.ApprovalID {
			return false
		}
		approval := *step.Approval
		approval.Status, approval.DeclinedBy = blastdoor.DeclinedApproval, &blastdoor.Vote{By: body.By, At: e.At}
		step.Approval, step.Status = &approval, blastdoor.StatusDeclined
	case *blastdoor.PlanDrifted:
		step.Detail, step.Status = body.Detail, blastdoor.StatusProposed
		setApproval(step, blastdoor.VoidApproval)
	default:
		return false
	}
	return true
}

func statusOf(d blastdoor.Decision) blastdoor.StepStatus {
	switch d {
	case blastdoor.Allow:
		return blastdoor.StatusAllowed
	case blastdoor.NeedsApproval:
		return blastdoor.StatusAsking
	default:
		return blastdoor.StatusDenied
	}
}

func foldVote(step *blastdoor.StepState, body *blastdoor.ApprovalGranted, at time.Time) bool {
	if step.Approval.ID != body.ApprovalID || step.Approval.PlanHash != body.PlanHash {
		return false
	}
	approval := *step.Approval
	approval.Votes = append(slices.Clone(approval.Votes), blastdoor.Vote{By: body.By, At: at})
	if len(approval.Votes) >= approval.Quorum {
		approval.Status, step.Status = blastdoor.GrantedApproval, blastdoor.StatusApproved
	}
	step.Approval = &approval
	return true
}

// setApproval closes a question that has not been answered for good.
func setApproval(step *blastdoor.StepState, status blastdoor.ApprovalStatus) {
	if step.Approval == nil || (step.Approval.Status != blastdoor.PendingApproval && step.Approval.Status != blastdoor.GrantedApproval) {
		return
	}
	approval := *step.Approval
	approval.Status = status
	step.Approval = &approval
}

func foldWriting(run *blastdoor.Run, step *blastdoor.StepState, e blastdoor.Event) bool {
	switch body := e.Body.(type) {
	case *blastdoor.ReverifyDenied:
		step.Verdict, step.Status = &body.Verdict, blastdoor.StatusDenied
		setApproval(step, blastdoor.VoidApproval)
	case *blastdoor.ApplyIntended:
		return foldIntent(run, step, body, e.At)
	case *blastdoor.Applied:
		receipt := body.Receipt
		step.Receipt, step.Status = &receipt, blastdoor.StatusDone
		if step.Plan.Check != nil {
			step.Status = blastdoor.StatusChecking
		}
	case *blastdoor.ApplyFailed:
		step.Detail, step.Status = body.Detail, blastdoor.StatusFailed
	case *blastdoor.ApplyUnknown:
		intent := *step.Intent
		intent.Doubts++
		intent.RetryAt = body.RetryAt
		step.Intent, step.Detail, step.Status = &intent, body.Detail, blastdoor.StatusDoubtful
	case *blastdoor.ApplyAbandoned:
		step.Detail, step.Status = body.Detail, blastdoor.StatusFailed
		if body.Verdict != nil && body.Verdict.Decision == blastdoor.Deny {
			step.Verdict, step.Status = body.Verdict, blastdoor.StatusDenied
		}
	default:
		return foldReading(step, e)
	}
	return true
}

func foldReading(step *blastdoor.StepState, e blastdoor.Event) bool {
	if step.Plan == nil || step.Plan.Kind != blastdoor.Read {
		return false
	}
	switch body := e.Body.(type) {
	case *blastdoor.Observed:
		step.Output, step.Status = body.Summary, blastdoor.StatusDone
	case *blastdoor.ObserveFailed:
		step.Detail, step.Status = body.Detail, blastdoor.StatusFailed
	default:
		return false
	}
	return true
}

func foldIntent(run *blastdoor.Run, step *blastdoor.StepState, body *blastdoor.ApplyIntended, at time.Time) bool {
	if body.PlanHash != step.PlanHash || step.Plan.Kind != blastdoor.Write {
		return false
	}
	if step.Status == blastdoor.StatusApproved {
		if step.Approval.ID != body.ApprovalID || step.Approval.Status != blastdoor.GrantedApproval {
			return false
		}
		approval := *step.Approval
		approval.Status, approval.ConsumedAt = blastdoor.ConsumedApproval, at
		step.Approval = &approval
	} else if body.ApprovalID != "" {
		return false
	}
	step.Intent = &blastdoor.Intent{Key: body.Key, PlanHash: body.PlanHash, At: at, FreshUntil: body.FreshUntil, Locks: body.Locks}
	step.Status = blastdoor.StatusIntended
	run.Writes++
	return true
}

func foldChecking(step *blastdoor.StepState, e blastdoor.Event) bool {
	switch body := e.Body.(type) {
	case *blastdoor.CheckPassed:
		step.Status = blastdoor.StatusDone
	case *blastdoor.CheckFailed:
		step.Detail = fmt.Sprintf("the check failed: %v before, %v after", body.Before, body.After)
		step.Status = blastdoor.StatusEscalating
		if step.Plan.Rollback != nil {
			step.Status = blastdoor.StatusUndoing
		}
	case *blastdoor.CheckInconclusive:
		step.Detail, step.Status = body.Detail, blastdoor.StatusEscalating
	case *blastdoor.RollbackIntended:
		step.Status = blastdoor.StatusReverting
	case *blastdoor.RolledBack:
		step.Undone, step.Status = true, blastdoor.StatusEscalating
	case *blastdoor.RollbackFailed:
		step.Detail, step.Status = body.Detail, blastdoor.StatusEscalating
	case *blastdoor.Escalated:
		step.Status = blastdoor.StatusFailed
		if step.Undone {
			step.Status = blastdoor.StatusRolledBack
		}
	default:
		return false
	}
	return true
}

// endings says in which status the current step must be for an outcome; the step
// takes the outcome's own status.
func endings(outcome blastdoor.RunOutcome) (from []blastdoor.StepStatus, to blastdoor.StepStatus) {
	type list = []blastdoor.StepStatus
	switch outcome {
	case blastdoor.RunDenied:
		return list{blastdoor.StatusDenied}, blastdoor.StatusDenied
	case blastdoor.RunFailed:
		return list{blastdoor.StatusFailed, blastdoor.StatusProposed}, blastdoor.StatusFailed
	case blastdoor.RunDeclined:
		return list{blastdoor.StatusDeclined}, blastdoor.StatusDeclined
	case blastdoor.RunExpired:
		return list{blastdoor.StatusWaiting, blastdoor.StatusApproved}, blastdoor.StatusExpired
	case blastdoor.RunCancelled:
		return cancellable(), blastdoor.StatusCancelled
	case blastdoor.RunRolledBack:
		return list{blastdoor.StatusRolledBack}, blastdoor.StatusRolledBack
	case blastdoor.RunInDoubt:
		return list{blastdoor.StatusDoubtful}, blastdoor.StatusInDoubt
	default:
		return nil, ""
	}
}

// cancellable are the statuses in which nothing has been written or intended.
func cancellable() []blastdoor.StepStatus {
	return []blastdoor.StepStatus{blastdoor.StatusPending, blastdoor.StatusProposed, blastdoor.StatusPlanned,
		blastdoor.StatusAllowed, blastdoor.StatusAsking, blastdoor.StatusWaiting, blastdoor.StatusApproved}
}

func end(run *blastdoor.Run, at time.Time, body *blastdoor.RunEnded) bool {
	step := run.Current()
	if (step == nil) != (body.Outcome == blastdoor.RunCompleted) {
		return false
	}
	if step != nil {
		from, to := endings(body.Outcome)
		if !slices.Contains(from, step.Status) {
			return false
		}
		if step.Status != to {
			step.Status, step.Since = to, at
		}
		closed := blastdoor.VoidApproval
		if body.Outcome == blastdoor.RunExpired {
			closed = blastdoor.ExpiredApproval
		}
		setApproval(step, closed)
		skipAfter(run, step, at)
	}
	run.Outcome, run.Detail, run.EndedBy = body.Outcome, body.Detail, body.By
	return true
}

func skipAfter(run *blastdoor.Run, last *blastdoor.StepState, at time.Time) {
	passed := false
	for i := range run.Steps {
		step := &run.Steps[i]
		if passed {
			step.Status, step.Since = blastdoor.StatusSkipped, at
		}
		passed = passed || step == last
	}
}
