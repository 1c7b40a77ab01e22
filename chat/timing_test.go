package chat

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slack-go/slack"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"blastdoor"
	"blastdoor/chat/slacksim"
)

// wire stands in for Slack where only the time of a call matters. It needs no
// socket, so that virtual time can pass.
type wire struct {
	mu    sync.Mutex
	calls []call
	plan  func(method string, n int) *http.Response // nil: ok
}

type call struct {
	method string
	at     time.Time
}

func (w *wire) Do(req *http.Request) (*http.Response, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	method := req.URL.Path[1:]
	n := 0
	for _, c := range w.calls {
		if c.method == method {
			n++
		}
	}
	w.calls = append(w.calls, call{method, time.Now()})
	if w.plan != nil {
		if resp := w.plan(method, n); resp != nil {
			return resp, nil
		}
	}
	return answer(http.StatusOK, fmt.Sprintf(`{"ok":true,"channel":"C1","ts":"17.%06d"}`, len(w.calls)), 0), nil
}

func answer(status int, body string, retryAfter int) *http.Response {
	h := http.Header{}
	if retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(retryAfter))
	}
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: h, Body: io.NopCloser(bytes.NewBufferString(body))}
}

// times are when a method was called, counted from start.
func (w *wire) times(method string, start time.Time) []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []time.Duration
	for _, c := range w.calls {
		if c.method == method {
			out = append(out, c.at.Sub(start).Round(time.Millisecond))
		}
	}
	return out
}

// inBubble runs a deliverer over a wire in virtual time until the test is done.
func inBubble(t *testing.T, plan func(string, int) *http.Response, test func(t *testing.T, b *box, desk *desk, w *wire, start time.Time)) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t)
		d := newDesk(b)
		w := &wire{plan: plan}
		base, err := url.Parse("http://slack.test/")
		require.NoError(t, err)
		send := newDeliverer(Options{MACKey: bytes.Repeat([]byte("k"), 32), Now: time.Now, Logger: slog.New(slog.DiscardHandler),
			Timing: Timing{}.withDefaults(), Outbox: b, Posts: b, Runs: d},
			&web{api: slack.New("xoxb", slack.OptionHTTPClient(w), slack.OptionAPIURL(base.String())), apiURL: base})
		send.self, send.moved = installation{BotID: "B1"}, func() {}
		b.poke = func() { poke(send.wake) }
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { send.run(ctx); close(done) }()
		test(t, b, d, w, time.Now())
		cancel()
		<-done
	})
}

// TestRetryAfterIsHonoured to the second, for the whole lane, and then both go out.
func TestRetryAfterIsHonoured(t *testing.T) {
	inBubble(t, func(_ string, n int) *http.Response {
		if n == 0 {
			return answer(http.StatusTooManyRequests, "", 7)
		}
		return nil
	}, func(t *testing.T, b *box, desk *desk, w *wire, start time.Time) {
		run := sampleRun()
		desk.set(run)
		b.queue(dryRunDelivery(run), runCardDelivery(run))
		time.Sleep(time.Minute)
		assert.Equal(t, []time.Duration{0, 7 * time.Second, 7 * time.Second}, w.times("chat.postMessage", start))
		assert.NotEmpty(t, b.row(run.ID+"/card").TS)
	})
}

// TestLooksBeforeItRepeats: a post without an answer is looked for four times over
// ten seconds, and only then made again.
func TestLooksBeforeItRepeats(t *testing.T) {
	inBubble(t, func(method string, n int) *http.Response {
		switch {
		case method == "chat.postMessage" && n == 0:
			return answer(http.StatusBadGateway, "", 0)
		case method == "conversations.history":
			return answer(http.StatusOK, `{"ok":true,"messages":[]}`, 0)
		}
		return nil
	}, func(t *testing.T, b *box, desk *desk, w *wire, start time.Time) {
		run := sampleRun()
		desk.set(run)
		b.queue(dryRunDelivery(run))
		time.Sleep(time.Minute)
		assert.Equal(t, []time.Duration{0, 10 * time.Second}, w.times("chat.postMessage", start))
		assert.Equal(t, []time.Duration{2500 * time.Millisecond, 5 * time.Second, 7500 * time.Millisecond, 10 * time.Second, 10 * time.Second},
			w.times("conversations.history", start), "the last one looks for a late copy")
	})
}

