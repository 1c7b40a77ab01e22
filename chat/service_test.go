package chat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slack-go/slack"
	"github.com/slack-go/slack/socketmode"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"blastdoor"
	"blastdoor/chat/slacksim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

// bench is a workspace, a box, a desk and a service between them.
type bench struct {
	t    *testing.T
	ws   *slacksim.Workspace
	box  *box
	desk *desk
	log  *logs
	opts Options
	stop func() error // stops the service and returns what Run returned
	wait func() error // waits for the service to end by itself
}

// quick are pauses short enough for tests and long enough for a loaded machine.
func quick() Timing {
	return Timing{Again: 20 * time.Millisecond, Look: 20 * time.Millisecond, GiveUp: time.Minute, Stale: 15 * time.Minute,
		Stop: 5 * time.Second, Ping: 30 * time.Second}
}

func newBench(t *testing.T, o slacksim.Options) *bench {
	t.Helper()
	b := &bench{t: t, ws: startSlack(t, o), box: newBox(t), log: &logs{}}
	b.desk = newDesk(b.box)
	b.opts = Options{Token: b.ws.BotToken(), AppToken: b.ws.AppToken(), APIURL: b.ws.APIURL(), MACKey: bytes.Repeat([]byte("k"), 32),
		Now: time.Now, Logger: slog.New(slog.NewTextHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug})), Timing: quick(),
		Operator: b.desk, Runs: b.desk, Shelf: b.desk, Inbox: b.box, Outbox: b.box, Posts: b.box}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(b.log.String())
		}
	})
	return b
}

// start runs the service until the test ends or stop is called.
func (b *bench) start() *Service {
	b.t.Helper()
	s, err := New(b.opts)
	require.NoError(b.t, err)
	b.box.change(func() { b.box.poke = s.Poke })
	ctx, cancel := context.WithCancel(b.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	b.wait = sync.OnceValue(func() error { return <-ended })
	b.stop = func() error { cancel(); return b.wait() }
	b.t.Cleanup(func() { _ = b.stop() })
	require.NoError(b.t, b.ws.WaitConnected(b.ctx()))
	return s
}

func (b *bench) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	b.t.Cleanup(cancel)
	return ctx
}

func (b *bench) slash(user, line string) slacksim.Outcome {
	b.t.Helper()
	out, err := b.ws.As(user).Slash("ops", line)
	require.NoError(b.t, err)
	return out
}

// hears waits for a private message to a person that holds the words.
func (b *bench) hears(user, words string) slacksim.Message {
	b.t.Helper()
	m, err := b.ws.WaitEphemeral(b.ctx(), user, func(m slacksim.Message) bool { return strings.Contains(slacksim.PlainText(m), words) })
	require.NoError(b.t, err, "%s should hear %q", user, words)
	return m
}

func (b *bench) sees(what string, pred func(slacksim.Message) bool) slacksim.Message {
	b.t.Helper()
	m, err := b.ws.WaitMessage(b.ctx(), "ops", pred)
	require.NoError(b.t, err, what)
	return m
}

func TestSlashRun(t *testing.T) {
	b := newBench(t, slacksim.Options{})
	b.start()
	out := b.slash("alice", `/runbook run drain-host-a reason=“disk fails”`)
	assert.Equal(t, slacksim.Acked, out.Status)
	assert.Nil(t, out.Reply, "acks are empty")
	id := "slash-" + out.TriggerID
	b.box.await("the request to be settled", func() bool { return b.box.settled[id] })
	again, err := b.ws.Redeliver(out.EnvelopeID)
	require.NoError(t, err)
	assert.Equal(t, slacksim.Acked, again.Status, "a known envelope is acknowledged again")
	require.Len(t, b.desk.started(), 1, "and not started again")
	got := b.desk.started()[0]
	assert.NotEmpty(t, got.ResponseURL)
	got.ResponseURL = ""
	assert.Equal(t, blastdoor.StartRequest{SourceID: id, InboxID: id, Runbook: "drain-host-a", Inputs: map[string]string{"reason": "disk fails"},
		UserID: slacksim.Alice, TeamID: slacksim.TeamID, Channel: slacksim.Ops}, got)
}

