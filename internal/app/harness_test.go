package app_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"blastdoor"
	"blastdoor/chat"
	"blastdoor/chat/blockkit"
	"blastdoor/chat/slacksim"
	"blastdoor/engine"
	"blastdoor/internal/app"
	"blastdoor/runbooks"
	"blastdoor/simenv"
	"blastdoor/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// everyone are the people whose private messages are looked at.
var everyone = []string{"alice", "bob", "carol", "mallory", "gina", "uma", "erin", "dora", "ivan", "deploybot"}

// house is a workspace, a deployment and a bot between them. At the end of its test
// it holds the log against the properties of the engine and the ledger, and every
// message against Slack's limits.
type house struct {
	t    *testing.T
	ws   *slacksim.Workspace
	conf app.Config
	log  *logs

	mu      sync.Mutex
	forward time.Duration // how far the bot's clock is ahead
	stopBot func() error
	done    <-chan struct{} // closed when the bot has ended
}

// setup is what differs between houses; the zero value is the shipped program in
// the default world.
type setup struct {
	slack    slacksim.Options
	world    *simenv.World
	runbooks bool // a directory of its own with the shipped runbooks, to be edited
	asleep   bool // do not start the bot
}

// patience bounds every wait; only a test that fails waits so long.
const patience = 3 * time.Minute

// quick are pauses short enough for tests and long enough for a loaded machine.
func quick() chat.Timing {
	return chat.Timing{Again: 20 * time.Millisecond, Look: 20 * time.Millisecond, GiveUp: time.Minute}
}

func newHouse(t *testing.T, s setup) *house {
	t.Helper()
	ws, err := slacksim.Start(s.slack)
	require.NoError(t, err)
	t.Cleanup(ws.Close)
	h := &house{t: t, ws: ws, log: &logs{}}
	h.conf = app.Config{Files: app.Files{Dir: t.TempDir()}, SlackAPIURL: ws.APIURL(), BotToken: ws.BotToken(), AppToken: ws.AppToken(),
		Timing: quick(), Now: h.now, Logger: slog.New(slog.NewTextHandler(h.log, nil))}
	if s.world == nil {
		world, err := simenv.DefaultWorld()
		require.NoError(t, err)
		s.world = &world
	}
	if s.runbooks {
		h.conf.RunbookDir = t.TempDir()
		require.NoError(t, os.CopyFS(h.conf.RunbookDir, runbooks.Shipped()))
	}
	require.NoError(t, app.Init(t.Context(), h.conf.Files, app.InitOptions{Origin: "blastdoor.example/test", World: *s.world, Now: h.now}))
	t.Cleanup(h.examine)
	if !s.asleep {
		h.start()
	}
	return h
}

// now is the bot's clock.
func (h *house) now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Add(h.forward)
}

// later puts the bot's clock forward. Its timers run on; a bot that is started
// afterwards lives in the new time.
func (h *house) later(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forward += d
}

