package app

import (
	"context"
	"time"

	"blastdoor"
	"blastdoor/engine"
	"blastdoor/simenv"
)

// PreviewRequest asks for a rehearsal without Slack and without a log.
type PreviewRequest struct {
	Files      Files // only the world is read; without one a fresh default world is not invented
	RunbookDir string
	PolicyFile string
	Runbook    string
	Inputs     map[string]string
	Channel    string // empty: the first channel of the policy
	Now        func() time.Time
}

// Preview rehearses a runbook in the terminal: dry runs and verdicts, nothing
// written. It judges as if a full member had asked in the channel; who they are
// is for Slack to say, so a policy that names requesters will refuse here.
func Preview(ctx context.Context, req PreviewRequest) (blastdoor.Preview, error) {
	library, err := Library(req.RunbookDir, req.PolicyFile)
	if err != nil {
		return blastdoor.Preview{}, err
	}
	if req.Channel == "" {
		policy, err := library.Policy(ctx)
		if err != nil {
			return blastdoor.Preview{}, err
		}
		if len(policy.Channels) > 0 {
			req.Channel = policy.Channels[0].ID
		}
	}
	env, err := simenv.Open(ctx, req.Files.World(), simenv.Options{Now: req.Now})
	if err != nil {
		return blastdoor.Preview{}, err
	}
	defer env.Close()
	runner, err := engine.NewRunner(engine.Options{Environment: env, Planner: engine.Script{}, Journal: noLog{}, Board: noLog{},
		Directory: terminal{}, Catalogue: library, Now: req.Now})
	if err != nil {
		return blastdoor.Preview{}, err
	}
	return runner.Preview(ctx, blastdoor.StartRequest{Runbook: req.Runbook, Inputs: req.Inputs, UserID: terminalUser,
		TeamID: terminalUser, Channel: req.Channel})
}

const terminalUser = "terminal"

// terminal is the directory of a preview: one full member without any group.
type terminal struct{}

func (terminal) Person(_ context.Context, userID, teamID string) (blastdoor.Principal, error) {
	return blastdoor.Principal{UserID: userID, TeamID: teamID, Name: terminalUser, Verified: true}, nil
}

func (terminal) Groups(context.Context, string, []string) ([]string, error) { return nil, nil }

// noLog is the log of a preview: empty, and it refuses to be written.
type noLog struct{}

func (noLog) refuse() error {
	return blastdoor.Errorf(blastdoor.ErrNotAllowed, "a preview writes nothing")
}

func (n noLog) Begin(context.Context, string, blastdoor.Commit) (string, bool, error) {
	return "", false, n.refuse()
}
func (n noLog) Commit(context.Context, blastdoor.Commit) error             { return n.refuse() }
func (n noLog) Load(context.Context, string) ([]blastdoor.Event, error)    { return nil, n.refuse() }
func (noLog) Unfinished(context.Context) ([]string, error)                 { return nil, nil }
func (n noLog) Document(context.Context, string) ([]byte, error)           { return nil, n.refuse() }
func (noLog) InFlight(context.Context) ([]blastdoor.Flight, error)         { return nil, nil }
func (n noLog) Settle(context.Context, string, []blastdoor.Delivery) error { return n.refuse() }
func (n noLog) Posted(context.Context, string) (blastdoor.MessageRef, error) {
	return blastdoor.MessageRef{}, n.refuse()
}
