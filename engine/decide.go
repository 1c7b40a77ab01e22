package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"blastdoor"
	"blastdoor/verifier"
)

// Command is something that somebody or something wants of a run. The set is closed.
type Command interface{ command() }

type (
	// Request opens a run.
	Request struct {
		RunID string
		Body  blastdoor.RunRequested
	}
	// Propose records a planner's answer.
	Propose struct{ Proposal blastdoor.Proposal }
	// Seal records a plan.
	Seal struct{ Sealed Sealed }
	// Judge records the verdict on the plan.
	Judge struct{ Judgement Judgement }
	// Ask asks a second person.
	Ask struct {
		Approvers blastdoor.Approvers
		TTL       time.Duration
	}
	// Vote is a click on Approve or Decline.
	Vote struct {
		Click  blastdoor.Click
		Person blastdoor.Principal
		// Current is the approvers' rule of now; the pinned one is in the approval.
		Current blastdoor.Approvers
		Groups  []string             // the groups named by either rule that the person is in
		Stored  blastdoor.MessageRef // where the card with the buttons is; zero: nowhere
	}
	// Cancel ends a run that has nothing in flight.
	Cancel struct{ By blastdoor.Principal }
	// Recheck is the rehearsal and verdict right before the write.
	Recheck struct {
		Sealed    Sealed
		Judgement Judgement
		TTL       time.Duration
		Quorum    int // the larger of pinned and current
	}
	// Resolve is the environment's answer about the intent's key, with a fresh
	// recheck for the case that nothing was written.
	Resolve struct {
		Outcome   blastdoor.Outcome
		Receipt   blastdoor.Receipt
		Sealed    Sealed    // for OutcomeNotApplied
		Judgement Judgement // for OutcomeNotApplied
	}
	// Outcome is the answer of an Apply.
	Outcome struct {
		Receipt blastdoor.Receipt
		Err     error
	}
	// Observe is the answer of a read.
	Observe struct {
		Observation blastdoor.Observation
		Err         error
	}
	// CheckResult is the answer of a check.
	CheckResult struct {
		Before, After float64
		Passed        bool
		Inconclusive  string // not empty: why nothing can be said
	}
	// IntendRollback journals the declared way back before it is taken.
	IntendRollback struct{ PlanHash, Key string }
	// RollbackResult is the answer of the rollback.
	RollbackResult struct {
		Receipt blastdoor.Receipt
		Err     error
	}
	// Escalate records that a human has been paged.
	Escalate struct{ Detail string }
	// Finish records how the run ended, where its state says that it has.
	Finish struct{}
)

func (Request) command()        {}
func (Propose) command()        {}
func (Seal) command()           {}
func (Judge) command()          {}
func (Ask) command()            {}
func (Vote) command()           {}
func (Cancel) command()         {}
func (Recheck) command()        {}
func (Resolve) command()        {}
func (Outcome) command()        {}
func (Observe) command()        {}
func (CheckResult) command()    {}
func (IntendRollback) command() {}
func (RollbackResult) command() {}
func (Escalate) command()       {}
func (Finish) command()         {}

// Sealed is a plan with its identity.
type Sealed struct {
	Plan      blastdoor.Plan
	Hash      string
	GraphAsOf time.Time
}

// Judgement is a verdict with everything it was given on.
type Judgement struct {
	PolicyDigest  string // the policy of now; the pinned one is in the run
	Circumstances blastdoor.Circumstances
	Verdict       blastdoor.Verdict
}

// Decide says which events a command causes in a run at now. No events and no
// error means: nothing to record, go on. ErrConflict means that the run is not
// (or no longer) where the command thinks; ErrTooLate that it is too late to cancel.
func Decide(run blastdoor.Run, cmd Command, now time.Time) ([]blastdoor.Event, error) {
	d := decision{run: &run, step: run.Current(), now: now}
	if request, ok := cmd.(Request); ok {
		return d.request(request)
	}
	if vote, ok := cmd.(Vote); ok && run.Len > 0 {
		return d.vote(vote), nil
	}
	if run.Len == 0 || run.Ended() {
		return d.misplaced(cmd)
	}
	switch cmd := cmd.(type) {
	case Finish:
		return d.finish()
	case Cancel:
		return d.cancel(cmd)
	}
	if d.step == nil {
		return d.misplaced(cmd)
	}
	return d.decideStep(cmd)
}

