package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"blastdoor"
	"blastdoor/chat"
	"blastdoor/engine"
	"blastdoor/runbooks"
	"blastdoor/simenv"
	"blastdoor/store"
)

// The adapters satisfy the engine's ports by shape; here the compiler says so.
var (
	_ engine.Environment = (*simenv.Env)(nil)
	_ engine.Journal     = (*store.Store)(nil)
	_ engine.Board       = (*store.Store)(nil)
	_ engine.Directory   = (*chat.Directory)(nil)
	_ engine.Catalogue   = (*runbooks.Library)(nil)
	_ chat.Operator      = (*engine.Runner)(nil)
	_ chat.Inbox         = (*store.Store)(nil)
	_ chat.Outbox        = (*store.Store)(nil)
	_ chat.Posts         = (*store.Store)(nil)
	_ chat.Shelf         = (*runbooks.Library)(nil)
)

// Config is everything that a bot needs to know.
type Config struct {
	Files       Files
	RunbookDir  string // empty: the shipped runbooks
	PolicyFile  string // empty: policy.yaml beside the runbooks
	SlackAPIURL string // empty: Slack's own
	BotToken    string
	AppToken    string
	Planner     engine.Planner // nil: each step as people wrote it
	Timing      chat.Timing
	Now         func() time.Time
	Logger      *slog.Logger
}

// Bot is a whole bot, opened and not yet running.
type Bot struct {
	store  *store.Store
	env    *simenv.Env
	runner *engine.Runner
	chat   *chat.Service
	log    *slog.Logger
	now    func() time.Time
}

