package corpus

import (
	"context"

	"blastdoor"
	"blastdoor/engine"
)

// scripted proposes what the case says, and for every other step what people wrote.
type scripted map[string]Proposal

// Propose implements engine.Planner.
func (s scripted) Propose(ctx context.Context, run blastdoor.Run, step blastdoor.StepState) (blastdoor.Proposal, error) {
	p, ok := s[step.Step.ID]
	if !ok {
		return engine.Script{}.Propose(ctx, run, step)
	}
	if p.Step == "" {
		p.Step = step.Step.ID
	}
	return blastdoor.Proposal{StepID: p.Step, Action: p.Action, Params: p.Params, Justification: p.Justification,
		Confidence: p.Confidence, Planner: "scripted", Raw: p.Raw}, nil
}
