package chat

import (
	"context"
	"errors"
	"fmt"

	"blastdoor"
)

// do carries a request out. done means that nothing is left to settle: the
// operator has done so.
func (p *processor) do(ctx context.Context, item blastdoor.InboxItem, req request) (reply Message, done bool, err error) {
	if req.Click != nil {
		err := p.click(ctx, item, *req.Click)
		return Message{}, err == nil, err
	}
	s := *req.Slash
	cmd, err := parseCommand(s.Text)
	if err != nil {
		return Message{}, false, p.suggest(ctx, s.Text, err)
	}
	switch cmd.Verb {
	case "run":
		if age := p.now().Sub(item.ReceivedAt); age > p.timing.Stale {
			return Message{}, false, &blastdoor.Error{Code: blastdoor.ErrTooLate, Msg: "this request waited too long to be started, and nothing was done",
				Want: "ask again if it is still needed"}
		}
		_, err := p.op.Start(ctx, startRequest(item, s, cmd))
		return Message{}, err == nil, err
	case "cancel":
		err := p.op.Cancel(ctx, blastdoor.CancelRequest{Channel: s.Channel, RunID: cmd.Name, UserID: s.UserID, TeamID: s.TeamID,
			InboxID: item.ID, ResponseURL: s.ResponseURL})
		return Message{}, err == nil, err
	}
	reply, err = p.tell(ctx, item, s, cmd)
	return reply, false, err
}

func startRequest(item blastdoor.InboxItem, s slashRequest, cmd command) blastdoor.StartRequest {
	return blastdoor.StartRequest{SourceID: item.ID, Runbook: cmd.Name, Inputs: cmd.Inputs, UserID: s.UserID, TeamID: s.TeamID,
		Channel: s.Channel, BreakGlass: cmd.BreakGlass, InboxID: item.ID, ResponseURL: s.ResponseURL}
}

// tell answers a command that only asks.
func (p *processor) tell(ctx context.Context, item blastdoor.InboxItem, s slashRequest, cmd command) (Message, error) {
	switch cmd.Verb {
	case "list":
		books, err := p.shelf.Runbooks(ctx)
		if err != nil {
			return Message{}, fmt.Errorf("listing runbooks: %w", err)
		}
		return listReply(books)
	case "plan":
		preview, err := p.op.Preview(ctx, startRequest(item, s, cmd))
		if err != nil {
			return Message{}, fmt.Errorf("planning %s: %w", cut(cmd.Name, 64), err)
		}
		return previewReply(preview)
	case "status":
		return p.status(ctx, s, cmd.Name)
	}
	return helpReply()
}

func (p *processor) status(ctx context.Context, s slashRequest, id string) (Message, error) {
	if id == "" {
		runs, err := p.runs.List(ctx, s.Channel, 10)
		if err != nil {
			return Message{}, fmt.Errorf("listing runs: %w", err)
		}
		return runsReply(s.Channel, runs, p.health())
	}
	run, err := p.runs.Run(ctx, id)
	if blastdoor.ErrNotFound.Is(err) || err == nil && run.Channel != s.Channel && run.Requester.UserID != s.UserID {
		// What happens in a channel is for its members: the answer is the same
		// whether the run exists elsewhere or nowhere.
		return Message{}, &blastdoor.Error{Code: blastdoor.ErrNotFound, Msg: fmt.Sprintf("there is no run %q in this channel", id),
			Want: "`/runbook status` lists the runs of this channel"}
	}
	if err != nil {
		return Message{}, fmt.Errorf("reading run %s: %w", id, err)
	}
	return statusReply(&run)
}

func (p *processor) click(ctx context.Context, item blastdoor.InboxItem, c clickRequest) error {
	value, ok := parseButtonValue(c.Value)
	if !ok {
		return &blastdoor.Error{Code: blastdoor.ErrUsage, Msg: "that button is not one that Blast Door made, and nothing was done",
			Want: "use the newest dry run of the run"}
	}
	return p.op.Click(ctx, blastdoor.Click{RunID: value.RunID, ApprovalID: value.ApprovalID, PlanHash: value.PlanHash,
		Approve: c.Action == approveAction, UserID: c.UserID, TeamID: c.TeamID,
		Message: blastdoor.MessageRef{Channel: c.Channel, TS: c.MessageTS}, InboxID: item.ID, ResponseURL: c.ResponseURL})
}

// suggest improves an error about an unknown command whose first word is a runbook.
func (p *processor) suggest(ctx context.Context, text string, err error) error {
	words, splitErr := split(normalise(text))
	usage, ok := errors.AsType[*blastdoor.Error](err)
	if splitErr != nil || !ok || len(words) == 0 {
		return err
	}
	books, listErr := p.shelf.Runbooks(ctx)
	if listErr != nil {
		return err // the first error is the one that matters here
	}
	for _, rb := range books {
		if rb.Name == words[0].text {
			return &blastdoor.Error{Code: usage.Code, Msg: usage.Msg, Want: "did you mean `run " + rb.Name + "`?"}
		}
	}
	return err
}
