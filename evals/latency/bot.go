package latency

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"blastdoor"
	"blastdoor/chat/slacksim"
	"blastdoor/engine"
	"blastdoor/evals/report"
	"blastdoor/internal/app"
	"blastdoor/runbooks"
	"blastdoor/simenv"
	"blastdoor/store"
)

// liveBot is a bot in this process, connected to a simulated workspace.
type liveBot struct {
	ws   *slacksim.Workspace
	stop func() error
}

func initBot(ctx context.Context, dir string) (app.Files, error) {
	world, err := simenv.DefaultWorld()
	if err != nil {
		return app.Files{}, err
	}
	files := app.Files{Dir: dir}
	return files, app.Init(ctx, files, app.InitOptions{Origin: "latency", World: world, Now: time.Now})
}

// startBot opens a bot and returns once Slack counts its connection.
func startBot(ctx context.Context, files app.Files) (*liveBot, error) {
	ws, err := slacksim.Start(slacksim.Options{})
	if err != nil {
		return nil, err
	}
	bot, err := app.Open(ctx, app.Config{Files: files, SlackAPIURL: ws.APIURL(), BotToken: ws.BotToken(), AppToken: ws.AppToken(),
		Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		ws.Close()
		return nil, err
	}
	running, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- bot.Run(running) }()
	live := &liveBot{ws: ws, stop: func() error {
		cancel()
		err := errors.Join(<-done, bot.Close())
		ws.Close()
		return err
	}}
	waiting, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	if err := ws.WaitConnected(waiting); err != nil {
		return nil, errors.Join(err, live.stop())
	}
	return live, nil
}

