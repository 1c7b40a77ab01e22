package slacksim_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/slack-go/slack"
	"github.com/slack-go/slack/slackevents"
	"github.com/slack-go/slack/socketmode"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"blastdoor/chat/slacksim"
)

// short is a deadline that a test can wait out.
const short = 200 * time.Millisecond

func TestSlashIsAcked(t *testing.T) {
	ws := start(t, slacksim.Options{})
	b := runBot(t, ws, ackAll)
	out, err := ws.As("alice").Slash("ops", "/runbook run drain @bob in #ops with @sre")
	require.NoError(t, err)
	assert.Equal(t, slacksim.Acked, out.Status)
	assert.Empty(t, out.Shown)
	cmd, ok := b.next(t).Data.(slack.SlashCommand)
	require.True(t, ok)
	assert.Equal(t, slacksim.Alice, cmd.UserID)
	assert.Equal(t, slacksim.TeamID, cmd.TeamID)
	assert.Equal(t, slacksim.Ops, cmd.ChannelID)
	assert.Equal(t, slacksim.AppID, cmd.APIAppID)
	assert.Equal(t, "/runbook", cmd.Command)
	assert.Equal(t, "run drain <@U0BOB|bob> in <#C0OPS|ops> with <!subteam^S0SRE>", cmd.Text)
	ack, err := ws.WaitAck(patience(t), out.EnvelopeID)
	require.NoError(t, err)
	assert.Equal(t, "ok", ack.Outcome)
}

func TestSlashAckWithMessage(t *testing.T) {
	ws := start(t, slacksim.Options{})
	runBot(t, ws, func(b *bot, ev socketmode.Event) { _ = b.Ack(*ev.Request, map[string]any{"text": "got <it>"}) })
	out, err := ws.As("alice").Slash("ops", "/runbook help")
	require.NoError(t, err)
	require.NotNil(t, out.Reply)
	assert.Equal(t, "got &lt;it&gt;", out.Reply.Text)
	assert.Equal(t, slacksim.Alice, out.Reply.EphemeralTo)
	assert.Empty(t, ws.Messages("ops"), "an ephemeral message is not in the channel")
}

func TestSlashWithoutAckTimesOut(t *testing.T) {
	ws := start(t, slacksim.Options{AckDeadline: short})
	b := runBot(t, ws, ackNothing)
	out, err := ws.As("alice").Slash("ops", "/runbook list")
	require.NoError(t, err)
	assert.Equal(t, slacksim.OperationTimeout, out.Status)
	assert.Equal(t, `/runbook failed with the error "operation_timeout"`, out.Shown)
	require.NoError(t, b.Ack(*b.next(t).Request))
	ack, err := ws.WaitAck(patience(t), out.EnvelopeID)
	require.NoError(t, err)
	assert.Equal(t, "late", ack.Outcome)
}

func TestSlashWithoutConnectionFails(t *testing.T) {
	ws := start(t, slacksim.Options{})
	out, err := ws.As("alice").Slash("ops", "/runbook list")
	require.NoError(t, err)
	assert.Equal(t, slacksim.DispatchFailed, out.Status)
	assert.Equal(t, `/runbook failed with the error "dispatch_failed"`, out.Shown)
}

func TestLostAckIsATimeout(t *testing.T) {
	ws := start(t, slacksim.Options{AckDeadline: short})
	runBot(t, ws, ackAll)
	ws.Inject(slacksim.Fault{Method: "ack", Kind: slacksim.LoseAck})
	out, err := ws.As("alice").Slash("ops", "/runbook list")
	require.NoError(t, err)
	assert.Equal(t, slacksim.OperationTimeout, out.Status)
	again, err := ws.As("alice").Slash("ops", "/runbook list")
	require.NoError(t, err)
	assert.Equal(t, slacksim.Acked, again.Status, "the fault fires once")
}

func TestRedeliveredEnvelopeKeepsItsID(t *testing.T) {
	ws := start(t, slacksim.Options{})
	b := runBot(t, ws, ackAll)
	out, err := ws.As("alice").Slash("ops", "/runbook list")
	require.NoError(t, err)
	again, err := ws.Redeliver(out.EnvelopeID)
	require.NoError(t, err)
	assert.Equal(t, slacksim.Acked, again.Status)
	first, second := b.next(t), b.next(t)
	assert.Equal(t, first.Request.EnvelopeID, second.Request.EnvelopeID)
	assert.Equal(t, first.Data, second.Data)
	_, err = ws.Redeliver("nothing")
	assert.Error(t, err)
}

