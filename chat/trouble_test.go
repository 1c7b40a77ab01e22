package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"blastdoor"
	"blastdoor/chat/slacksim"
)

// TestUnshowableCardIsReplaced: a card that cannot be rendered is not left out; a
// small one without buttons says so.
func TestUnshowableCardIsReplaced(t *testing.T) {
	b := newBench(t, slacksim.Options{})
	b.start()
	run := sampleRun()
	b.desk.set(run)
	d := dryRunDelivery(run)
	d.StepID = "no such step"
	b.box.queue(d)
	m, err := b.ws.Message("ops", b.delivered(d.ID).TS)
	require.NoError(t, err)
	assert.Contains(t, slacksim.PlainText(m), "could not be shown in full")
	assert.Empty(t, m.Buttons())
	assert.Contains(t, b.log.String(), "no such step")
}

// TestReplyInThreadIsFoundAgain: a reply of unknown outcome is looked for in its
// thread, not in the channel.
func TestReplyInThreadIsFoundAgain(t *testing.T) {
	b := newBench(t, slacksim.Options{})
	b.start()
	run := sampleRun()
	b.desk.set(run)
	b.box.queue(runCardDelivery(run))
	card := b.delivered(run.ID + "/card")
	b.ws.Inject(slacksim.Fault{Method: "chat.postMessage", Kind: slacksim.CutAfterCommit})
	b.box.queue(blastdoor.Delivery{ID: "list", RunID: run.ID, Kind: blastdoor.RadiusList, StepID: "drain", PlanNo: 1,
		Channel: run.Channel, Thread: run.ID + "/card", Want: 1, CreatedAt: time.Now()})
	list := b.delivered("list")
	replies := slices.DeleteFunc(b.ws.Messages("ops"), func(m slacksim.Message) bool { return m.ThreadTS != card.TS || !m.IsReply() })
	require.Len(t, replies, 1)
	assert.Equal(t, list.TS, replies[0].TS)
}

// TestWithoutTheRightToReadHistory an approval still goes out: looking is given up
// and the card is posted again.
func TestWithoutTheRightToReadHistory(t *testing.T) {
	b := newBench(t, slacksim.Options{})
	b.ws.SetScopes("commands", "chat:write", "users:read")
	b.ws.Inject(slacksim.Fault{Method: "chat.postMessage", Kind: slacksim.CutBeforeCommit})
	b.start()
	run := sampleRun()
	b.desk.set(run)
	b.box.queue(dryRunDelivery(run))
	b.delivered(run.ID + "/drain/plan-1")
	require.Len(t, b.cards(), 1)
	assert.Contains(t, b.log.String(), "missing_scope")
}

// TestHistoryIsReadToTheEnd, page by page; a history too long to read is no proof
// that the message is not there.
func TestHistoryIsReadToTheEnd(t *testing.T) {
	pages := 3
	var stamp func() string
	plan := func(method string, n int) *http.Response {
		switch {
		case method == "chat.postMessage" && n == 0:
			return answer(http.StatusBadGateway, "", 0)
		case method == "conversations.history" && n%maxPages < pages-1:
			return answer(http.StatusOK, `{"ok":true,"has_more":true,"response_metadata":{"next_cursor":"c"},"messages":[{"ts":"1.1","bot_id":"B1"}]}`, 0)
		case method == "conversations.history":
			return answer(http.StatusOK, `{"ok":true,"messages":[`+stamp()+`]}`, 0)
		}
		return nil
	}
	test := func(t *testing.T, b *box, desk *desk, w *wire, start time.Time) {
		run := sampleRun()
		desk.set(run)
		d := dryRunDelivery(run)
		send := &deliverer{key: []byte(strings.Repeat("k", 32))}
		meta, err := json.Marshal(send.stamp(blastdoor.OutboxRow{Delivery: d}))
		require.NoError(t, err)
		stamp = func() string {
			return fmt.Sprintf(`{"ts":"9.000009","bot_id":"B1","metadata":%s},{"ts":"9.000005","bot_id":"B1","metadata":%s}`, meta, meta)
		}
		b.queue(d)
		time.Sleep(20 * time.Second)
		if pages > maxPages {
			assert.Empty(t, b.row(d.ID).TS)
			assert.Len(t, w.times("chat.postMessage", start), 1, "not posted again without proof")
			return
		}
		assert.Equal(t, "9.000005", b.row(d.ID).TS, "the earliest copy is adopted")
		assert.Len(t, w.times("chat.delete", start), 1, "and the other deleted")
		assert.Len(t, w.times("chat.postMessage", start), 1)
	}
	inBubble(t, plan, test)
	pages = maxPages + 1
	inBubble(t, plan, test)
}

