package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"blastdoor"
	"blastdoor/engine"
	"blastdoor/evals/powerloss/promise"
	"blastdoor/simenv"
	"blastdoor/store"
)

// bot is the product without its Slack edge, and people around it who ask, read
// and approve.
type bot struct {
	out     *promise.Writer
	life    string
	journal *journal
	env     *simenv.Env
	runner  *engine.Runner
	stop    func() error // of the runner; nil: it does not run

	posting sync.Mutex // one deliverer, as in the product
	posts   int
}

func openBot(ctx context.Context, o order, out *promise.Writer) (*bot, error) {
	log, err := store.Open(ctx, o.log(), store.Options{Origin: origin})
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	b := &bot{out: out}
	if b.env, err = simenv.Open(ctx, o.world(), simenv.Options{}); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the world: %w", err), log.Close())
	}
	if b.journal, err = newJournal(ctx, log, out); err != nil {
		return nil, errors.Join(err, b.env.Close(), log.Close())
	}
	b.runner, err = engine.NewRunner(engine.Options{Environment: environment{b.env, out}, Planner: engine.Script{},
		Journal: b.journal, Board: log, Directory: people{}, Catalogue: shelf{}, Now: time.Now,
		Logger: slog.New(alarm{b.journal.fail}), AfterDecision: func(ctx context.Context) { b.signHead(ctx) }})
	return b, err
}

func (b *bot) signHead(ctx context.Context) {
	text, err := b.journal.SignHead(ctx)
	if err == nil {
		err = b.out.Write(promise.Report{Promise: &promise.Promise{Kind: promise.Signed, ID: text}})
	}
	if err != nil {
		b.journal.fail(fmt.Errorf("signing a head: %w", err))
	}
}

// close stops in the order of the product.
func (b *bot) close() error {
	var err error
	if b.stop != nil {
		err = b.stop()
		b.signHead(context.Background())
	}
	return errors.Join(err, b.env.Close(), b.journal.Close())
}

// recover does what a start does: the runner drives unfinished runs, envelopes
// without an answer are answered, and people go on to click.
func (b *bot) recover(ctx context.Context, life string) error {
	b.life = life
	driving, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- b.runner.Run(driving) }()
	b.stop = func() error {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
		return nil // a runner that was stopped while it was still starting says so
	}
	if err := b.deliver(ctx); err != nil {
		return err
	}
	left, err := b.journal.PendingInbox(ctx)
	if err != nil {
		return err
	}
	for _, item := range left {
		if err := b.answer(ctx, item); err != nil {
			return fmt.Errorf("answering envelope %s of an earlier life: %w", item.ID, err)
		}
	}
	for _, id := range b.journal.unfinished() {
		if err := b.finish(ctx, id); err != nil {
			return fmt.Errorf("finishing run %s of an earlier life: %w", id, err)
		}
	}
	return nil
}

// runsPerRound is how many runs a client asks for before everything is stopped and
// started in order, which checkpoints the write-ahead logs and removes them.
const runsPerRound = 2