// measureAck types 200 slash commands at once and times each until its ack.
func measureAck(ctx context.Context, dir string) ([]report.Figure, error) {
	const commands = 200
	files, err := initBot(ctx, dir)
	if err != nil {
		return nil, err
	}
	live, err := startBot(ctx, files)
	if err != nil {
		return nil, err
	}
	samples, lost := make([]time.Duration, commands), make([]error, commands)
	var wg sync.WaitGroup
	for i := range commands {
		wg.Go(func() {
			outcome, err := live.ws.As("alice").Slash("ops", "/runbook list")
			samples[i], lost[i] = outcome.Took, err
			if err == nil && outcome.Shown != "" {
				lost[i] = errors.New(outcome.Shown)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(append(lost, live.stop())...); err != nil {
		return nil, err
	}
	slices.Sort(samples)
	return []report.Figure{{Name: "slash command to ack, 200 at once, p99", Value: float64(samples[commands*99/100]) / float64(time.Millisecond),
		P95: float64(samples[commands*95/100]) / float64(time.Millisecond), Unit: "ms", Target: 100, Count: commands,
		Note: fmt.Sprintf("median %.1f ms; none lost", float64(samples[commands/2])/float64(time.Millisecond))}}, nil
}

// measureStart starts on a log with 10,000 finished runs and 100 that wait.
func measureStart(ctx context.Context, dir string) ([]report.Figure, error) {
	files, err := initBot(ctx, dir)
	if err != nil {
		return nil, err
	}
	if err := fillLog(ctx, files, 10_000, 100); err != nil {
		return nil, err
	}
	start := time.Now()
	live, err := startBot(ctx, files)
	if err != nil {
		return nil, err
	}
	took := time.Since(start)
	return []report.Figure{{Name: "start with 10,000 finished and 100 unfinished runs", Value: float64(took) / float64(time.Millisecond), Unit: "ms",
		Target: 1000, Count: 1, Note: "until Slack counts the connection; the process itself is started already"}}, live.stop()
}

// fillLog writes whole histories, decided by the engine itself.
func fillLog(ctx context.Context, files app.Files, finished, waiting int) (err error) {
	log, err := store.Open(ctx, files.Store(), store.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	library, err := runbooks.Open(runbooks.Options{Actions: simenv.Actions()})
	if err != nil {
		return err
	}
	policy, err := library.Policy(ctx)
	if err != nil {
		return err
	}
	body, err := blastdoor.CanonicalJSON(policy)
	if err != nil {
		return err
	}
	pinned := blastdoor.Document{Digest: blastdoor.DigestBytes(body), Body: body}
	errs := make([]error, crowdRunners)
	var wg sync.WaitGroup
	for worker := range crowdRunners {
		wg.Go(func() {
			for i := worker; i < finished+waiting && errs[worker] == nil; i += crowdRunners {
				errs[worker] = writeHistory(ctx, log, pinned, fmt.Sprintf("old-%05d", i), i < finished)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// writeHistory commits a run that was approved and completed, or that waits.
func writeHistory(ctx context.Context, log *store.Store, pinned blastdoor.Document, id string, complete bool) error {
	alice := blastdoor.Principal{UserID: slacksim.Alice, TeamID: slacksim.TeamID, Verified: true}
	bob := blastdoor.Principal{UserID: slacksim.Bob, TeamID: slacksim.TeamID, Verified: true}
	sre := blastdoor.Approvers{Groups: []string{slacksim.SRE}, Quorum: 1}
	plan := blastdoor.Plan{RunID: id, StepID: "drain", Action: "drain_host", Kind: blastdoor.Write, Params: blastdoor.Params{"host": "host-a"},
		Targets: []string{id}, Radius: blastdoor.Radius{Direct: []string{id}, Dependents: []string{"api", "web"}, Complete: true}}
	hash, err := plan.Hash()
	if err != nil {
		return err
	}
	sealed := engine.Sealed{Plan: plan, Hash: hash}
	asks := engine.Judgement{PolicyDigest: pinned.Digest, Verdict: blastdoor.Verdict{Decision: blastdoor.NeedsApproval,
		Reasons: []blastdoor.Reason{{Code: blastdoor.ProtectedResource, Effect: blastdoor.NeedsApproval}}}}
	now, h := time.Now(), &history{log: log, id: id, pinned: pinned}
	h.do(ctx, engine.Request{RunID: id, Body: blastdoor.RunRequested{SourceID: id, Runbook: "drain-host-a", PolicyDigest: pinned.Digest,
		Steps: []blastdoor.Step{{ID: "drain", Action: "drain_host"}}, Requester: alice, Channel: slacksim.Ops}}, now)
	h.do(ctx, engine.Propose{Proposal: blastdoor.Proposal{StepID: "drain", Confidence: 1}}, now)
	h.do(ctx, engine.Seal{Sealed: sealed}, now)
	h.do(ctx, engine.Judge{Judgement: asks}, now)
	h.do(ctx, engine.Ask{Approvers: sre, TTL: time.Hour}, now)
	if !complete || h.err != nil {
		return h.err
	}
	approval, card := h.run.Current().Approval, blastdoor.MessageRef{Channel: slacksim.Ops, TS: "1.1"}
	h.do(ctx, engine.Vote{Person: bob, Current: sre, Groups: sre.Groups, Stored: card, Click: blastdoor.Click{ApprovalID: approval.ID,
		PlanHash: hash, Approve: true, Message: card}}, now)
	h.do(ctx, engine.Recheck{Sealed: sealed, Judgement: asks, TTL: time.Hour}, now)
	h.do(ctx, engine.Outcome{Receipt: blastdoor.Receipt{Key: blastdoor.IdempotencyKey(id, "drain", hash)}}, now)
	h.do(ctx, engine.Finish{}, now)
	return h.err
}

// history is a run being written, without any message.
type history struct {
	log    *store.Store
	id     string
	pinned blastdoor.Document
	run    blastdoor.Run
	err    error
}

func (h *history) do(ctx context.Context, cmd engine.Command, now time.Time) {
	if h.err != nil {
		return
	}
	events, err := engine.Decide(h.run, cmd, now)
	next := h.run
	for _, e := range events {
		if err == nil {
			next, err = engine.Evolve(next, e)
		}
	}
	if err != nil {
		h.err = err
		return
	}
	c := blastdoor.Commit{RunID: h.id, At: h.run.Len, Events: events, Projection: engine.Project(next), Documents: []blastdoor.Document{h.pinned}}
	if h.run.Len == 0 {
		_, _, h.err = h.log.Begin(ctx, h.id, c)
	} else {
		h.err = h.log.Commit(ctx, c)
	}
	h.run = next
}