// decision is one call of Decide.
type decision struct {
	run    *blastdoor.Run
	step   *blastdoor.StepState
	now    time.Time
	events []blastdoor.Event
}

func (d *decision) record(step string, body blastdoor.Body) {
	d.events = append(d.events, blastdoor.Event{RunID: d.run.ID, Seq: d.run.Len + len(d.events) + 1, At: d.now, Step: step, Body: body})
}

// of records a body about the current step and returns what has been recorded.
func (d *decision) of(body blastdoor.Body) ([]blastdoor.Event, error) {
	d.record(d.step.Step.ID, body)
	return d.events, nil
}

func (d *decision) misplaced(cmd Command) ([]blastdoor.Event, error) {
	if _, ok := cmd.(Cancel); ok {
		return nil, blastdoor.Errorf(blastdoor.ErrTooLate, "the run has already ended (%s)", d.run.Outcome)
	}
	return nil, blastdoor.Errorf(blastdoor.ErrConflict, "%T has no place in state %s", cmd, describe(*d.run))
}

func (d *decision) in(statuses ...blastdoor.StepStatus) bool {
	return slices.Contains(statuses, d.step.Status)
}

func (d *decision) request(cmd Request) ([]blastdoor.Event, error) {
	if d.run.Len != 0 {
		return d.misplaced(cmd)
	}
	d.run.ID = cmd.RunID
	d.record("", &cmd.Body)
	return d.events, nil
}

func (d *decision) decideStep(cmd Command) ([]blastdoor.Event, error) {
	switch cmd := cmd.(type) {
	case Propose:
		if d.in(blastdoor.StatusPending) {
			return d.of(&blastdoor.StepProposed{Proposal: cmd.Proposal})
		}
	case Seal:
		if d.in(blastdoor.StatusProposed) {
			return d.of(&blastdoor.PlanMade{Plan: cmd.Sealed.Plan, Hash: cmd.Sealed.Hash, GraphAsOf: cmd.Sealed.GraphAsOf})
		}
	case Judge:
		if d.in(blastdoor.StatusPlanned) {
			j := cmd.Judgement
			return d.of(&blastdoor.VerdictGiven{PlanHash: d.step.PlanHash, PolicyDigest: j.PolicyDigest,
				Circumstances: j.Circumstances, Verdict: j.Verdict})
		}
	case Ask:
		if d.in(blastdoor.StatusAsking) {
			return d.of(&blastdoor.ApprovalRequested{Approval: d.question(cmd)})
		}
	case Recheck:
		if d.in(blastdoor.StatusAllowed, blastdoor.StatusApproved) && d.step.Plan.Kind == blastdoor.Write {
			return d.recheck(cmd)
		}
	case Resolve:
		if d.in(blastdoor.StatusIntended, blastdoor.StatusDoubtful) {
			return d.resolve(cmd)
		}
	case Outcome:
		if d.in(blastdoor.StatusIntended, blastdoor.StatusDoubtful) {
			return d.outcome(cmd)
		}
	case Observe:
		if d.in(blastdoor.StatusAllowed) && d.step.Plan.Kind == blastdoor.Read {
			if cmd.Err != nil {
				return d.of(&blastdoor.ObserveFailed{Detail: Words(cmd.Err)})
			}
			return d.of(&blastdoor.Observed{Summary: cmd.Observation.Summary})
		}
	default:
		return d.decideAfter(cmd)
	}
	return d.misplaced(cmd)
}

