package engine

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"slices"
	"strings"

	"blastdoor"
)

// RunID names the run of a request. It follows from Slack's own id of the
// request, so that the same request always asks for the same run.
func RunID(runbook, sourceID string) string {
	sum := sha256.Sum256([]byte("blastdoor-run-v1\x00" + sourceID))
	return runbook + "-" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:5]))
}

// Start opens a run, settles the inbox row it came from in the same transaction,
// and sets the run in motion. The same source id starts one run, however often it
// is asked for.
func (r *Runner) Start(ctx context.Context, req blastdoor.StartRequest) (string, error) {
	rb, inputs, steps, err := r.resolveRequest(ctx, req)
	if err != nil {
		return "", err
	}
	person, err := r.Directory.Person(ctx, req.UserID, req.TeamID)
	if err != nil {
		return "", unavailable("checking who you are", err)
	}
	policy, err := r.Catalogue.Policy(ctx)
	if err != nil {
		return "", err
	}
	doc, err := document(policy)
	if err != nil {
		return "", err
	}
	digest, err := blastdoor.Digest(rb)
	if err != nil {
		return "", err
	}
	id := RunID(rb.Name, req.SourceID)
	cmd := Request{RunID: id, Body: blastdoor.RunRequested{SourceID: req.SourceID, Runbook: rb.Name, RunbookDigest: digest,
		PolicyDigest: doc.Digest, Inputs: inputs, Steps: steps, Requester: person, Channel: req.Channel,
		BreakGlass: cut(req.BreakGlass, 500)}}
	events, err := Decide(blastdoor.Run{}, cmd, r.Now())
	if err != nil {
		return "", err
	}
	_, commit, err := transition(blastdoor.Run{}, events, r.Now(), extras{settles: req.InboxID, documents: []blastdoor.Document{doc}})
	if err != nil {
		return "", err
	}
	for i := range commit.Deliveries {
		// Should the card not be postable in this channel, this is the one way left
		// to say so.
		commit.Deliveries[i].ResponseURL = req.ResponseURL
	}
	began, _, err := r.Journal.Begin(ctx, req.SourceID, commit)
	if err != nil {
		r.lookLater(id)
		return "", fmt.Errorf("beginning run %s: %w", commit.RunID, err)
	}
	r.Poke(began)
	return began, nil
}

func (r *Runner) resolveRequest(ctx context.Context, req blastdoor.StartRequest) (blastdoor.Runbook, blastdoor.Params, []blastdoor.Step, error) {
	rb, err := r.Catalogue.Runbook(ctx, req.Runbook)
	if err != nil {
		return rb, nil, nil, err
	}
	inputs, steps, err := r.Catalogue.Resolve(rb, req.Inputs)
	if err != nil {
		return rb, nil, nil, err
	}
	// Early and in private: a value that no schema accepts must not become a run.
	for _, step := range steps {
		if action, ok := r.actions[step.Action]; ok {
			if err := r.Catalogue.ValidateParams(action, step.Params); err != nil {
				return rb, nil, nil, err
			}
		}
	}
	return rb, inputs, steps, nil
}

// Click decides on a press of Approve or Decline. A click that does not count is
// recorded too, and its reason is sent to the clicker alone; Click then returns
// nil, for the click has been dealt with. ErrNotPosted and ErrUnavailable mean
// that nothing was decided and the click should be brought again.
func (r *Runner) Click(ctx context.Context, click blastdoor.Click) error {
	unlock := r.locks.lock(click.RunID)
	defer unlock()
	run, err := r.load(ctx, click.RunID)
	if err != nil {
		return err
	}
	vote, err := r.voteOf(ctx, run, click)
	if err != nil {
		return err
	}
	events, err := Decide(run, vote, r.Now())
	if err != nil {
		return err
	}
	extra := extras{settles: click.InboxID}
	if refused, ok := events[0].Body.(*blastdoor.ApprovalRefused); ok {
		extra.deliveries = []blastdoor.Delivery{r.refusalNotice(run, click, refused.Code)}
	}
	_, commit, err := transition(run, events, r.Now(), extra)
	if err != nil {
		return err
	}
	if err := r.Journal.Commit(ctx, commit); err != nil {
		r.lookLater(run.ID)
		return fmt.Errorf("recording the click on %s: %w", run.ID, err)
	}
	if extra.deliveries == nil {
		r.AfterDecision(ctx)
	}
	r.Poke(run.ID)
	return nil
}

// lookLater drives a run after a commit that was answered with an error: it may be
// durable all the same, or become so, and nobody else would drive the run then.
func (r *Runner) lookLater(runID string) { r.wakeAt(runID, r.Now().Add(brokenPause)) }