func TestRepliesArePrivate(t *testing.T) {
	b := newBench(t, slacksim.Options{})
	run := sampleRun()
	b.desk.set(run)
	elsewhere := sampleRun()
	elsewhere.ID, elsewhere.Channel, elsewhere.Requester.UserID = "secret-1", slacksim.Secret, slacksim.Bob
	b.desk.set(elsewhere)
	b.desk.books = []blastdoor.Runbook{{Name: "drain-host-a", Description: "Moves everything off host-a"}}
	b.desk.preview = func(req blastdoor.StartRequest) (blastdoor.Preview, error) {
		if req.Runbook != "drain-host-a" {
			return blastdoor.Preview{}, &blastdoor.Error{Code: blastdoor.ErrNotFound, Msg: "there is no runbook \"ghost\"", Want: "did you mean `drain-host-a`?"}
		}
		return blastdoor.Preview{Runbook: req.Runbook, Steps: []blastdoor.StepPreview{{Step: run.Steps[0].Step, Plan: *run.Steps[0].Plan, Verdict: *run.Steps[0].Verdict}}}, nil
	}
	b.desk.onStart = func(blastdoor.StartRequest) error { return errors.New("password hunter2 does not work") }
	b.start()
	for line, words := range map[string]string{
		"/runbook":                                      "/runbook plan NAME",
		"/runbook help":                                 "/runbook plan NAME",
		"/runbook list":                                 "Moves everything off host-a",
		"/runbook plan drain-host-a":                    "nothing was written",
		"/runbook plan ghost":                           "did you mean `drain-host-a`?",
		"/runbook rum x":                                "did you mean `run`?",
		"/runbook drain-host-a":                         "did you mean `run drain-host-a`?",
		"/runbook status":                               "Latest runs in #ops",
		"/runbook status drain-host-a-1":                "asked for by @alice",
		"/runbook status ghost-1":                       `There is no run "ghost-1" in this channel`,
		"/runbook status secret-1":                      `There is no run "secret-1" in this channel`,
		"/runbook run x":                                "Something broke inside Blast Door",
		"/runbook run x a=" + strings.Repeat("y", 9000): "too long",
	} {
		assert.Equal(t, slacksim.Acked, b.slash("alice", line).Status)
		m := b.hears("alice", words)
		assert.NotContains(t, slacksim.PlainText(m), "hunter2", "causes are not shown")
	}
	assert.Empty(t, b.ws.Messages("ops"), "nothing in the channel")
	assert.Empty(t, b.ws.Ephemerals("bob"))
	assert.Contains(t, b.log.String(), "hunter2", "the log has the cause")
	require.Empty(t, b.ws.Calls("chat.postEphemeral"), "the response_url was good for all")
}

// TestNotStoredIsNotAcked: an envelope that could not be stored is left to Slack,
// and the person sees that at once.
func TestNotStoredIsNotAcked(t *testing.T) {
	b := newBench(t, slacksim.Options{AckDeadline: 300 * time.Millisecond})
	b.start()
	b.box.change(func() { b.box.accept = errors.New("disk full") })
	assert.Equal(t, slacksim.OperationTimeout, b.slash("alice", "/runbook run x").Status)
	card := b.post(t)
	out, err := b.ws.As("bob").Click(card, approveAction)
	require.NoError(t, err)
	assert.Equal(t, slacksim.OperationTimeout, out.Status)
	b.box.change(func() { b.box.accept = nil })
	assert.Equal(t, slacksim.Acked, b.slash("alice", "/runbook run x").Status) // control
	b.box.await("the command that was stored", func() bool { return len(b.box.settled) == 1 })
	assert.Empty(t, b.desk.clicked())
}

// TestFullQueueIsNotAcked: what nobody has room for is left to Slack, and the loop
// is not blocked by it.
func TestFullQueueIsNotAcked(t *testing.T) {
	log := &logs{}
	r := &receiver{queue: make(chan socketmode.Request, 1), log: slog.New(slog.NewTextHandler(log, nil))}
	r.handOver(t.Context(), socketmode.Request{EnvelopeID: "first"})
	r.handOver(t.Context(), socketmode.Request{EnvelopeID: "second"})
	require.Len(t, r.queue, 1)
	assert.Equal(t, "first", (<-r.queue).EnvelopeID)
	assert.Contains(t, log.String(), "too many are waiting")
	assert.Contains(t, log.String(), "envelope=second")
}

