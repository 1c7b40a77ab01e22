package slack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode"

	"blastdoor"
	"blastdoor/chat"
	"blastdoor/chat/slacksim"
	"blastdoor/engine"
	"blastdoor/internal/app"
	"blastdoor/runbooks"
	"blastdoor/simenv"
)

// bot is what a stage starts: the shipped wiring, the real process, or a broken
// variant.
type bot interface {
	Run(ctx context.Context) error
	Close() error
}

type opener func(ctx context.Context, c app.Config) (bot, error)

// inProcess is the shipped wiring.
func inProcess(ctx context.Context, c app.Config) (bot, error) { return app.Open(ctx, c) }

// stage is a workspace, a deployment and a bot between them. Its helpers do what
// people do and wait for what people see. The first thing that is not as it should
// be is kept, and everything after it is passed over, so that a scenario reads as a
// story.
type stage struct {
	ctx  context.Context
	ws   *slacksim.Workspace
	conf app.Config
	open opener

	mu      sync.Mutex
	forward time.Duration // how far the clock is ahead, for the bot and for Slack

	stopBot  func() error
	bot      bot
	requests int // runs that people asked for
	writes   int // that these should have led to
	err      error
}

// quick are pauses short enough for an eval and long enough for a loaded machine.
func quick() chat.Timing {
	return chat.Timing{Again: 20 * time.Millisecond, Look: 20 * time.Millisecond, GiveUp: time.Minute}
}

// newStage opens a workspace and a deployment in dir and starts the bot.
func newStage(ctx context.Context, dir string, sc scenario, open opener) (*stage, error) {
	s := &stage{ctx: ctx, open: open}
	ws, err := slacksim.Start(slacksim.Options{Now: s.now})
	if err != nil {
		return nil, err
	}
	s.ws = ws
	s.conf = app.Config{Files: app.Files{Dir: filepath.Join(dir, "data")}, SlackAPIURL: ws.APIURL(), BotToken: ws.BotToken(), AppToken: ws.AppToken(),
		Timing: quick(), Now: s.now, Logger: slog.New(slog.DiscardHandler)}
	if sc.timing != nil {
		s.conf.Timing = *sc.timing
	}
	if err := s.prepare(dir, sc.policy); err != nil {
		ws.Close()
		return nil, err
	}
	s.start()
	return s, nil
}

// prepare makes the deployment. policy, when set, edits the shipped policy.
func (s *stage) prepare(dir string, policy *strings.Replacer) error {
	world, err := simenv.DefaultWorld()
	if err != nil {
		return err
	}
	if policy != nil {
		s.conf.RunbookDir = filepath.Join(dir, "runbooks")
		if err := os.CopyFS(s.conf.RunbookDir, runbooks.Shipped()); err != nil {
			return err
		}
		path := filepath.Join(s.conf.RunbookDir, "policy.yaml")
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(policy.Replace(string(data))), 0o600); err != nil {
			return err
		}
	}
	return app.Init(s.ctx, s.conf.Files, app.InitOptions{Origin: "slack-eval", World: world, Now: s.now})
}

// now is the clock of the bot and of Slack.
func (s *stage) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(s.forward)
}

// later puts the clock forward. Timers run on.
func (s *stage) later(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forward += d
}

// fail keeps the first thing that is wrong.
func (s *stage) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

func (s *stage) expect(ok bool, format string, args ...any) {
	if !ok {
		s.fail(fmt.Errorf(format, args...))
	}
}

// start starts the bot and waits until Slack counts its connection.
func (s *stage) start() {
	s.launch()
	s.reconnected()
}

// reconnected waits until the bot has a socket.
func (s *stage) reconnected() {
	if s.err == nil {
		s.fail(s.ws.WaitConnected(s.ctx))
	}
}

// launch starts the bot and does not wait.
func (s *stage) launch() {
	if s.err != nil {
		return
	}
	b, err := s.open(s.ctx, s.conf)
	if err != nil {
		s.fail(fmt.Errorf("starting the bot: %w", err))
		return
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.ctx))
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	s.bot = b
	s.stopBot = sync.OnceValue(func() error {
		cancel()
		return errors.Join(<-ended, b.Close())
	})
}

// stop stops the bot in order; it may be stopped already.
func (s *stage) stop() {
	if s.stopBot == nil {
		return
	}
	if err := s.stopBot(); err != nil {
		s.fail(fmt.Errorf("stopping the bot: %w", err))
	}
	s.stopBot = nil
}

func (s *stage) restart() {
	s.stop()
	if s.err == nil {
		s.fail(s.ws.WaitConnections(s.ctx, 0))
	}
	s.start()
}

// slash types a command in #ops.
func (s *stage) slash(who, line string) slacksim.Outcome {
	if s.err != nil {
		return slacksim.Outcome{}
	}
	out, err := s.ws.As(who).Slash("ops", line)
	s.fail(err)
	return out
}