// Open opens a deployment that Init has made and wires a bot around it.
func Open(ctx context.Context, c Config) (*Bot, error) {
	b := &Bot{log: c.Logger, now: c.Now}
	if err := b.open(ctx, c); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

func (b *Bot) open(ctx context.Context, c Config) error {
	var err error
	if b.store, err = store.Open(ctx, c.Files.Store(), store.Options{Now: c.Now}); err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	if b.env, err = simenv.Open(ctx, c.Files.World(), simenv.Options{Now: c.Now, OnFault: b.warnOfFault}); err != nil {
		return fmt.Errorf("opening the simulated infrastructure: %w", err)
	}
	key, err := readMACKey(c.Files.MACKey())
	if err != nil {
		return err
	}
	library, err := Library(c.RunbookDir, c.PolicyFile)
	if err != nil {
		return err
	}
	if err := checkLibrary(ctx, library, c.Logger); err != nil {
		return err
	}
	directory, err := chat.NewDirectory(chat.DirectoryOptions{Token: c.BotToken, APIURL: c.SlackAPIURL})
	if err != nil {
		return err
	}
	if c.Planner == nil {
		c.Planner = engine.Script{}
	}
	p := parts{environment: b.env, journal: b.store, inbox: b.store, outbox: b.store, afterDecision: b.signHead, timing: c.Timing}
	if err := interpose(ctx, &p); err != nil {
		return err
	}
	b.runner, err = engine.NewRunner(engine.Options{Environment: p.environment, Planner: c.Planner, Journal: p.journal, Board: b.store,
		Directory: directory, Catalogue: library, Now: c.Now, Logger: c.Logger, AfterDecision: p.afterDecision})
	if err != nil {
		return err
	}
	b.chat, err = chat.New(chat.Options{Token: c.BotToken, AppToken: c.AppToken, APIURL: c.SlackAPIURL, MACKey: key, Now: c.Now,
		Logger: c.Logger, Timing: p.timing, Operator: b.runner, Runs: runs{b.runner, b.store}, Shelf: library,
		Inbox: p.inbox, Outbox: p.outbox, Posts: b.store})
	return err
}

// parts are what interpose may put itself in front of.
type parts struct {
	environment   engine.Environment
	journal       engine.Journal
	inbox         chat.Inbox
	outbox        chat.Outbox
	afterDecision func(context.Context)
	timing        chat.Timing
}

// warnOfFault makes a scripted fault visible in the log.
func (b *Bot) warnOfFault(f simenv.Fault) {
	b.log.Warn("scripted fault", "method", f.Method, "kind", f.Kind)
}

// checkLibrary refuses to start under a policy that does not load: nothing could be
// run. A runbook that does not load keeps only itself from being run.
func checkLibrary(ctx context.Context, library *runbooks.Library, log *slog.Logger) error {
	problems, err := library.Check(ctx)
	if err != nil {
		return err
	}
	for _, problem := range problems {
		log.WarnContext(ctx, "runbooks", "err", problem)
	}
	_, err = library.Policy(ctx)
	return err
}

// Library opens runbooks and policy, checked against what the environment can do.
func Library(dir, policyFile string) (*runbooks.Library, error) {
	library, err := runbooks.Open(runbooks.Options{Dir: dir, PolicyFile: policyFile, Actions: simenv.Actions()})
	if err != nil && dir != "" {
		return nil, fmt.Errorf("opening %s: %w", dir, err)
	}
	return library, err
}

// runs shows runs to the Slack edge: one from its verified history, lists from
// the projection.
type runs struct {
	runner *engine.Runner
	store  *store.Store
}

func (r runs) Run(ctx context.Context, id string) (blastdoor.Run, error) {
	return r.runner.History(ctx, id)
}

func (r runs) List(ctx context.Context, channel string, limit int) ([]blastdoor.RunSummary, error) {
	return r.store.Runs(ctx, store.RunFilter{Channel: channel, Limit: limit})
}

// signHead signs the head of the log after a decision. A head that cannot be
// signed now is covered by the next one; it holds nothing up.
func (b *Bot) signHead(ctx context.Context) {
	if _, err := b.store.SignHead(ctx); err != nil {
		b.log.WarnContext(ctx, "head not signed", "err", err)
	}
}

// Run serves until ctx ends, then stops in order: no new requests, what is under
// way is answered, messages are flushed, runs are parked at a safe point, and the
// head of the log is signed. An error says why the bot cannot serve.
func (b *Bot) Run(ctx context.Context) error {
	b.prune(ctx)
	driving, stopDriving := context.WithCancel(context.WithoutCancel(ctx))
	defer stopDriving()
	serving, stopServing := context.WithCancel(ctx)
	defer stopServing()
	changed, unsubscribe := b.store.Subscribe()
	defer unsubscribe()

	driven := make(chan error, 1)
	go func() {
		err := b.runner.Run(driving)
		if driving.Err() != nil {
			err = nil // stopped, perhaps before it had begun
		}
		if err != nil {
			stopServing()
		}
		driven <- err
	}()
	var tending sync.WaitGroup
	tending.Go(func() { b.tend(driving, changed) })
	served := b.chat.Run(serving)
	stopDriving()
	err := errors.Join(served, <-driven)
	tending.Wait()
	b.signHead(context.WithoutCancel(ctx))
	return err
}

// Settled envelopes are kept for a day, in which Slack might send one again, and
// then forgotten: they hold what people typed.
const (
	keepSettled = 24 * time.Hour
	pruneEvery  = time.Hour
)

// tend tells the Slack edge of news, and prunes the inbox, until ctx ends.
func (b *Bot) tend(ctx context.Context, changed <-chan struct{}) {
	again := time.NewTicker(pruneEvery)
	defer again.Stop()
	for {
		select {
		case <-changed:
			b.chat.Poke()
		case <-again.C:
			b.prune(ctx)
		case <-ctx.Done():
			return
		}
	}
}

func (b *Bot) prune(ctx context.Context) {
	if _, err := b.store.PruneInbox(ctx, b.now().Add(-keepSettled)); err != nil && ctx.Err() == nil {
		b.log.WarnContext(ctx, "inbox not pruned", "err", err)
	}
}

// Wake has every unfinished run looked at again, for whoever has moved the clock:
// timers run on real time and would not notice.
func (b *Bot) Wake(ctx context.Context) error {
	unfinished, err := b.store.Unfinished(ctx)
	if err != nil {
		return err
	}
	for _, id := range unfinished {
		b.runner.Poke(id)
	}
	b.chat.Poke()
	return nil
}

// Subscribe returns a channel that receives after every commit to the log, at
// least once after the last of several. Call cancel when done.
func (b *Bot) Subscribe() (changed <-chan struct{}, cancel func()) { return b.store.Subscribe() }

// Status is the state of the connection to Slack.
func (b *Bot) Status() chat.SocketStatus { return b.chat.Status() }

// Close closes what is open. It may be called twice.
func (b *Bot) Close() error {
	var errs []error
	if b.env != nil {
		errs = append(errs, b.env.Close())
	}
	if b.store != nil {
		errs = append(errs, b.store.Close())
	}
	return errors.Join(errs...)
}