// TestPanicWhileStoring costs that envelope only, which is not acknowledged.
func TestPanicWhileStoring(t *testing.T) {
	b := newBench(t, slacksim.Options{AckDeadline: 300 * time.Millisecond})
	b.opts.Inbox = explosive{b.box}
	b.start()
	assert.Equal(t, slacksim.OperationTimeout, b.slash("bob", "/runbook run x").Status)
	assert.Equal(t, slacksim.Acked, b.slash("alice", "/runbook run x").Status)
}

// explosive is an inbox that cannot stand Bob.
type explosive struct{ *box }

func (e explosive) Accept(ctx context.Context, item blastdoor.InboxItem) (bool, error) {
	if strings.Contains(string(item.Payload), slacksim.Bob) {
		panic("boom")
	}
	return e.box.Accept(ctx, item)
}

// post delivers the sample dry run card and returns it as Slack has it.
func (b *bench) post(t *testing.T) slacksim.Message {
	t.Helper()
	run := sampleRun()
	b.desk.set(run)
	b.box.queue(dryRunDelivery(run))
	return b.sees("the dry run card", func(m slacksim.Message) bool { return m.HasButton(approveAction) })
}

func dryRunDelivery(run blastdoor.Run) blastdoor.Delivery {
	return blastdoor.Delivery{ID: run.ID + "/drain/plan-1", RunID: run.ID, Kind: blastdoor.DryRunCard, StepID: "drain", PlanNo: 1,
		Channel: run.Channel, Want: run.Len, Urgent: true, CreatedAt: time.Now()}
}

func TestClick(t *testing.T) {
	b := newBench(t, slacksim.Options{})
	b.start()
	card := b.post(t)
	_, err := b.ws.As("bob").Click(card, approveAction)
	require.NoError(t, err)
	_, err = b.ws.As("erin").ForceClick(card, declineAction, nil)
	require.NoError(t, err)
	b.box.await("both clicks", func() bool { return len(b.box.settled) == 2 })
	var clicks []blastdoor.Click
	for _, c := range b.desk.clicked() {
		assert.NotEmpty(t, c.ResponseURL)
		assert.NotEmpty(t, c.InboxID)
		c.ResponseURL, c.InboxID = "", ""
		clicks = append(clicks, c)
	}
	want := blastdoor.Click{RunID: "drain-host-a-1", ApprovalID: "ap-1", PlanHash: sampleHash, Approve: true, UserID: slacksim.Bob,
		TeamID: slacksim.TeamID, Message: blastdoor.MessageRef{Channel: slacksim.Ops, TS: card.TS}}
	assert.Contains(t, clicks, want)
	want.Approve, want.UserID, want.TeamID = false, slacksim.Erin, slacksim.OtherTeamID
	assert.Contains(t, clicks, want, "the person's own team, not the workspace's")
}