func TestDuplicateAndUnknownAcksAreJournaled(t *testing.T) {
	ws := start(t, slacksim.Options{})
	b := runBot(t, ws, func(b *bot, ev socketmode.Event) {
		_ = b.Ack(*ev.Request)
		_ = b.Ack(*ev.Request)
		_ = b.Ack(socketmode.Request{EnvelopeID: "made-up"})
	})
	out, err := ws.As("alice").Slash("ops", "/runbook list")
	require.NoError(t, err)
	b.next(t)
	_, err = ws.WaitAck(patience(t), "made-up")
	require.NoError(t, err)
	var outcomes []string
	for _, e := range ws.Acks() {
		outcomes = append(outcomes, e.Outcome)
	}
	assert.Equal(t, []string{"ok", "duplicate", "unknown envelope"}, outcomes)
	assert.Equal(t, slacksim.Acked, out.Status)
}

func TestReconnectsAfter(t *testing.T) {
	breaks := map[string]func(*slacksim.Workspace){
		"drop":    (*slacksim.Workspace).DropSockets,
		"refresh": (*slacksim.Workspace).Refresh,
	}
	for name, breakIt := range breaks {
		t.Run(name, func(t *testing.T) {
			ws := start(t, slacksim.Options{})
			runBot(t, ws, ackAll)
			breakIt(ws)
			require.NoError(t, ws.WaitConnected(patience(t)))
			out, err := ws.As("alice").Slash("ops", "/runbook list")
			require.NoError(t, err)
			assert.Equal(t, slacksim.Acked, out.Status)
			assert.Len(t, ws.Calls("apps.connections.open"), 2, "a new socket needs a new URL")
		})
	}
}

func TestWarningMakesTheClientReconnect(t *testing.T) {
	ws := start(t, slacksim.Options{})
	runBot(t, ws, ackAll)
	ws.Disconnect(slacksim.ReasonWarning)
	_, err := ws.WaitEntry(patience(t), "the second connection", func(e slacksim.Entry) bool { return e.Name == "open" && e.Conn == 2 })
	require.NoError(t, err)
}

func TestConnectionIsRefreshedWhenItsTimeIsUp(t *testing.T) {
	ws := start(t, slacksim.Options{ConnectionTime: short})
	runBot(t, ws, ackAll)
	_, err := ws.WaitEntry(patience(t), "the second connection", func(e slacksim.Entry) bool { return e.Name == "open" && e.Conn == 2 })
	require.NoError(t, err)
}

// An ack for an envelope of the first socket that goes out on the second still counts.
func TestAckOnAnotherConnection(t *testing.T) {
	ws := start(t, slacksim.Options{})
	arrived, release := make(chan struct{}), make(chan struct{})
	runBot(t, ws, func(b *bot, ev socketmode.Event) { close(arrived); <-release; _ = b.Ack(*ev.Request) })
	done := make(chan slacksim.Outcome, 1)
	go func() {
		out, _ := ws.As("alice").Slash("ops", "/runbook list") // the outcome below is checked
		done <- out
	}()
	<-arrived
	ws.DropSockets()
	require.NoError(t, ws.WaitConnected(patience(t)))
	close(release)
	assert.Equal(t, slacksim.Acked, (<-done).Status)
}

func TestGhostSwallowsEnvelopes(t *testing.T) {
	ws := start(t, slacksim.Options{AckDeadline: short})
	remove := ws.AddGhost()
	runBot(t, ws, ackAll)
	statuses := map[slacksim.AckStatus]int{}
	for range 8 {
		out, err := ws.As("alice").Slash("ops", "/runbook list")
		require.NoError(t, err)
		statuses[out.Status]++
	}
	assert.Positive(t, statuses[slacksim.Acked])
	assert.Positive(t, statuses[slacksim.OperationTimeout], "some went to the ghost")
	remove()
	for range 8 {
		out, err := ws.As("alice").Slash("ops", "/runbook list")
		require.NoError(t, err)
		assert.Equal(t, slacksim.Acked, out.Status)
	}
}

