package chat

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/slack-go/slack/socketmode"
)

// Timing are the pauses of the service; a zero field has the default in its comment.
type Timing struct {
	Again  time.Duration // before a second try; it grows with each further one (1 s)
	Look   time.Duration // between two looks for a message of unknown outcome (2.5 s)
	GiveUp time.Duration // after which a request that cannot be answered is refused (2 min)
	Stale  time.Duration // after which a stored request to run something is not started (15 min)
	Stop   time.Duration // for each stage of stopping (5 s)
	Ping   time.Duration // without a ping from Slack after which the socket is dead (30 s)
	// Patience is the longest pause between two attempts to connect (20 s).
	Patience time.Duration
}

func (t Timing) withDefaults() Timing {
	for _, f := range []struct {
		field *time.Duration
		value time.Duration
	}{{&t.Again, time.Second}, {&t.Look, 2500 * time.Millisecond}, {&t.GiveUp, 2 * time.Minute},
		{&t.Stale, 15 * time.Minute}, {&t.Stop, 5 * time.Second}, {&t.Ping, 30 * time.Second}, {&t.Patience, 20 * time.Second}} {
		if *f.field <= 0 {
			*f.field = f.value
		}
	}
	return t
}

// Options configure a Service. All ports are required.
type Options struct {
	Token    string // bot token (xoxb-)
	AppToken string // app-level token (xapp-) with the scope connections:write
	APIURL   string // empty: Slack's own; must end in /
	AppID    string // empty: learnt from Slack's greeting
	MACKey   []byte // at least 16 bytes; the same at every start
	Now      func() time.Time
	Logger   *slog.Logger
	Timing   Timing

	Operator Operator
	Runs     Runs
	Shelf    Shelf
	Inbox    Inbox
	Outbox   Outbox
	Posts    Posts
}

func (o Options) validate() error {
	for _, missing := range []struct {
		is   bool
		what string
	}{{o.Token == "", "the bot token"}, {o.AppToken == "", "the app-level token"}, {len(o.MACKey) < 16, "a MAC key of at least 16 bytes"},
		{o.Now == nil, "Now"}, {o.Logger == nil, "Logger"}, {o.Operator == nil, "Operator"}, {o.Runs == nil, "Runs"},
		{o.Shelf == nil, "Shelf"}, {o.Inbox == nil, "Inbox"}, {o.Outbox == nil, "Outbox"}, {o.Posts == nil, "Posts"}} {
		if missing.is {
			return fmt.Errorf("making the chat service: %s is missing", missing.what)
		}
	}
	return nil
}

// Service is the Slack edge: it receives, processes and delivers.
type Service struct {
	o    Options
	web  *web
	recv *receiver
	proc *processor
	send *deliverer
}

// New makes a Service. It does not talk to Slack before Run.
func New(o Options) (*Service, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o.Timing = o.Timing.withDefaults()
	w, err := newWeb(o.Token, o.AppToken, o.APIURL)
	if err != nil {
		return nil, fmt.Errorf("making the chat service: %w", err)
	}
	s := &Service{o: o, web: w}
	s.recv = &receiver{dial: func() *socketmode.Client { return socketmode.New(w.api, socketmode.OptionPingInterval(o.Timing.Ping)) },
		patience: o.Timing.Patience, inbox: o.Inbox, appID: o.AppID,
		now: o.Now, log: o.Logger, queue: make(chan socketmode.Request, intakeQueue)}
	s.proc, s.send = newProcessor(o), newDeliverer(o, w)
	s.recv.stored = func() { poke(s.proc.wake) }
	s.proc.settled = func() { poke(s.send.wake) }
	s.proc.health = s.recv.Status
	s.send.moved = s.proc.hurry
	return s, nil
}

// Poke tells the service that the inbox or the outbox has changed. It never blocks.
func (s *Service) Poke() {
	poke(s.proc.wake)
	poke(s.send.wake)
}

// Status is the state of the connection to Slack.
func (s *Service) Status() SocketStatus { return s.recv.Status() }

// Run serves until ctx ends, then stops in order: no new envelopes, then the
// requests under way are answered, then the outbox is flushed, each for a bounded
// time. A Service runs once. An error means that Slack refuses the bot for good; it
// says what to do.
func (s *Service) Run(ctx context.Context) error {
	if err := s.preflight(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return nil
	}
	endless := context.WithoutCancel(ctx)
	stopProcessing := background(endless, s.proc.run)
	stopDelivering := background(endless, s.send.run)
	err := s.recv.receive(ctx)
	stopProcessing()
	stopDelivering()
	return err
}

// background starts work and returns what ends it and waits for it.
func background(ctx context.Context, work func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { work(ctx) })
	return func() {
		cancel()
		wg.Wait()
	}
}

// preflight asks who the bot is and whether it may connect, so that a wrong token
// ends the process at once with the way out. While Slack cannot be reached it waits.
func (s *Service) preflight(ctx context.Context) error {
	pause := s.o.Timing.Again
	for {
		err := s.tryPreflight(ctx)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		if _, hopeless := fatal(err); hopeless {
			return explain(err)
		}
		s.o.Logger.WarnContext(ctx, "Slack cannot be reached yet", "err", err, "pause", pause)
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		pause = min(2*pause, 30*time.Second)
	}
}

func (s *Service) tryPreflight(ctx context.Context) error {
	self, err := s.web.whoAmI(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, _, err := s.web.api.StartSocketModeContext(ctx); err != nil {
		return fmt.Errorf("opening a socket: %w", err)
	}
	s.recv.self, s.send.self = self, self
	s.o.Logger.InfoContext(ctx, "Slack knows the bot", "team", self.TeamID, "bot", self.BotUserID)
	return nil
}