// serve lets clients ask for runs at the same time, each of its own service.
func (b *bot) serve(ctx context.Context, clients int) error {
	errs := make([]error, clients)
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			for n := 0; n < runsPerRound && errs[client] == nil; n++ {
				errs[client] = b.ask(ctx, fmt.Sprintf("%s-%d-%d", b.life, client, n), service(client))
				if clients == 1 {
					return
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// envelope is what comes in: a request, or a click.
type envelope struct {
	Request *blastdoor.StartRequest `json:"request,omitempty"`
	Click   *blastdoor.Click        `json:"click,omitempty"`
}

// ask is alice asking for a run, which is then followed to its end.
func (b *bot) ask(ctx context.Context, id, runbook string) error {
	request := &blastdoor.StartRequest{SourceID: "src-" + id, Runbook: runbook, UserID: alice, TeamID: team, Channel: channel, InboxID: "in-" + id}
	if err := b.receive(ctx, request.InboxID, envelope{Request: request}); err != nil {
		return err
	}
	return b.finish(ctx, engine.RunID(runbook, request.SourceID))
}

// receive stores an envelope, acknowledges it, and only then answers it.
func (b *bot) receive(ctx context.Context, id string, e envelope) error {
	payload, err := json.Marshal(e)
	if err != nil {
		return err
	}
	item := blastdoor.InboxItem{ID: id, Kind: "interactive", Payload: payload, ReceivedAt: time.Now()}
	if _, err := b.journal.Accept(ctx, item); err != nil {
		return err
	}
	if err := b.out.Write(promise.Report{Promise: &promise.Promise{Kind: promise.Accepted, ID: id}}); err != nil {
		return err
	}
	return b.answer(ctx, item)
}

func (b *bot) answer(ctx context.Context, item blastdoor.InboxItem) error {
	var e envelope
	if err := json.Unmarshal(item.Payload, &e); err != nil {
		return err
	}
	if e.Request != nil {
		_, err := b.runner.Start(ctx, *e.Request)
		return err
	}
	return b.runner.Click(ctx, *e.Click)
}

// finish brings a run to its end: messages are posted, and bob approves where it
// waits.
func (b *bot) finish(ctx context.Context, runID string) error {
	for n := 1; ; n++ {
		at, err := b.journal.await(runID)
		if err == nil {
			err = b.deliver(ctx)
		}
		switch {
		case err != nil:
			return err
		case at.ended && at.status != string(blastdoor.RunCompleted):
			return fmt.Errorf("run %s ended as %s", runID, at.status)
		case at.ended:
			return nil
		}
		if err := b.approve(ctx, runID, n); err != nil {
			return fmt.Errorf("approving run %s: %w", runID, err)
		}
	}
}

// approve is bob clicking on the open card of a run.
func (b *bot) approve(ctx context.Context, runID string, n int) error {
	run, err := b.runner.History(ctx, runID)
	if err != nil {
		return err
	}
	step := run.Current()
	if step == nil || step.Status != blastdoor.StatusWaiting {
		return nil // it has moved on since
	}
	posted, err := b.journal.Posted(ctx, step.Approval.DeliveryID)
	if err != nil {
		return err
	}
	click := &blastdoor.Click{RunID: runID, ApprovalID: step.Approval.ID, PlanHash: step.PlanHash, Approve: true,
		UserID: bob, TeamID: team, Message: posted, InboxID: fmt.Sprintf("click-%s-%s-%d", b.life, runID, n)}
	return b.receive(ctx, click.InboxID, envelope{Click: click})
}

// deliver posts what is to be posted.
func (b *bot) deliver(ctx context.Context) error {
	b.posting.Lock()
	defer b.posting.Unlock()
	for {
		rows, err := b.journal.PendingDeliveries(ctx, time.Now())
		if err != nil || len(rows) == 0 {
			return err
		}
		for i := range rows {
			if err := b.post(ctx, &rows[i]); err != nil {
				return fmt.Errorf("posting %s: %w", rows[i].ID, err)
			}
		}
	}
}

func (b *bot) post(ctx context.Context, row *blastdoor.OutboxRow) error {
	if err := b.journal.BeginAttempt(ctx, row.ID, time.Now()); err != nil {
		return err
	}
	if err := b.out.Write(promise.Report{Promise: &promise.Promise{Kind: promise.Attempted, ID: row.ID}}); err != nil {
		return err
	}
	b.posts++
	ts := row.TS
	if ts == "" {
		ts = fmt.Sprintf("%s.%d", b.life, b.posts)
	}
	if err := b.journal.Delivered(ctx, row.ID, ts, row.Want); err != nil {
		return err
	}
	return b.out.Write(promise.Report{Promise: &promise.Promise{Kind: promise.Delivered, ID: row.ID, TS: ts}})
}

// alarm is a log handler that stops everything on the first warning: without a
// power cut there is nothing to warn of, and after one nothing to go on with.
type alarm struct{ fail func(error) }

func (a alarm) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (a alarm) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(attr slog.Attr) bool {
		text += " " + attr.String()
		return true
	})
	a.fail(errors.New(text))
	return nil
}

func (a alarm) WithAttrs([]slog.Attr) slog.Handler { return a }
func (a alarm) WithGroup(string) slog.Handler      { return a }