// start opens the bot and runs it until stop, or the end of the test.
func (h *house) start() {
	h.t.Helper()
	bot, err := app.Open(h.t.Context(), h.conf)
	require.NoError(h.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	done := make(chan struct{})
	h.done = done
	go func() {
		ended <- bot.Run(ctx)
		close(done)
	}()
	h.stopBot = sync.OnceValue(func() error {
		cancel()
		err := <-ended
		if closing := bot.Close(); err == nil {
			err = closing
		}
		return err
	})
	require.NoError(h.t, h.ws.WaitConnected(h.ctx()))
}

func (h *house) stop() {
	h.t.Helper()
	if h.stopBot != nil {
		require.NoError(h.t, h.stopBot())
	}
	h.stopBot = nil
}

// ended waits until the bot ends by itself and returns why.
func (h *house) ended() error {
	h.t.Helper()
	defer func() { h.stopBot = nil }()
	select {
	case <-h.done:
	case <-h.ctx().Done():
		h.t.Fatal("the bot did not end")
	}
	return h.stopBot()
}

func (h *house) restart() {
	h.t.Helper()
	h.stop()
	require.NoError(h.t, h.ws.WaitConnections(h.ctx(), 0))
	h.start()
}

// examine stops the bot and checks what holds at the end of every story.
func (h *house) examine() {
	h.stop()
	if h.t.Failed() {
		h.t.Log(h.log.String())
		return
	}
	audit, err := app.Verify(context.Background(), h.conf.Files, store.AuditOptions{}, h.now)
	require.NoError(h.t, err)
	require.True(h.t, audit.OK(), "%+v", audit)
	differences, err := app.Rebuild(context.Background(), h.conf.Files, false, h.now)
	require.NoError(h.t, err)
	require.Empty(h.t, differences)
	for _, m := range h.allMessages() {
		require.Empty(h.t, blockkit.Check(m.Blocks, blockkit.Message), "%s", slacksim.PlainText(m))
	}
}

func (h *house) allMessages() []slacksim.Message {
	var all []slacksim.Message
	for _, channel := range []string{"ops", "general", "secret", "partners"} {
		for _, m := range h.ws.Messages(channel) {
			if m.Blocks != nil {
				all = append(all, m)
			}
		}
	}
	for _, person := range everyone {
		all = append(all, h.ws.Ephemerals(person)...)
	}
	return all
}

func (h *house) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	h.t.Cleanup(cancel)
	return ctx
}

// slash types a command in #ops and expects it to be accepted without a word.
func (h *house) slash(who, line string) slacksim.Outcome {
	h.t.Helper()
	out, err := h.ws.As(who).Slash("ops", line)
	require.NoError(h.t, err)
	require.Equal(h.t, slacksim.Acked, out.Status, out.Shown)
	require.Nil(h.t, out.Reply, "acks are empty")
	return out
}

// run asks for a runbook and returns the id of the run.
func (h *house) run(who, request string) string {
	h.t.Helper()
	out := h.slash(who, "/runbook run "+request)
	name, _, _ := strings.Cut(request, " ")
	return engine.RunID(name, "slash-"+out.TriggerID)
}

// card waits for the newest dry run of a run that can be answered.
func (h *house) card(runID string) slacksim.Message {
	h.t.Helper()
	return h.sees("the question of "+runID, func(m slacksim.Message) bool {
		return m.HasButton("approve") && strings.Contains(read(m), runID)
	})
}

// sees waits for a message in #ops.
func (h *house) sees(what string, pred func(slacksim.Message) bool) slacksim.Message {
	h.t.Helper()
	m, err := h.ws.WaitMessage(h.ctx(), "ops", pred)
	require.NoError(h.t, err, what)
	return m
}

// ends waits until the run card says how the run ended.
func (h *house) ends(runID, how string) slacksim.Message {
	h.t.Helper()
	return h.sees(runID+" to be "+how, func(m slacksim.Message) bool {
		text := read(m)
		return !m.IsReply() && strings.Contains(text, "Run: ") && strings.Contains(text, runID) && strings.Contains(text, how)
	})
}

// becomes waits until a message, wherever it stands, holds all the words.
func (h *house) becomes(m slacksim.Message, words ...string) slacksim.Message {
	h.t.Helper()
	return h.sees(strings.Join(words, ", "), func(now slacksim.Message) bool {
		return now.TS == m.TS && holds(read(now), words)
	})
}

// read is what a person reads, without the frame and the line breaks of the
// terminal.
func read(m slacksim.Message) string {
	return strings.Join(strings.FieldsFunc(slacksim.PlainText(m), func(r rune) bool { return unicode.IsSpace(r) || r == '┊' || r == '│' }), " ")
}

