package engine

import (
	"context"

	"blastdoor"
)

// Script is the planner of a plain runbook: it proposes each step as people wrote it.
type Script struct{}

// Propose returns the step itself, with full confidence.
func (Script) Propose(_ context.Context, _ blastdoor.Run, step blastdoor.StepState) (blastdoor.Proposal, error) {
	return blastdoor.Proposal{StepID: step.Step.ID, Action: step.Step.Action, Params: step.Step.Params,
		Justification: step.Step.Description, Confidence: 1, Planner: blastdoor.RunbookPlanner}, nil
}