// decideAfter decides what comes after a write: check, rollback, page.
func (d *decision) decideAfter(cmd Command) ([]blastdoor.Event, error) {
	switch cmd := cmd.(type) {
	case CheckResult:
		if d.in(blastdoor.StatusChecking) {
			switch {
			case cmd.Inconclusive != "":
				return d.of(&blastdoor.CheckInconclusive{Detail: cmd.Inconclusive})
			case cmd.Passed:
				return d.of(&blastdoor.CheckPassed{Before: cmd.Before, After: cmd.After})
			}
			return d.of(&blastdoor.CheckFailed{Before: cmd.Before, After: cmd.After})
		}
	case IntendRollback:
		if d.in(blastdoor.StatusUndoing) {
			return d.of(&blastdoor.RollbackIntended{PlanHash: cmd.PlanHash, Key: cmd.Key})
		}
	case RollbackResult:
		if cmd.Err == nil && d.in(blastdoor.StatusReverting) {
			return d.of(&blastdoor.RolledBack{Receipt: cmd.Receipt})
		}
		if cmd.Err != nil && d.in(blastdoor.StatusUndoing, blastdoor.StatusReverting) {
			return d.of(&blastdoor.RollbackFailed{Detail: Words(cmd.Err)})
		}
	case Escalate:
		if d.in(blastdoor.StatusEscalating) {
			return d.of(&blastdoor.Escalated{Detail: cmd.Detail})
		}
	}
	return d.misplaced(cmd)
}

func (d *decision) question(cmd Ask) blastdoor.Approval {
	return blastdoor.Approval{
		ID:       ApprovalID(d.run.ID, d.step.Step.ID, d.step.PlanHash, d.step.Plans),
		StepID:   d.step.Step.ID,
		PlanHash: d.step.PlanHash, DeliveryID: dryRunCardID(d.run, d.step),
		RequestedAt: d.now, ExpiresAt: d.now.Add(cmd.TTL),
		Quorum: max(1, cmd.Approvers.Quorum), Approvers: cmd.Approvers, Status: blastdoor.PendingApproval,
	}
}

// ApprovalID names the question about the n-th plan of a step. A plan that is
// made again, even an equal one, is a new question.
func ApprovalID(runID, stepID, planHash string, n int) string {
	digest := blastdoor.DigestBytes(fmt.Appendf(nil, "approval\x00%s\x00%s\x00%s\x00%d", runID, stepID, planHash, n))
	return "ap-" + strings.TrimPrefix(digest, "sha256:")[:20]
}

// vote counts a click, or refuses it. Both are recorded.
func (d *decision) vote(cmd Vote) []blastdoor.Event {
	step := d.run.StepByApproval(cmd.Click.ApprovalID)
	var approval *blastdoor.Approval
	if step != nil {
		approval = step.Approval
	}
	if !cmd.Click.Approve && approval != nil && d.withdrawal(cmd, approval) {
		d.record(step.Step.ID, &blastdoor.RunEnded{Outcome: blastdoor.RunCancelled, By: &cmd.Person,
			Detail: "the requester withdrew it"})
		return d.events
	}
	err := verifier.CheckApprover(verifier.ApproverInput{
		Approval: approval, Current: cmd.Current, Requester: d.run.Requester, Clicker: cmd.Person,
		ClickerGroups: cmd.Groups, Stored: cmd.Stored, Clicked: cmd.Click.Message,
		ApprovalID: cmd.Click.ApprovalID, PlanHash: cmd.Click.PlanHash, Now: d.now,
	})
	if refusal, ok := errors.AsType[*verifier.Refusal](err); ok {
		d.record("", &blastdoor.ApprovalRefused{ApprovalID: cut(cmd.Click.ApprovalID, 100), By: cmd.Person, Code: refusal.Code})
		return d.events
	}
	if cmd.Click.Approve {
		d.record(step.Step.ID, &blastdoor.ApprovalGranted{ApprovalID: approval.ID, PlanHash: approval.PlanHash, By: cmd.Person})
		return d.events
	}
	d.record(step.Step.ID, &blastdoor.ApprovalDeclined{ApprovalID: approval.ID, By: cmd.Person})
	d.record(step.Step.ID, &blastdoor.RunEnded{Outcome: blastdoor.RunDeclined, By: &cmd.Person})
	return d.events
}