func holds(text string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

// click clicks a button that the person can see and expects it to be accepted.
func (h *house) click(who string, card slacksim.Message, action string) {
	h.t.Helper()
	out, err := h.ws.As(who).Click(card, action)
	require.NoError(h.t, err)
	require.Equal(h.t, slacksim.Acked, out.Status, out.Shown)
}

// force clicks as Slack would not have let happen.
func (h *house) force(who string, card slacksim.Message, action string, change func(map[string]any)) {
	h.t.Helper()
	out, err := h.ws.As(who).ForceClick(card, action, change)
	require.NoError(h.t, err)
	require.Equal(h.t, slacksim.Acked, out.Status, out.Shown)
}

// hears does something and waits for the private answer to one person, which must
// hold the words; nobody else hears anything.
func (h *house) hears(who string, words []string, do func()) string {
	h.t.Helper()
	before := map[string]int{}
	for _, person := range everyone {
		before[person] = len(h.ws.Ephemerals(person))
	}
	seen := map[string]bool{}
	for _, m := range h.ws.Ephemerals(who) {
		seen[m.TS] = true
	}
	do()
	m, err := h.ws.WaitEphemeral(h.ctx(), who, func(m slacksim.Message) bool { return !seen[m.TS] })
	require.NoError(h.t, err, "%s should hear %q", who, words)
	text := read(m)
	for _, word := range words {
		require.Contains(h.t, strings.ToLower(text), strings.ToLower(word)) // a sentence begins with a capital
	}
	for _, person := range everyone {
		if person != who {
			require.Len(h.t, h.ws.Ephemerals(person), before[person], "%s heard what was for %s", person, who)
		}
	}
	return text
}

// refused clicks and expects one private refusal with the code.
func (h *house) refused(who string, card slacksim.Message, code blastdoor.RefusalCode) {
	h.t.Helper()
	h.hears(who, []string{string(code), "did not count"}, func() { h.force(who, card, "approve", nil) })
}

// world does something with the infrastructure from outside the bot.
func (h *house) world(do func(context.Context, *simenv.Env) error) {
	h.t.Helper()
	env, err := simenv.Open(context.Background(), h.conf.Files.World(), simenv.Options{})
	require.NoError(h.t, err)
	require.NoError(h.t, do(context.Background(), env))
	require.NoError(h.t, env.Close())
}

// effects is how many writes the infrastructure has seen.
func (h *house) effects() (n int) {
	h.t.Helper()
	h.world(func(ctx context.Context, env *simenv.Env) error {
		ledger, err := env.Ledger(ctx)
		n = len(ledger)
		return err
	})
	return n
}

// reads looks into the log beside the bot.
func (h *house) reads(do func(context.Context, *store.Store) error) {
	h.t.Helper()
	s, err := store.OpenReadOnly(context.Background(), h.conf.Files.Store(), store.Options{})
	require.NoError(h.t, err)
	require.NoError(h.t, do(context.Background(), s))
	require.NoError(h.t, s.Close())
}

// state is a run as its events tell it.
func (h *house) state(runID string) (run blastdoor.Run) {
	h.t.Helper()
	h.reads(func(ctx context.Context, s *store.Store) error {
		events, err := s.Load(ctx, runID)
		if err == nil {
			run, err = engine.Fold(events)
		}
		return err
	})
	return run
}

func (h *house) counts() (counts store.Counts) {
	h.t.Helper()
	h.reads(func(ctx context.Context, s *store.Store) (err error) {
		counts, err = s.Counts(ctx)
		return err
	})
	return counts
}

// rewrite edits a file beside the runbooks, as an operator does: the new version
// appears whole.
func (h *house) rewrite(file, before, after string) {
	h.t.Helper()
	path := filepath.Join(h.conf.RunbookDir, file)
	data, err := os.ReadFile(path)
	require.NoError(h.t, err)
	require.Contains(h.t, string(data), before)
	fresh := path + ".new"
	require.NoError(h.t, os.WriteFile(fresh, []byte(strings.ReplaceAll(string(data), before, after)), 0o600))
	require.NoError(h.t, os.Rename(fresh, path))
}

// public counts the messages of #ops that everyone sees and that hold the words.
func (h *house) public(words ...string) (n int) {
	for _, m := range h.ws.Messages("ops") {
		if holds(read(m), words) {
			n++
		}
	}
	return n
}

// logs is a log that a test can read.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
