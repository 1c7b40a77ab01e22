package engine

import (
	"fmt"
	"slices"
	"time"

	"blastdoor"
)

// Project computes what lists, timers and locks are read from. It is a pure
// function of the run, so that it can be rebuilt from the events and compared.
func Project(run blastdoor.Run) blastdoor.Projection {
	p := blastdoor.Projection{
		Run: blastdoor.RunSummary{ID: run.ID, Runbook: run.Runbook, Requester: run.Requester.UserID, Channel: run.Channel,
			Status: blastdoor.RunActive, UpdatedAt: run.UpdatedAt, Len: run.Len},
		Ended: run.Ended(),
	}
	for i := range run.Steps {
		if a := run.Steps[i].Approval; a != nil {
			p.Approvals = append(p.Approvals, blastdoor.ApprovalRow{ID: a.ID, RunID: run.ID, StepID: a.StepID,
				PlanHash: a.PlanHash, Status: a.Status, ExpiresAt: a.ExpiresAt, ConsumedAt: a.ConsumedAt})
		}
	}
	if run.Ended() {
		p.Run.Status = string(run.Outcome)
		return p
	}
	if step := run.Current(); step != nil {
		projectCurrent(&p, run, step)
	}
	return p
}

func projectCurrent(p *blastdoor.Projection, run blastdoor.Run, step *blastdoor.StepState) {
	switch step.Status {
	case blastdoor.StatusWaiting:
		p.Run.Status, p.WakeAt = blastdoor.RunWaiting, step.Approval.ExpiresAt
	case blastdoor.StatusDoubtful:
		p.WakeAt = step.Intent.RetryAt
	}
	if InFlight(step.Status) {
		p.Flight = &blastdoor.Flight{RunID: run.ID, StepID: step.Step.ID, Targets: step.Intent.Locks, Affected: affected(*step.Plan)}
	}
}

// InFlight reports whether a step in this status holds its targets: a write of it
// may be happening, is being watched, or is being undone.
func InFlight(status blastdoor.StepStatus) bool {
	return slices.Contains([]blastdoor.StepStatus{blastdoor.StatusIntended, blastdoor.StatusDoubtful, blastdoor.StatusChecking,
		blastdoor.StatusUndoing, blastdoor.StatusReverting}, status)
}

// LongList is how many names a card shows before the full list goes to the thread.
const LongList = 15

func runCardID(runID string) string { return runID + "/card" }

func dryRunCardID(run *blastdoor.Run, step *blastdoor.StepState) string {
	return fmt.Sprintf("%s/%s/plan-%d", run.ID, step.Step.ID, step.Plans)
}

// Deliveries says which messages must show the run after these events: a pure
// function, so that a commit repeated after a crash asks for the same messages.
func Deliveries(run blastdoor.Run, events []blastdoor.Event, now time.Time) []blastdoor.Delivery {
	step := shownStep(run, events)
	card := blastdoor.Delivery{ID: runCardID(run.ID), RunID: run.ID, Kind: blastdoor.RunCard, Channel: run.Channel,
		Want: run.Len, Urgent: run.Ended(), CreatedAt: now}
	out := []blastdoor.Delivery{card}
	if step != nil && showsDryRun(step) {
		out = append(out, dryRunDeliveries(&run, step, card.ID, now)...)
	}
	if run.Ended() && run.Outcome != blastdoor.RunCompleted && !onlyRefusals(events) {
		out = append(out, blastdoor.Delivery{ID: run.ID + "/outcome", RunID: run.ID, Kind: blastdoor.OutcomeNote,
			Channel: run.Channel, Thread: card.ID, Want: run.Len, Urgent: true, CreatedAt: now})
	}
	return out
}

func onlyRefusals(events []blastdoor.Event) bool {
	for _, e := range events {
		if e.Body.Kind() != blastdoor.ApprovalRefusedKind {
			return false
		}
	}
	return true
}

// shownStep is the step that the events were about, if any.
func shownStep(run blastdoor.Run, events []blastdoor.Event) *blastdoor.StepState {
	for _, e := range slices.Backward(events) {
		if e.Step != "" {
			return run.StepByID(e.Step)
		}
	}
	return nil
}

// showsDryRun reports whether the step has a dry run to show: a judged plan of a
// write, and not in the instant between the verdict and the question, so that
// the card appears once, with its buttons.
func showsDryRun(step *blastdoor.StepState) bool {
	return step.Plan != nil && step.Plan.Kind == blastdoor.Write && step.Verdict != nil && step.Status != blastdoor.StatusAsking
}

func dryRunDeliveries(run *blastdoor.Run, step *blastdoor.StepState, runCard string, now time.Time) []blastdoor.Delivery {
	card := blastdoor.Delivery{ID: dryRunCardID(run, step), RunID: run.ID, Kind: blastdoor.DryRunCard, StepID: step.Step.ID,
		PlanNo: step.Plans, Channel: run.Channel, Thread: runCard, Want: run.Len, CreatedAt: now}
	if step.Approval != nil {
		card.Thread, card.Urgent = "", true // a question must be seen by the whole channel
	}
	out := []blastdoor.Delivery{card}
	if r := step.Plan.Radius; max(len(r.Direct), len(r.Dependents), len(r.Downstream)) > LongList {
		out = append(out, blastdoor.Delivery{ID: card.ID + "/list", RunID: run.ID, Kind: blastdoor.RadiusList, StepID: step.Step.ID,
			PlanNo: step.Plans, Channel: run.Channel, Thread: runCard, Want: 1, CreatedAt: now})
	}
	return out
}