// TestForeignAndForgedEnvelopes are acknowledged, so that Slack stops sending them,
// and reach nobody.
func TestForeignAndForgedEnvelopes(t *testing.T) {
	b := newBench(t, slacksim.Options{})
	b.start()
	card := b.post(t)
	for name, change := range map[string]func(map[string]any){
		"another app":       func(p map[string]any) { p["api_app_id"] = "A0OTHER" },
		"no app":            func(p map[string]any) { delete(p, "api_app_id") },
		"another team":      func(p map[string]any) { p["team"] = map[string]any{"id": slacksim.OtherTeamID} },
		"no team":           func(p map[string]any) { p["team"] = nil },
		"an unknown button": func(p map[string]any) { p["actions"].([]any)[0].(map[string]any)["action_id"] = "open_docs" },
		"nobody":            func(p map[string]any) { p["user"] = map[string]any{} },
		"another kind":      func(p map[string]any) { p["type"] = "view_closed" },
	} {
		out, err := b.ws.As("bob").ForceClick(card, approveAction, change)
		require.NoError(t, err, name)
		assert.Equal(t, slacksim.Acked, out.Status, name)
	}
	assert.Equal(t, slacksim.Acked, b.ws.Forge("brand_new_type", map[string]any{"x": 1}).Status, "an unknown envelope")
	assert.Equal(t, slacksim.Acked, b.ws.Forge("events_api", map[string]any{"type": "event_callback", "event": map[string]any{"type": "brand_new"}}).Status)
	assert.Equal(t, slacksim.Acked, b.ws.Forge("slash_commands", map[string]any{"user_id": 7}).Status, "an undecodable command")
	items, err := b.box.PendingInbox(t.Context())
	require.NoError(t, err)
	assert.Empty(t, items)
	assert.Empty(t, b.desk.clicked())

	// Negative control, and more: a click that the client library cannot decode is
	// not lost, for our own parser wants less.
	out, err := b.ws.As("bob").ForceClick(card, approveAction, func(p map[string]any) { p["message"] = "odd" })
	require.NoError(t, err)
	assert.Equal(t, slacksim.Acked, out.Status)
	b.box.await("the odd click", func() bool { return len(b.box.settled) == 1 })
	assert.Len(t, b.desk.clicked(), 1)
}

func TestForgedButtonValueIsRefused(t *testing.T) {
	b := newBench(t, slacksim.Options{})
	b.start()
	card := b.post(t)
	_, err := b.ws.As("bob").ForceClick(card, approveAction, func(p map[string]any) {
		p["actions"].([]any)[0].(map[string]any)["value"] = "run rm -rf"
	})
	require.NoError(t, err)
	b.hears("bob", "That button is not one that Blast Door made")
	assert.Empty(t, b.desk.clicked())
}

// TestPoisonedRequest: a request that panics or does not parse is closed and holds
// up nobody.
func TestPoisonedRequest(t *testing.T) {
	b := newBench(t, slacksim.Options{})
	b.desk.onStart = func(r blastdoor.StartRequest) error {
		if r.Runbook == "bomb" {
			panic("boom")
		}
		return nil
	}
	for _, item := range []blastdoor.InboxItem{
		{ID: "broken", Kind: slashKind, Payload: json.RawMessage(`{"slash":7}`), ReceivedAt: time.Now()},
		{ID: "empty", Kind: slashKind, Payload: json.RawMessage(`{}`), ReceivedAt: time.Now()}} {
		_, err := b.box.Accept(t.Context(), item)
		require.NoError(t, err)
	}
	b.start()
	b.slash("alice", "/runbook run bomb")
	b.hears("alice", "Something broke inside Blast Door")
	b.slash("alice", "/runbook run good")
	b.box.await("all to be closed", func() bool { return len(b.box.settled) == 4 })
	assert.Contains(t, b.log.String(), "boom")
}

// TestReplayAtStart: what was stored and not answered is answered after a restart;
// a command to run something only if it is not stale.
func TestReplayAtStart(t *testing.T) {
	b := newBench(t, slacksim.Options{})
	for id, age := range map[string]time.Duration{"fresh": time.Minute, "stale": time.Hour} {
		payload, err := json.Marshal(request{Slash: &slashRequest{Text: "run " + id, UserID: slacksim.Alice, TeamID: slacksim.TeamID, Channel: slacksim.Ops}})
		require.NoError(t, err)
		_, err = b.box.Accept(t.Context(), blastdoor.InboxItem{ID: id, Kind: slashKind, Payload: payload, ReceivedAt: time.Now().Add(-age)})
		require.NoError(t, err)
	}
	b.start()
	b.hears("alice", "This request waited too long to be started")
	b.box.await("both", func() bool { return len(b.box.settled) == 2 })
	require.Len(t, b.desk.started(), 1)
	assert.Equal(t, "fresh", b.desk.started()[0].Runbook)
}