// faulty is an outbox that cannot be written.
type faulty struct{ *box }

func (faulty) Retry(context.Context, string, time.Time, string, bool) error {
	return errors.New("disk full")
}
func (faulty) BeginAttempt(context.Context, string, time.Time) error { return errors.New("disk full") }

// TestBrokenOutboxIsNoBusyLoop: and nothing is posted that could not be recorded.
func TestBrokenOutboxIsNoBusyLoop(t *testing.T) {
	b := newBench(t, slacksim.Options{})
	b.opts.Outbox = faulty{b.box}
	b.opts.Timing.Again = 50 * time.Millisecond
	b.start()
	run := sampleRun()
	b.desk.set(run)
	b.box.queue(dryRunDelivery(run))
	require.Eventually(t, func() bool { return strings.Count(b.log.String(), "delivery put off") >= 3 }, 10*time.Second, 5*time.Millisecond)
	require.NoError(t, b.stop())
	assert.Less(t, strings.Count(b.log.String(), "delivery put off"), 20)
	assert.Empty(t, b.ws.Calls("chat.postMessage"))
}

// lazy is an inbox whose settling fails at first.
type lazy struct {
	*box
	fails atomic.Int32
}

func (l *lazy) Settle(ctx context.Context, id string, ds []blastdoor.Delivery) error {
	if l.fails.Add(1) <= 2 {
		return errors.New("disk full")
	}
	return l.box.Settle(ctx, id, ds)
}

func TestSettlingIsTriedAgain(t *testing.T) {
	b := newBench(t, slacksim.Options{})
	b.opts.Inbox = &lazy{box: b.box}
	b.start()
	b.slash("alice", "/runbook help")
	b.hears("alice", "/runbook plan NAME")
	assert.Equal(t, 2, strings.Count(b.log.String(), "closing a request"))
	require.Len(t, b.ws.Ephemerals("alice"), 1)
}

// TestRedirectedAnswerGoesNowhere: a response URL that redirects does not carry the
// answer to another host.
func TestRedirectedAnswerGoesNowhere(t *testing.T) {
	var reached atomic.Int32
	evil := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer evil.Close()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, evil.URL, http.StatusTemporaryRedirect)
	}))
	defer srv.Close()
	w, err := newWeb("xoxb", "xapp", srv.URL+"/api/")
	require.NoError(t, err)
	err = w.respond(t.Context(), srv.URL+"/hook/secret-part", plainly("hello"))
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "secret-part")
	assert.Zero(t, reached.Load())
	srv.Close()
	err = w.respond(t.Context(), srv.URL+"/hook/secret-part", plainly("hello"))
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "secret-part", "the URL is a secret, even in errors")
}

// TestChannelGone: an update that can never succeed is given up with its reason.
func TestChannelGone(t *testing.T) {
	b := newBench(t, slacksim.Options{})
	b.start()
	run := sampleRun()
	b.desk.set(run)
	b.box.queue(runCardDelivery(run))
	b.delivered(run.ID + "/card")
	require.NoError(t, b.ws.ChangeChannel("ops", func(c *slacksim.Channel) { c.Archived = true }))
	run.Len++
	b.desk.set(run)
	b.box.queue(runCardDelivery(run))
	b.box.await("the card to be given up", func() bool { return b.box.rows[run.ID+"/card"].dead != "" })
	assert.Equal(t, "is_archived", b.box.row(run.ID+"/card").dead)
}

// TestRunWithoutRecord: a card of a run that nobody knows is given up; one whose run
// cannot be read just now is not.
func TestRunWithoutRecord(t *testing.T) {
	b := newBench(t, slacksim.Options{})
	b.start()
	run := sampleRun()
	b.box.queue(runCardDelivery(run))
	b.box.await("the card to be given up", func() bool { return b.box.rows[run.ID+"/card"].dead != "" })

	away := &absent{desk: b.desk}
	away.gone.Store(true)
	require.NoError(t, b.stop())
	b.opts.Runs = away
	b.start()
	b.desk.set(run)
	b.box.queue(dryRunDelivery(run))
	b.box.await("the card to be put off", func() bool { return len(b.box.rows[run.ID+"/drain/plan-1"].reasons) > 0 })
	away.gone.Store(false)
	b.delivered(run.ID + "/drain/plan-1")
}

// absent is a source of runs that cannot be read for a while.
type absent struct {
	*desk
	gone atomic.Bool
}

func (a *absent) Run(ctx context.Context, id string) (blastdoor.Run, error) {
	if a.gone.Load() {
		return blastdoor.Run{}, errors.New("the disk is away")
	}
	return a.desk.Run(ctx, id)
}