// TestRefreshesArePaced: a message is refreshed at most once a second, an urgent
// refresh goes out at once.
func TestRefreshesArePaced(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *box, desk *desk, w *wire, start time.Time) {
		run := sampleRun()
		show := func(urgent bool) {
			run.Len++
			desk.set(run)
			d := runCardDelivery(run)
			d.Urgent = urgent
			b.queue(d)
			synctest.Wait()
		}
		show(false)
		for range 10 { // within one second
			show(false)
			time.Sleep(100 * time.Millisecond)
		}
		assert.LessOrEqual(t, len(w.times("chat.update", start)), 2)
		time.Sleep(5 * time.Second)
		assert.Equal(t, run.Len, b.row(run.ID+"/card").Sent, "the newest state is shown in the end")
		before := len(w.times("chat.update", start))
		show(false)
		show(true)
		assert.Len(t, w.times("chat.update", start), before+2, "urgent does not wait")
	})
}

// TestManyRefreshesKeepABudget: a hundred changing cards stay below Slack's limit.
func TestManyRefreshesKeepABudget(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *box, desk *desk, w *wire, start time.Time) {
		for round := range 2 {
			for i := range 100 {
				run := sampleRun()
				run.ID, run.Len = fmt.Sprintf("run-%d", i), 5+round
				run.Channel = fmt.Sprintf("C%d", i)
				desk.set(run)
				b.queue(runCardDelivery(run))
			}
			time.Sleep(10 * time.Second)
		}
		time.Sleep(49 * time.Second)
		assert.Len(t, w.times("chat.update", start), updatesPerMinute, "in the first minute")
		time.Sleep(5 * time.Minute)
		assert.Len(t, w.times("chat.update", start), 100, "all in the end")
	})
}

// TestPutOffWithGrowingPauses: a request that cannot be answered is tried after 1,
// 2, 4, 8, 8 … seconds and refused after two minutes.
func TestPutOffWithGrowingPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t)
		d := newDesk(b)
		start := time.Now()
		var tries []time.Duration
		d.onStart = func(blastdoor.StartRequest) error {
			tries = append(tries, time.Since(start))
			return blastdoor.Errorf(blastdoor.ErrUnavailable, "the environment is away")
		}
		p := newProcessor(Options{Now: time.Now, Logger: slog.New(slog.DiscardHandler), Timing: Timing{}.withDefaults(),
			Operator: d, Runs: d, Shelf: d, Inbox: b})
		p.settled = func() {}
		payload, err := json.Marshal(request{Slash: &slashRequest{Text: "run x", UserID: slacksim.Alice, TeamID: "T", Channel: "C1"}})
		require.NoError(t, err)
		_, err = b.Accept(t.Context(), blastdoor.InboxItem{ID: "x", Kind: slashKind, Payload: payload, ReceivedAt: time.Now()})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { p.run(ctx); close(done) }()
		time.Sleep(5 * time.Minute)
		cancel()
		<-done
		require.True(t, b.isSettled("x"))
		require.Greater(t, len(tries), 6)
		assert.Equal(t, []time.Duration{0, 1 * time.Second, 3 * time.Second, 7 * time.Second, 15 * time.Second, 23 * time.Second}, tries[:6])
		assert.InDelta(t, 2*time.Minute, tries[len(tries)-1], float64(9*time.Second))
		assert.Contains(t, string(b.row("reply-x").Body), "The environment is away")
	})
}

// stale is an inbox that is read just as a request is being answered: the request
// is still in the list when the list comes back.
type stale struct {
	*box
	during func()
}

func (s *stale) PendingInbox(ctx context.Context) ([]blastdoor.InboxItem, error) {
	items, err := s.box.PendingInbox(ctx)
	if s.during != nil && len(items) > 0 {
		s.during()
	}
	return items, err
}

// TestAnsweredOnce, even when the inbox is read while the answer is being settled.
func TestAnsweredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t)
		d := newDesk(b)
		gate := make(chan struct{})
		d.onStart = func(blastdoor.StartRequest) error { <-gate; return nil }
		inbox := &stale{box: b}
		p := newProcessor(Options{Now: time.Now, Logger: slog.New(slog.DiscardHandler), Timing: Timing{}.withDefaults(),
			Operator: d, Runs: d, Shelf: d, Inbox: inbox})
		p.settled = func() {}
		payload, err := json.Marshal(request{Slash: &slashRequest{Text: "run x", UserID: slacksim.Alice, TeamID: "T", Channel: "C1"}})
		require.NoError(t, err)
		_, err = b.Accept(t.Context(), blastdoor.InboxItem{ID: "x", Kind: slashKind, Payload: payload, ReceivedAt: time.Now()})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { p.run(ctx); close(done) }()
		synctest.Wait() // the request is under way
		inbox.during = sync.OnceFunc(func() { close(gate); synctest.Wait() })
		poke(p.wake)
		time.Sleep(time.Minute)
		cancel()
		<-done
		require.True(t, b.isSettled("x"))
		require.Len(t, d.started(), 1)
	})
}