// withdrawal reports whether a Decline is the requester taking the request back:
// that needs no approver's rights, only the same person and the same open card.
func (d *decision) withdrawal(cmd Vote, approval *blastdoor.Approval) bool {
	return cmd.Person.FullMember() && cmd.Person.Same(d.run.Requester) && !d.run.Ended() &&
		approval.Status == blastdoor.PendingApproval && approval.PlanHash == cmd.Click.PlanHash &&
		cmd.Stored.TS != "" && cmd.Stored == cmd.Click.Message && d.now.Before(approval.ExpiresAt)
}

func (d *decision) cancel(cmd Cancel) ([]blastdoor.Event, error) {
	if !cmd.By.FullMember() || !cmd.By.Same(d.run.Requester) {
		return nil, &blastdoor.Error{Code: blastdoor.ErrNotAllowed, Msg: "only the person who asked for a run can cancel it",
			Want: "an approver can press Decline on its card"}
	}
	if d.step == nil || !slices.Contains(cancellable(), d.step.Status) {
		return nil, &blastdoor.Error{Code: blastdoor.ErrTooLate, Msg: "a write is in flight, so it is too late to cancel",
			Want: "see /runbook status " + d.run.ID}
	}
	return d.of(&blastdoor.RunEnded{Outcome: blastdoor.RunCancelled, By: &cmd.By, Detail: "cancelled by the requester"})
}

// recheck decides right before the write. Only the very plan that was judged (and
// approved, where that was needed) may be intended.
func (d *decision) recheck(cmd Recheck) ([]blastdoor.Event, error) {
	if d.step.Status == blastdoor.StatusApproved && !d.now.Before(d.step.Approval.ExpiresAt) {
		return d.finish()
	}
	j := cmd.Judgement
	switch {
	case j.Verdict.Decision == blastdoor.Deny:
		return d.of(&blastdoor.ReverifyDenied{PlanHash: cmd.Sealed.Hash, PolicyDigest: j.PolicyDigest,
			Circumstances: j.Circumstances, Verdict: j.Verdict})
	case cmd.Sealed.Hash != d.step.PlanHash:
		return d.of(&blastdoor.PlanDrifted{OldHash: d.step.PlanHash, NewHash: cmd.Sealed.Hash,
			Detail: drift(*d.step.Plan, cmd.Sealed.Plan)})
	case d.step.Status == blastdoor.StatusApproved && len(d.step.Approval.Votes) < cmd.Quorum:
		return d.of(&blastdoor.PlanDrifted{OldHash: d.step.PlanHash, NewHash: cmd.Sealed.Hash,
			Detail: fmt.Sprintf("the rules now ask for %d approvals", cmd.Quorum)})
	case j.Verdict.Decision == blastdoor.NeedsApproval && !d.answered(j.Verdict):
		return d.of(&blastdoor.PlanDrifted{OldHash: d.step.PlanHash, NewHash: cmd.Sealed.Hash,
			Detail: "the rules now ask for a second person: " + codes(j.Verdict)})
	}
	approvalID, fresh := "", d.now.Add(cmd.TTL)
	if d.step.Status == blastdoor.StatusApproved {
		approvalID, fresh = d.step.Approval.ID, d.step.Approval.ExpiresAt
	}
	// COMMIT POINT: before this event is durable nothing has been written. Once it
	// is, the write may happen, the approval is spent, and a restart finds the key
	// here and asks the environment what became of it.
	return d.of(&blastdoor.ApplyIntended{PlanHash: d.step.PlanHash,
		Key:        blastdoor.IdempotencyKey(d.run.ID, d.step.Step.ID, d.step.PlanHash),
		ApprovalID: approvalID, PolicyDigest: j.PolicyDigest, Circumstances: j.Circumstances, Verdict: j.Verdict,
		FreshUntil: fresh, Locks: d.step.Plan.Locks()})
}

// answered reports whether an approval was given to every question that the
// verdict of now asks.
func (d *decision) answered(now blastdoor.Verdict) bool {
	return d.step.Status == blastdoor.StatusApproved && verifier.Covered(*d.step.Verdict, now)
}

func (d *decision) resolve(cmd Resolve) ([]blastdoor.Event, error) {
	switch cmd.Outcome {
	case blastdoor.OutcomeApplied:
		return d.of(&blastdoor.Applied{Receipt: cmd.Receipt})
	case blastdoor.OutcomeNotApplied:
		return d.reapply(cmd)
	default:
		return d.doubt("the environment cannot say whether the write happened")
	}
}

