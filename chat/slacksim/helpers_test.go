package slacksim_test

import (
	"context"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/slack-go/slack"
	"github.com/slack-go/slack/socketmode"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"blastdoor/chat/slacksim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a workspace for the time of a test.
func start(t *testing.T, opts slacksim.Options) *slacksim.Workspace {
	t.Helper()
	ws, err := slacksim.Start(opts)
	require.NoError(t, err)
	t.Cleanup(ws.Close)
	return ws
}

// patience bounds every wait: a test that runs into it has failed.
func patience(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// client is the real Slack client, pointed at the workspace.
func client(t *testing.T, ws *slacksim.Workspace, opts ...slack.Option) *slack.Client {
	t.Helper()
	return clientWith(t, ws, ws.BotToken(), ws.AppToken(), opts...)
}

func clientWith(t *testing.T, ws *slacksim.Workspace, bot, app string, opts ...slack.Option) *slack.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	all := append([]slack.Option{slack.OptionAppLevelToken(app), slack.OptionAPIURL(ws.APIURL()),
		slack.OptionHTTPClient(&http.Client{Transport: transport})}, opts...)
	return slack.New(bot, all...)
}

// bot is a Socket Mode app on the real client that acks what its handler says.
type bot struct {
	*socketmode.Client
	got  chan socketmode.Event // envelopes, in order
	stop func()
}

// ackAll acks every envelope without a payload.
func ackAll(b *bot, ev socketmode.Event) { _ = b.Ack(*ev.Request) }

func ackNothing(*bot, socketmode.Event) {}

// runBot connects an app and waits until it is connected. It stops with the test.
func runBot(t *testing.T, ws *slacksim.Workspace, handle func(*bot, socketmode.Event)) *bot {
	t.Helper()
	b := newBot(t, ws, handle)
	require.NoError(t, ws.WaitConnected(patience(t)))
	return b
}

func newBot(t *testing.T, ws *slacksim.Workspace, handle func(*bot, socketmode.Event), opts ...socketmode.Option) *bot {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	b := &bot{Client: socketmode.New(client(t, ws), opts...), got: make(chan socketmode.Event, 1000)}
	var wg sync.WaitGroup
	wg.Go(func() { _ = b.RunContext(ctx) }) // always the context's error, when the test ends
	wg.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case ev := <-b.Events:
				if ev.Request != nil && ev.Request.EnvelopeID != "" {
					handle(b, ev)
					b.got <- ev
				}
			}
		}
	})
	b.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(b.stop)
	return b
}

// next is the next envelope the app got.
func (b *bot) next(t *testing.T) socketmode.Event {
	t.Helper()
	select {
	case ev := <-b.got:
		return ev
	case <-patience(t).Done():
		require.FailNow(t, "no envelope came")
		return socketmode.Event{}
	}
}

// card is a message with two buttons.
func card() slack.MsgOption {
	button := func(id, text string) *slack.ButtonBlockElement {
		return slack.NewButtonBlockElement(id, "run-1", slack.NewTextBlockObject("plain_text", text, false, false))
	}
	return slack.MsgOptionBlocks(
		slack.NewHeaderBlock(slack.NewTextBlockObject("plain_text", "Approve?", false, false)),
		slack.NewActionBlock("decision", button("approve", "Approve"), button("decline", "Decline")))
}

// post posts the card to #ops and returns it as stored.
func post(t *testing.T, ws *slacksim.Workspace, api *slack.Client, opts ...slack.MsgOption) slacksim.Message {
	t.Helper()
	ch, ts, err := api.PostMessage(slacksim.Ops, append([]slack.MsgOption{slack.MsgOptionText("Approve?", false), card()}, opts...)...)
	require.NoError(t, err)
	m, err := ws.Message(ch, ts)
	require.NoError(t, err)
	return m
}

// clock is a wall clock that stands still until it is moved.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 3, 1, 14, 5, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func copyBody(w io.Writer, res *http.Response) (int64, error) { return io.Copy(w, res.Body) }