func TestEnvelopesGoToAnyConnection(t *testing.T) {
	ws := start(t, slacksim.Options{})
	first, second := newBot(t, ws, ackAll), newBot(t, ws, ackAll)
	require.NoError(t, ws.WaitConnections(patience(t), 2))
	for range 8 {
		out, err := ws.As("alice").Slash("ops", "/runbook list")
		require.NoError(t, err)
		require.Equal(t, slacksim.Acked, out.Status)
	}
	first.stop()
	second.stop()
	assert.NotEmpty(t, first.got)
	assert.NotEmpty(t, second.got)
	assert.Equal(t, 8, len(first.got)+len(second.got), "each went to one of them")
}

func TestStalledSocketIsNoticedByItsMissingPings(t *testing.T) {
	ws := start(t, slacksim.Options{PingInterval: 10 * time.Millisecond})
	newBot(t, ws, ackAll, socketmode.OptionPingInterval(100*time.Millisecond))
	require.NoError(t, ws.WaitConnected(patience(t)))
	ws.StallSockets()
	require.NoError(t, ws.WaitConnected(patience(t)), "the client gives up the dead socket and dials a new one")
	ws.DropGhosts()
}

func TestEventIsRetriedUntilAcked(t *testing.T) {
	ws := start(t, slacksim.Options{AckDeadline: short, RetryDelays: []time.Duration{0, 0, 0}})
	attempts := 0
	b := runBot(t, ws, func(b *bot, ev socketmode.Event) {
		if attempts++; attempts == 3 {
			_ = b.Ack(*ev.Request)
		}
	})
	out, err := ws.As("alice").OpenHome("home")
	require.NoError(t, err)
	assert.Equal(t, slacksim.OperationTimeout, out.Status)
	var ids []string
	for i := range 3 {
		ev := b.next(t)
		assert.Equal(t, i, ev.Request.RetryAttempt)
		inner, ok := ev.Data.(slackevents.EventsAPIEvent)
		require.True(t, ok)
		callback, ok := inner.Data.(*slackevents.EventsAPICallbackEvent)
		require.True(t, ok)
		ids = append(ids, callback.EventID)
		home, ok := inner.InnerEvent.Data.(*slackevents.AppHomeOpenedEvent)
		require.True(t, ok)
		assert.Equal(t, slacksim.Alice, home.User)
	}
	assert.Equal(t, []string{ids[0], ids[0], ids[0]}, ids, "the event id stays, so that the app can tell")
}

func TestTicketsWorkOnce(t *testing.T) {
	ws := start(t, slacksim.Options{Now: newClock().Now})
	_, url, err := client(t, ws).StartSocketModeContext(patience(t))
	require.NoError(t, err)
	conn, _, err := websocket.DefaultDialer.Dial(url, nil)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, res, err := websocket.DefaultDialer.Dial(url, nil)
	require.Error(t, err)
	assert.Equal(t, http.StatusForbidden, res.StatusCode)
}

func TestTicketsExpire(t *testing.T) {
	c := newClock()
	ws := start(t, slacksim.Options{Now: c.Now})
	_, url, err := client(t, ws).StartSocketModeContext(patience(t))
	require.NoError(t, err)
	c.Advance(31 * time.Second)
	_, _, err = websocket.DefaultDialer.Dial(url, nil)
	assert.Error(t, err)
}

