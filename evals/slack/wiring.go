package slack

import (
	"bytes"
	"context"
	"errors"
	"time"

	"blastdoor"
	"blastdoor/chat"
	"blastdoor/engine"
	"blastdoor/internal/app"
	"blastdoor/simenv"
	"blastdoor/store"
)

// parts are what a broken variant may put something else in place of.
type parts struct {
	inbox     chat.Inbox
	outbox    chat.Outbox
	directory engine.Directory
	now       func() time.Time // of the engine
}

// broken wires a bot of the shipped parts, as internal/app does, after spoil has had
// its hand at them. The shipped wiring has no such seam, so that nothing can be left
// out of it; a test holds the two against each other.
func broken(spoil func(*parts)) opener {
	return func(ctx context.Context, c app.Config) (bot, error) {
		v := &variant{}
		if err := v.wire(ctx, c, spoil); err != nil {
			return nil, errors.Join(err, v.Close())
		}
		return v, nil
	}
}

type variant struct {
	store  *store.Store
	env    *simenv.Env
	runner *engine.Runner
	chat   *chat.Service
}

func (v *variant) wire(ctx context.Context, c app.Config, spoil func(*parts)) error {
	var err error
	if v.store, err = store.Open(ctx, c.Files.Store(), store.Options{Now: c.Now}); err != nil {
		return err
	}
	if v.env, err = simenv.Open(ctx, c.Files.World(), simenv.Options{Now: c.Now}); err != nil {
		return err
	}
	library, err := app.Library(c.RunbookDir, c.PolicyFile)
	if err != nil {
		return err
	}
	directory, err := chat.NewDirectory(chat.DirectoryOptions{Token: c.BotToken, APIURL: c.SlackAPIURL})
	if err != nil {
		return err
	}
	p := parts{inbox: v.store, outbox: v.store, directory: directory, now: c.Now}
	spoil(&p)
	v.runner, err = engine.NewRunner(engine.Options{Environment: v.env, Planner: engine.Script{}, Journal: v.store, Board: v.store,
		Directory: p.directory, Catalogue: library, Now: p.now, Logger: c.Logger})
	if err != nil {
		return err
	}
	v.chat, err = chat.New(chat.Options{Token: c.BotToken, AppToken: c.AppToken, APIURL: c.SlackAPIURL, MACKey: bytes.Repeat([]byte{7}, 32),
		Now: c.Now, Logger: c.Logger, Timing: c.Timing, Operator: v.runner, Runs: histories{v.runner, v.store}, Shelf: library,
		Inbox: p.inbox, Outbox: p.outbox, Posts: v.store})
	return err
}

// histories shows runs to the Slack edge.
type histories struct {
	runner *engine.Runner
	store  *store.Store
}

func (h histories) Run(ctx context.Context, id string) (blastdoor.Run, error) {
	return h.runner.History(ctx, id)
}

func (h histories) List(ctx context.Context, channel string, limit int) ([]blastdoor.RunSummary, error) {
	return h.store.Runs(ctx, store.RunFilter{Channel: channel, Limit: limit})
}

// Run serves until ctx ends, then stops receiving before it stops driving.
func (v *variant) Run(ctx context.Context) error {
	driving, stopDriving := context.WithCancel(context.WithoutCancel(ctx))
	defer stopDriving()
	changed, unsubscribe := v.store.Subscribe()
	defer unsubscribe()
	driven := make(chan error, 1)
	go func() { driven <- v.runner.Run(driving) }()
	go func() {
		for {
			select {
			case <-changed:
				v.chat.Poke()
			case <-driving.Done():
				return
			}
		}
	}()
	served := v.chat.Run(ctx)
	stopDriving()
	return errors.Join(served, <-driven)
}

// Close closes what is open.
func (v *variant) Close() error {
	var errs []error
	if v.env != nil {
		errs = append(errs, v.env.Close())
	}
	if v.store != nil {
		errs = append(errs, v.store.Close())
	}
	return errors.Join(errs...)
}