// TestAskAgainShortly: while the card's address is not known a click is neither
// lost nor refused; after a while it is answered.
func TestAskAgainShortly(t *testing.T) {
	b := newBench(t, slacksim.Options{})
	tries := 0
	b.desk.onClick = func(c blastdoor.Click) error {
		if c.UserID == slacksim.Carol {
			return blastdoor.Errorf(blastdoor.ErrUnavailable, "the policy cannot be read")
		}
		if tries++; tries < 3 {
			return blastdoor.Errorf(blastdoor.ErrNotPosted, "not yet")
		}
		return nil
	}
	b.opts.Timing.GiveUp = 300 * time.Millisecond
	b.start()
	card := b.post(t)
	_, err := b.ws.As("bob").Click(card, approveAction)
	require.NoError(t, err)
	b.box.await("the click to count", func() bool { return len(b.box.settled) == 1 })
	_, err = b.ws.As("carol").Click(card, approveAction)
	require.NoError(t, err)
	b.hears("carol", "The policy cannot be read")
	assert.Greater(t, len(b.desk.clicked()), 4, "it was tried again before it was given up")
}

func TestReconnects(t *testing.T) {
	b := newBench(t, slacksim.Options{PingInterval: 50 * time.Millisecond})
	s := b.start()
	assert.Equal(t, slacksim.Acked, b.slash("alice", "/runbook help").Status)
	for range 3 {
		b.ws.DropSockets()
		require.NoError(t, b.ws.WaitConnected(b.ctx()))
		require.Equal(t, slacksim.Acked, b.slash("alice", "/runbook help").Status)
	}
	b.ws.Refresh()
	require.NoError(t, b.ws.WaitConnected(b.ctx()))
	require.Eventually(t, func() bool { return s.Status().Connected && s.Status().Reconnects >= 4 }, 10*time.Second, 5*time.Millisecond)
	status := s.Status()
	assert.Equal(t, 1, status.Connections)
	assert.False(t, status.Since.IsZero())

	b.ws.AddGhost()
	b.ws.DropSockets()
	require.NoError(t, b.ws.WaitConnected(b.ctx()))
	require.Eventually(t, func() bool { return s.Status().Connections == 2 }, 10*time.Second, 5*time.Millisecond)
	assert.Contains(t, b.log.String(), "another process is connected")
}

// TestFatalErrorsEndTheService, each with the way out in its words.
func TestFatalErrorsEndTheService(t *testing.T) {
	for code, words := range map[string]string{"invalid_auth": "copy it again", "token_revoked": "reinstall the app", "token_expired": "expired",
		"account_inactive": "revoked", "not_allowed_token_type": "xoxb-"} {
		b := newBench(t, slacksim.Options{})
		b.ws.RefuseTokens(code)
		s, err := New(b.opts)
		require.NoError(t, err)
		err = s.Run(b.ctx())
		require.Error(t, err, code)
		assert.Contains(t, err.Error(), words)
		assert.Contains(t, err.Error(), code)
	}
	b := newBench(t, slacksim.Options{})
	b.opts.AppToken = b.ws.BotToken() // the wrong kind
	s, err := New(b.opts)
	require.NoError(t, err)
	require.ErrorContains(t, s.Run(b.ctx()), "xapp-")

	b = newBench(t, slacksim.Options{})
	b.start()
	b.ws.RefuseTokens("token_revoked") // in the middle of its life
	b.ws.DropSockets()
	ended := make(chan error, 1)
	go func() { ended <- b.wait() }()
	select {
	case err := <-ended:
		require.ErrorContains(t, err, "reinstall the app")
	case <-time.After(15 * time.Second):
		t.Fatal("the service lives on with a revoked token")
	}
}

// TestWaitsForSlack: a Slack that cannot be reached at the start is waited for.
func TestWaitsForSlack(t *testing.T) {
	b := newBench(t, slacksim.Options{})
	b.ws.Inject(slacksim.Fault{Method: "auth.test", Kind: slacksim.Status, Status: 503, Times: 2})
	b.ws.Inject(slacksim.Fault{Method: "apps.connections.open", Kind: slacksim.CutBeforeCommit, Times: 2})
	b.start()
	assert.Equal(t, slacksim.Acked, b.slash("alice", "/runbook help").Status)
}