// voteOf looks everything up that decides whether the click counts. A person who
// cannot be looked up is nobody, and nobody's click counts.
func (r *Runner) voteOf(ctx context.Context, run blastdoor.Run, click blastdoor.Click) (Vote, error) {
	vote := Vote{Click: click, Person: blastdoor.Principal{UserID: click.UserID, TeamID: click.TeamID}}
	now, err := r.rules(ctx, run)
	if err != nil {
		return vote, err
	}
	step := run.StepByApproval(click.ApprovalID)
	named := now.current.Approvers.Groups
	vote.Current = now.current.Approvers
	if step != nil {
		_, vote.Current = r.approvers(step, now)
		named = slices.Concat(vote.Current.Groups, step.Approval.Approvers.Groups)
		vote.Stored, err = r.Board.Posted(ctx, step.Approval.DeliveryID)
		switch {
		case blastdoor.ErrNotFound.Is(err):
			vote.Stored = blastdoor.MessageRef{} // no card, so no click on it counts
		case err != nil:
			return vote, err
		}
	}
	person, err := r.Directory.Person(ctx, click.UserID, click.TeamID)
	if err != nil {
		r.Logger.WarnContext(ctx, "clicker not verified", "run", run.ID, "user", click.UserID, "err", err)
		return vote, ctx.Err()
	}
	groups, err := r.Directory.Groups(ctx, person.UserID, named)
	if err != nil {
		r.Logger.WarnContext(ctx, "clicker's groups not verified", "run", run.ID, "user", click.UserID, "err", err)
		return vote, ctx.Err()
	}
	vote.Person, vote.Groups = person, groups
	return vote, nil
}

func (r *Runner) refusalNotice(run blastdoor.Run, click blastdoor.Click, code blastdoor.RefusalCode) blastdoor.Delivery {
	return blastdoor.Delivery{ID: "notice/" + click.InboxID, RunID: run.ID, Kind: blastdoor.NoticeMsg, Channel: click.Message.Channel,
		User: click.UserID, Want: 1, Urgent: true, ResponseURL: click.ResponseURL, CreatedAt: r.Now(),
		Notice: &blastdoor.Notice{Code: string(code), RunID: run.ID}}
}

// Cancel ends a run at its requester's wish, unless a write is in flight.
func (r *Runner) Cancel(ctx context.Context, req blastdoor.CancelRequest) error {
	unlock := r.locks.lock(req.RunID)
	defer unlock()
	run, err := r.load(ctx, req.RunID)
	if err != nil {
		return err
	}
	person, err := r.Directory.Person(ctx, req.UserID, req.TeamID)
	if err != nil {
		return unavailable("checking who you are", err)
	}
	notice := blastdoor.Delivery{ID: "notice/" + req.InboxID, RunID: run.ID, Kind: blastdoor.NoticeMsg, Channel: req.Channel,
		User: req.UserID, Want: 1, ResponseURL: req.ResponseURL, CreatedAt: r.Now(),
		Notice: &blastdoor.Notice{Code: string(blastdoor.RunCancelled), RunID: run.ID}}
	_, err = r.record(ctx, run, Cancel{By: person}, extras{settles: req.InboxID, deliveries: []blastdoor.Delivery{notice}})
	return err
}

// Preview rehearses and judges every step of a runbook against the world of now
// and writes nothing. A later step's world may differ once an earlier one has run.
func (r *Runner) Preview(ctx context.Context, req blastdoor.StartRequest) (blastdoor.Preview, error) {
	rb, inputs, steps, err := r.resolveRequest(ctx, req)
	if err != nil {
		return blastdoor.Preview{}, err
	}
	person, err := r.Directory.Person(ctx, req.UserID, req.TeamID)
	if err != nil {
		return blastdoor.Preview{}, unavailable("checking who you are", err)
	}
	policy, err := r.Catalogue.Policy(ctx)
	if err != nil {
		return blastdoor.Preview{}, err
	}
	run := blastdoor.Run{ID: "preview", Runbook: rb.Name, Inputs: inputs, Requester: person, Channel: req.Channel,
		BreakGlass: cut(req.BreakGlass, 500)}
	preview := blastdoor.Preview{Runbook: rb.Name, Policy: policy.Name}
	for _, step := range steps {
		run.Steps = []blastdoor.StepState{{Step: step, Status: blastdoor.StatusPending}}
		one, err := r.previewStep(ctx, run, policy)
		if err != nil {
			return blastdoor.Preview{}, err
		}
		preview.Steps = append(preview.Steps, one)
		if one.Plan.Kind == blastdoor.Write {
			run.Writes++
		}
	}
	return preview, nil
}

func (r *Runner) previewStep(ctx context.Context, run blastdoor.Run, policy blastdoor.Policy) (blastdoor.StepPreview, error) {
	step := &run.Steps[0]
	proposal, err := r.Planner.Propose(ctx, run, *step)
	if err != nil {
		return blastdoor.StepPreview{}, fmt.Errorf("asking the planner: %w", err)
	}
	step.Proposal = &proposal
	sealed, err := r.seal(ctx, run.ID, step, policy.GraphWalkBound, true)
	if err != nil {
		return blastdoor.StepPreview{}, err
	}
	c, err := r.circumstances(ctx, run, sealed, rules{pinned: policy, current: policy}, true)
	if err != nil {
		return blastdoor.StepPreview{}, err
	}
	return blastdoor.StepPreview{Step: step.Step, Plan: sealed.Plan, Hash: sealed.Hash, Verdict: Verdict(sealed.Plan, policy, policy, c)}, nil
}

// History returns a run folded from its verified history. It takes no lock: it
// shows what is durable.
func (r *Runner) History(ctx context.Context, runID string) (blastdoor.Run, error) {
	return r.load(ctx, runID)
}