// reapply decides whether an intent that has not been written may still be.
// No event means: write it now, under the same key.
func (d *decision) reapply(cmd Resolve) ([]blastdoor.Event, error) {
	verdict := cmd.Judgement.Verdict
	switch {
	case !d.now.Before(d.step.Intent.FreshUntil):
		return d.of(&blastdoor.ApplyAbandoned{Detail: "nothing was written, and it is too late to write it now"})
	case verdict.Decision == blastdoor.Deny:
		return d.of(&blastdoor.ApplyAbandoned{Detail: "nothing was written; the rules now deny it", Verdict: &verdict})
	case cmd.Sealed.Hash != d.step.PlanHash:
		return d.of(&blastdoor.ApplyAbandoned{Detail: "nothing was written; " + drift(*d.step.Plan, cmd.Sealed.Plan)})
	case verdict.Decision == blastdoor.NeedsApproval && !d.answeredBefore(verdict):
		return d.of(&blastdoor.ApplyAbandoned{Detail: "nothing was written; the rules now ask for a second person: " + codes(verdict)})
	}
	return nil, nil
}

// answeredBefore is answered for an intent whose approval has been consumed.
func (d *decision) answeredBefore(now blastdoor.Verdict) bool {
	return d.step.Approval != nil && d.step.Approval.Status == blastdoor.ConsumedApproval &&
		verifier.Covered(*d.step.Verdict, now)
}

func (d *decision) outcome(cmd Outcome) ([]blastdoor.Event, error) {
	switch code := blastdoor.CodeOf(cmd.Err); {
	case cmd.Err == nil:
		return d.of(&blastdoor.Applied{Receipt: cmd.Receipt})
	case code == blastdoor.ErrNotApplied || code == blastdoor.ErrWorldMoved:
		return d.of(&blastdoor.ApplyFailed{Code: code, Detail: Words(cmd.Err)})
	default:
		return d.doubt(Words(cmd.Err))
	}
}

// doubt waits longer each time: 1, 3, 9 seconds; after MaxDoubts the run ends.
func (d *decision) doubt(detail string) ([]blastdoor.Event, error) {
	wait := time.Second
	for range d.doubts() {
		wait *= 3
	}
	return d.of(&blastdoor.ApplyUnknown{Detail: detail, RetryAt: d.now.Add(wait)})
}

func (d *decision) doubts() int { return min(d.step.Intent.Doubts, MaxDoubts) }

func (d *decision) finish() ([]blastdoor.Event, error) {
	if d.step == nil {
		d.record("", &blastdoor.RunEnded{Outcome: blastdoor.RunCompleted})
		return d.events, nil
	}
	outcome, detail := blastdoor.RunOutcome(""), d.step.Detail
	switch d.step.Status {
	case blastdoor.StatusDenied:
		outcome, detail = blastdoor.RunDenied, codes(*d.step.Verdict)
	case blastdoor.StatusFailed:
		outcome = blastdoor.RunFailed
	case blastdoor.StatusDeclined:
		outcome = blastdoor.RunDeclined
	case blastdoor.StatusRolledBack:
		outcome = blastdoor.RunRolledBack
	case blastdoor.StatusWaiting, blastdoor.StatusApproved:
		if !d.now.Before(d.step.Approval.ExpiresAt) {
			outcome, detail = blastdoor.RunExpired, "nobody approved it in time"
			if d.step.Status == blastdoor.StatusApproved {
				detail = "the approval expired before it could be used"
			}
		}
	case blastdoor.StatusProposed:
		if d.step.Plans >= MaxPlans {
			outcome, detail = blastdoor.RunFailed, fmt.Sprintf("the world kept changing: %d plans were overtaken", d.step.Plans)
		}
	case blastdoor.StatusDoubtful:
		if d.step.Intent.Doubts >= MaxDoubts {
			outcome = blastdoor.RunInDoubt
		}
	}
	if outcome == "" {
		return d.misplaced(Finish{})
	}
	return d.of(&blastdoor.RunEnded{Outcome: outcome, Detail: detail})
}