// asks types a command that must be acknowledged.
func (s *stage) asks(who, line string) slacksim.Outcome {
	out := s.slash(who, line)
	s.expect(out.Status == slacksim.Acked, "%s typed %s and saw: %s", who, line, out.Shown)
	return out
}

// run asks for a run and returns its id.
func (s *stage) run(who, runbook string) string {
	out := s.asks(who, "/runbook run "+runbook)
	if s.err != nil {
		return ""
	}
	s.requests++
	return runOf(runbook, out)
}

// runOf is the id of the run that a slash command asks for.
func runOf(runbook string, out slacksim.Outcome) string {
	return engine.RunID(runbook, "slash-"+out.TriggerID)
}

// card waits for the question of a run.
func (s *stage) card(id string) slacksim.Message {
	return s.sees("the question of "+id, func(m slacksim.Message) bool { return m.HasButton("approve") && strings.Contains(read(m), id) })
}

// sees waits for a message in #ops.
func (s *stage) sees(what string, pred func(slacksim.Message) bool) slacksim.Message {
	if s.err != nil {
		return slacksim.Message{}
	}
	m, err := s.ws.WaitMessage(s.ctx, "ops", pred)
	if err != nil {
		s.fail(fmt.Errorf("%s: %w", what, err))
	}
	return m
}

// ends waits until the run card says how the run ended.
func (s *stage) ends(id, how string) {
	s.sees(id+" to be "+how, func(m slacksim.Message) bool {
		text := read(m)
		return !m.IsReply() && strings.Contains(text, "Run: ") && strings.Contains(text, id) && strings.Contains(text, how)
	})
}

// becomes waits until a message holds a word and has no buttons any more.
func (s *stage) becomes(card slacksim.Message, word string) {
	s.sees("the card to say "+word, func(m slacksim.Message) bool {
		return m.TS == card.TS && strings.Contains(read(m), word) && len(m.Buttons()) == 0
	})
}

// click clicks on a card as the person saw it, whatever has become of it since.
func (s *stage) click(who string, card slacksim.Message, button string) slacksim.Outcome {
	if s.err != nil {
		return slacksim.Outcome{}
	}
	out, err := s.ws.As(who).ForceClick(card, button, nil)
	s.fail(err)
	return out
}

func (s *stage) clicks(who string, card slacksim.Message, button string) slacksim.Outcome {
	out := s.click(who, card, button)
	s.expect(out.Status == slacksim.Acked, "%s clicked %s and saw: %s", who, button, out.Shown)
	return out
}

// approves is a click of Bob's that must lead to a write.
func (s *stage) approves(card slacksim.Message) {
	if s.clicks("bob", card, "approve"); s.err == nil {
		s.writes++
	}
}

// refused clicks and waits for the private refusal with its reason.
func (s *stage) refused(who string, card slacksim.Message, code blastdoor.RefusalCode) {
	s.hears(who, string(code), func() { s.clicks(who, card, "approve") })
}

// hears does something and waits for a new private answer that holds a word.
func (s *stage) hears(who, word string, do func()) {
	if s.err != nil {
		return
	}
	seen := map[string]bool{}
	for _, m := range s.ws.Ephemerals(who) {
		seen[m.TS] = true
	}
	do()
	if s.err != nil {
		return
	}
	m, err := s.ws.WaitEphemeral(s.ctx, who, func(m slacksim.Message) bool { return !seen[m.TS] })
	if err != nil {
		s.fail(fmt.Errorf("%s should hear %q: %w", who, word, err))
		return
	}
	s.expect(strings.Contains(read(m), word), "%s should hear %q and hears %q", who, word, read(m))
}

// entry waits for something in the journal of the workspace.
func (s *stage) entry(what string, pred func(slacksim.Entry) bool) slacksim.Entry {
	if s.err != nil {
		return slacksim.Entry{}
	}
	e, err := s.ws.WaitEntry(s.ctx, what, pred)
	s.fail(err)
	return e
}

// reached waits until a fault has been met.
func (s *stage) reached(fault <-chan struct{}) {
	if s.err != nil {
		return
	}
	select {
	case <-fault:
	case <-s.ctx.Done():
		s.fail(errors.New("the fault was never met"))
	}
}

// inject arms a fault and returns what tells that it has been met.
func (s *stage) inject(f slacksim.Fault) <-chan struct{} {
	met := make(chan struct{}, 64)
	f.Reached = met
	s.ws.Inject(f)
	return met
}

// read is what a person reads, without the frame and the line breaks of the
// terminal.
func read(m slacksim.Message) string {
	return strings.Join(strings.FieldsFunc(slacksim.PlainText(m), func(r rune) bool { return unicode.IsSpace(r) || r == '┊' || r == '│' }), " ")
}