// dial opens a socket without the Slack client, for frames it would not send, and returns it after hello.
func dial(t *testing.T, ws *slacksim.Workspace) (*websocket.Conn, map[string]any) {
	t.Helper()
	_, url, err := client(t, ws).StartSocketModeContext(patience(t))
	require.NoError(t, err)
	conn, _, err := websocket.DefaultDialer.Dial(url, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	var hello map[string]any
	require.NoError(t, conn.ReadJSON(&hello))
	return conn, hello
}

func TestHello(t *testing.T) {
	ws := start(t, slacksim.Options{})
	ws.AddGhost()
	_, hello := dial(t, ws)
	assert.Equal(t, "hello", hello["type"])
	assert.EqualValues(t, 2, hello["num_connections"], "the ghost counts")
	assert.Equal(t, map[string]any{"app_id": slacksim.AppID}, hello["connection_info"])
	assert.EqualValues(t, 18060, hello["debug_info"].(map[string]any)["approximate_connection_time"])
}

func TestEleventhConnectionIsTooMany(t *testing.T) {
	ws := start(t, slacksim.Options{})
	for range 10 {
		dial(t, ws)
	}
	conn, hello := dial(t, ws)
	assert.EqualValues(t, 11, hello["num_connections"])
	var msg map[string]any
	require.NoError(t, conn.ReadJSON(&msg))
	assert.Equal(t, slacksim.ReasonTooMany, msg["reason"])
	assert.Error(t, conn.ReadJSON(&msg), "and it is closed")
	assert.Equal(t, 10, ws.Connections())
}

func TestOversizedFrameClosesTheSocket(t *testing.T) {
	ws := start(t, slacksim.Options{})
	conn, _ := dial(t, ws)
	raw, err := json.Marshal(map[string]any{"envelope_id": "x", "payload": map[string]any{"text": strings.Repeat("x", 20480)}})
	require.NoError(t, err)
	require.NoError(t, conn.WriteMessage(websocket.TextMessage, raw))
	_, _, err = conn.ReadMessage()
	var closed *websocket.CloseError
	require.ErrorAs(t, err, &closed)
	assert.Equal(t, websocket.CloseMessageTooBig, closed.Code)
	assert.Equal(t, "Max frame length of 20480 has been exceeded.", closed.Text)
}

func TestMalformedAckIsJournaled(t *testing.T) {
	ws := start(t, slacksim.Options{})
	conn, _ := dial(t, ws)
	require.NoError(t, conn.WriteMessage(websocket.TextMessage, []byte("{")))
	e, err := ws.WaitEntry(patience(t), "the ack", func(e slacksim.Entry) bool { return e.Kind == slacksim.KindAck })
	require.NoError(t, err)
	assert.Equal(t, "malformed", e.Outcome)
}

func TestUnknownEnvelopeReachesTheApp(t *testing.T) {
	ws := start(t, slacksim.Options{})
	conn, _ := dial(t, ws)
	require.True(t, ws.SendRaw(map[string]any{"type": "brand_new", "envelope_id": "e1"}))
	var msg map[string]any
	require.NoError(t, conn.ReadJSON(&msg))
	assert.Equal(t, "brand_new", msg["type"])
}

func TestDebugClientGetsShortConnections(t *testing.T) {
	ws := start(t, slacksim.Options{})
	_, url, err := client(t, ws, slack.OptionDebug(true), slack.OptionLog(silent{})).StartSocketModeContext(patience(t))
	require.NoError(t, err)
	conn, _, err := websocket.DefaultDialer.Dial(url, nil)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	var hello struct {
		DebugInfo struct {
			Time int `json:"approximate_connection_time"`
		} `json:"debug_info"`
	}
	require.NoError(t, conn.ReadJSON(&hello))
	assert.Equal(t, 360, hello.DebugInfo.Time)
}

type silent struct{}

func (silent) Output(int, string) error { return nil }

func TestSocketModeTurnedOff(t *testing.T) {
	ws := start(t, slacksim.Options{})
	before, _ := dial(t, ws)
	ws.SetSocketMode(false)
	var msg map[string]any
	require.NoError(t, before.ReadJSON(&msg))
	assert.Equal(t, slacksim.ReasonLinkDisabled, msg["reason"])
	after, first := dial(t, ws)
	assert.Equal(t, slacksim.ReasonLinkDisabled, first["reason"], "in place of hello")
	assert.Error(t, after.ReadJSON(&msg), "and it is closed")
	ws.SetSocketMode(true)
	_, hello := dial(t, ws)
	assert.Equal(t, "hello", hello["type"])
}

func TestManyCommandsAtOnce(t *testing.T) {
	ws := start(t, slacksim.Options{})
	b := runBot(t, ws, ackAll)
	outcomes := make(chan slacksim.Outcome, 200)
	for range cap(outcomes) {
		go func() {
			out, _ := ws.As("alice").Slash("ops", "/runbook list") // an error shows as an empty outcome
			outcomes <- out
		}()
	}
	for range cap(outcomes) {
		assert.Equal(t, slacksim.Acked, (<-outcomes).Status)
	}
	b.stop()
	assert.Len(t, b.got, cap(outcomes))
}