// TestStopFinishesWhatWasBegun: a request under way is answered and its answer
// delivered before Run returns.
func TestStopFinishesWhatWasBegun(t *testing.T) {
	b := newBench(t, slacksim.Options{})
	begun, goOn := make(chan struct{}), make(chan struct{})
	b.desk.onStart = func(blastdoor.StartRequest) error {
		close(begun)
		<-goOn
		return blastdoor.Errorf(blastdoor.ErrNotAllowed, "not in this channel")
	}
	b.start()
	b.slash("alice", "/runbook run x")
	<-begun
	ended := make(chan error, 1)
	go func() { ended <- b.stop() }()
	require.NoError(t, b.ws.WaitConnections(b.ctx(), 0), "intake stops first")
	close(goOn)
	require.NoError(t, <-ended)
	require.Len(t, b.ws.Ephemerals("alice"), 1)
	assert.Contains(t, slacksim.PlainText(b.ws.Ephemerals("alice")[0]), "Not in this channel")
}

// TestManyAtOnce: 200 commands at once are all acknowledged, each started once.
func TestManyAtOnce(t *testing.T) {
	b := newBench(t, slacksim.Options{})
	b.start()
	var wg sync.WaitGroup
	outs := make([]slacksim.Outcome, 200)
	for i := range outs {
		wg.Go(func() {
			out, err := b.ws.As("alice").Slash("ops", fmt.Sprintf("/runbook run r%d", i))
			assert.NoError(t, err)
			outs[i] = out
		})
	}
	wg.Wait()
	for i, out := range outs {
		require.Equal(t, slacksim.Acked, out.Status, i)
	}
	b.box.await("all to be settled", func() bool { return len(b.box.settled) == len(outs) })
	seen := map[string]int{}
	for _, s := range b.desk.started() {
		seen[s.Runbook]++
	}
	require.Len(t, seen, len(outs))
	for name, n := range seen {
		require.Equal(t, 1, n, name)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	b := newBench(t, slacksim.Options{})
	for name, change := range map[string]func(*Options){
		"bot token": func(o *Options) { o.Token = "" }, "app-level token": func(o *Options) { o.AppToken = "" },
		"MAC key": func(o *Options) { o.MACKey = []byte("short") }, "Operator": func(o *Options) { o.Operator = nil },
		"Posts": func(o *Options) { o.Posts = nil }, "must be an absolute URL": func(o *Options) { o.APIURL = "http://x/api" },
	} {
		o := b.opts
		change(&o)
		_, err := New(o)
		require.ErrorContains(t, err, name)
	}
}

// TestALongOutageDoesNotMakeTheBotDeaf: a client whose pauses have grown is replaced
// instead of being waited for; a pause that Slack asks for is kept.
func TestALongOutageDoesNotMakeTheBotDeaf(t *testing.T) {
	b := newBench(t, slacksim.Options{})
	b.opts.Timing.Patience = time.Millisecond // the client's first pause is longer
	b.start()
	before := len(b.ws.Calls("apps.connections.open"))
	b.ws.Inject(slacksim.Fault{Method: "apps.connections.open", Kind: slacksim.Status, Status: 503, Times: 3})
	b.ws.DropSockets()
	_, err := b.ws.WaitEntry(b.ctx(), "three refusals and a connection", func(slacksim.Entry) bool {
		return len(b.ws.Calls("apps.connections.open")) >= before+4
	})
	require.NoError(t, err)
	require.NoError(t, b.ws.WaitConnected(b.ctx()))
	assert.Contains(t, b.log.String(), "connecting to Slack anew")
	require.Empty(t, b.slash("alice", "/runbook help").Shown)
	b.hears("alice", "/runbook plan NAME")

	r := &receiver{patience: time.Second, log: slog.New(slog.DiscardHandler), now: time.Now}
	slow := func(cause error, wait time.Duration) error {
		return r.event(t.Context(), socketmode.Event{Type: socketmode.EventTypeConnectionError,
			Data: &slack.ConnectionErrorEvent{Backoff: wait, ErrorObj: cause}})
	}
	require.NoError(t, slow(errors.New("refused"), time.Second))
	require.ErrorIs(t, slow(errors.New("refused"), time.Minute), errSlow)
	require.NoError(t, slow(&slack.RateLimitedError{RetryAfter: time.Minute}, time.Minute))
}
