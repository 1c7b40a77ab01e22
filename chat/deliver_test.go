package chat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slack-go/slack"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"blastdoor"
	"blastdoor/chat/slacksim"
)

func runCardDelivery(run blastdoor.Run) blastdoor.Delivery {
	return blastdoor.Delivery{ID: run.ID + "/card", RunID: run.ID, Kind: blastdoor.RunCard, Channel: run.Channel, Want: run.Len, CreatedAt: time.Now()}
}

// delivered waits until the delivery is posted and up to date.
func (b *bench) delivered(id string) boxRow {
	b.t.Helper()
	b.box.await(id+" to be delivered", func() bool {
		row := b.box.rows[id]
		return row.TS != "" && row.Sent >= row.Want
	})
	return b.box.row(id)
}

// cards counts the live messages of the bot at the top level of a channel.
func (b *bench) cards() []slacksim.Message {
	return slices.DeleteFunc(b.ws.Messages("ops"), func(m slacksim.Message) bool { return m.Tombstone || m.IsReply() })
}

func TestPostThenUpdate(t *testing.T) {
	b := newBench(t, slacksim.Options{})
	b.start()
	run := sampleRun()
	b.desk.set(run)
	b.box.queue(runCardDelivery(run), dryRunDelivery(run))
	card, dry := b.delivered(run.ID+"/card"), b.delivered(run.ID+"/drain/plan-1")
	done := sampleStates()["applied"]
	b.desk.set(done)
	b.box.queue(runCardDelivery(done), dryRunDelivery(done))
	assert.Equal(t, card.TS, b.delivered(run.ID+"/card").TS, "updated in place")
	assert.Equal(t, dry.TS, b.delivered(run.ID+"/drain/plan-1").TS)
	require.Len(t, b.cards(), 2)
	m, err := b.ws.Message("ops", dry.TS)
	require.NoError(t, err)
	assert.Empty(t, m.Buttons(), "buttons are gone after the decision")
	assert.Contains(t, slacksim.PlainText(m), "Approved by @bob")
	assert.Equal(t, stampType, m.Metadata.EventType, "the stamp survives an update")
}

// TestRadiusListHangsInTheThread, whole, under the run card.
func TestRadiusListHangsInTheThread(t *testing.T) {
	b := newBench(t, slacksim.Options{})
	run := sampleRun()
	widen(run.Steps[0].Plan, 500)
	b.desk.set(run)
	b.box.queue(runCardDelivery(run), dryRunDelivery(run), blastdoor.Delivery{ID: "list", RunID: run.ID, Kind: blastdoor.RadiusList,
		StepID: "drain", PlanNo: 1, Channel: run.Channel, Thread: run.ID + "/card", Want: 1, CreatedAt: time.Now()})
	b.start()
	list := b.delivered("list")
	m, err := b.ws.Message("ops", list.TS)
	require.NoError(t, err)
	assert.Equal(t, b.box.row(run.ID+"/card").TS, m.ThreadTS)
	assert.Contains(t, string(m.Blocks), "service-0497")
}

// TestOneCardWhateverHappens: the post is cut after Slack has taken it, the answer
// is lost in other ways, or recording it fails. One card hangs there in the end.
func TestOneCardWhateverHappens(t *testing.T) {
	for name, fault := range map[string]slacksim.Fault{
		"cut after commit":                   {Kind: slacksim.CutAfterCommit},
		"cut before commit":                  {Kind: slacksim.CutBeforeCommit},
		"internal_error, but it happened":    {Kind: slacksim.ErrorAfterCommit, Error: "internal_error"},
		"internal_error, and it did not":     {Kind: slacksim.ErrorBeforeCommit, Error: "internal_error"},
		"fatal_error, but it happened":       {Kind: slacksim.ErrorAfterCommit, Error: "fatal_error"},
		"503":                                {Kind: slacksim.Status, Status: 503},
		"200 with ratelimited, not happened": {Kind: slacksim.RateLimited, RetryAfter: time.Second},
		"the answer could not be recorded":   {},
		"cut twice":                          {Kind: slacksim.CutAfterCommit, Times: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, slacksim.Options{})
			if fault.Kind != 0 {
				fault.Method = "chat.postMessage"
				b.ws.Inject(fault)
			} else {
				b.box.record = errors.New("disk full")
			}
			b.start()
			run := sampleRun()
			b.desk.set(run)
			b.box.queue(dryRunDelivery(run))
			row := b.delivered(run.ID + "/drain/plan-1")
			require.Len(t, b.cards(), 1)
			assert.Equal(t, b.cards()[0].TS, row.TS, "the recorded address is that of the card")
		})
	}
}

// TestRepostWithoutLookingMakesTwo is the negative control: without the open
// attempt nothing is looked for, and a second card appears.
func TestRepostWithoutLookingMakesTwo(t *testing.T) {
	b := newBench(t, slacksim.Options{})
	b.ws.Inject(slacksim.Fault{Method: "chat.postMessage", Kind: slacksim.CutAfterCommit})
	run := sampleRun()
	b.desk.set(run)
	b.opts.Outbox = forgetful{b.box}
	b.start()
	b.box.queue(dryRunDelivery(run))
	b.delivered(run.ID + "/drain/plan-1")
	require.Len(t, b.cards(), 2)
}

// forgetful is an outbox that keeps no doubt.
type forgetful struct{ *box }

func (f forgetful) Retry(ctx context.Context, id string, at time.Time, reason string, _ bool) error {
	return f.box.Retry(ctx, id, at, reason, false)
}

// TestCrashBetweenPostAndRecord: the process dies after the post. The next one finds
// the open attempt in the store and the message in the history.
func TestCrashBetweenPostAndRecord(t *testing.T) {
	b := newBench(t, slacksim.Options{})
	run := sampleRun()
	b.desk.set(run)
	b.box.record = errors.New("killed")
	b.opts.Timing.Again = time.Hour // the first process never gets to a second try
	b.start()
	b.box.queue(dryRunDelivery(run))
	b.sees("the card", func(m slacksim.Message) bool { return m.HasButton(approveAction) })
	b.box.await("the failed recording", func() bool { return b.box.record == nil })
	require.NoError(t, b.stop())
	require.Empty(t, b.box.row(run.ID+"/drain/plan-1").TS)
	require.False(t, b.box.row(run.ID+"/drain/plan-1").AttemptAt.IsZero(), "the attempt is open")

	b.opts.Timing = quick()
	b.start()
	row := b.delivered(run.ID + "/drain/plan-1")
	require.Len(t, b.cards(), 1)
	assert.Equal(t, b.cards()[0].TS, row.TS)
	assert.Len(t, b.ws.Calls("chat.postMessage"), 1)
}

// TestLateCopyIsNeutralised: the first post shows up in the history only after a
// second one was made. Only the recorded one stays.
func TestLateCopyIsNeutralised(t *testing.T) {
	b := newBench(t, slacksim.Options{})
	run := sampleRun()
	b.desk.set(run)
	b.ws.Inject(slacksim.Fault{Method: "chat.postMessage", Kind: slacksim.CutAfterCommit})
	b.ws.SetHistoryLag(time.Hour)
	// The second post ends the lag: the sweep after it sees both.
	b.desk.set(run)
	gate := make(chan struct{})
	b.ws.Inject(slacksim.Fault{Method: "chat.postMessage", Kind: slacksim.Slow, Gate: gate})
	b.start()
	b.box.queue(dryRunDelivery(run))
	b.box.await("the second attempt", func() bool {
		n := 0
		for _, line := range b.box.log {
			if strings.HasPrefix(line, "begin") {
				n++
			}
		}
		return n == 2
	})
	b.ws.SetHistoryLag(0)
	close(gate)
	row := b.delivered(run.ID + "/drain/plan-1")
	require.Len(t, b.ws.Calls("chat.postMessage"), 2)
	require.Len(t, b.cards(), 1)
	assert.Equal(t, row.TS, b.cards()[0].TS)
}

// TestForgedStampIsNotAdopted: metadata is visible to everybody, so a message is
// ours only with our code over delivery, run and channel, and from our bot.
func TestForgedStampIsNotAdopted(t *testing.T) {
	d := &deliverer{key: bytes.Repeat([]byte("k"), 32), self: installation{BotID: "B1", BotUserID: "UBOT"}}
	row := blastdoor.OutboxRow{Delivery: blastdoor.Delivery{ID: "d", RunID: "r", Channel: "C1"}}
	message := func(change func(*slack.Message)) *slack.Message {
		m := &slack.Message{}
		m.BotID, m.User, m.Metadata = "B1", "UBOT", d.stamp(row)
		change(m)
		return m
	}
	require.True(t, d.isOurs(message(func(*slack.Message) {}), row)) // control
	other := &deliverer{key: bytes.Repeat([]byte("x"), 32)}
	elsewhere := row
	elsewhere.Channel = "C2"
	for name, change := range map[string]func(*slack.Message){
		"another bot":      func(m *slack.Message) { m.BotID, m.User = "B2", "UEVIL" },
		"another key":      func(m *slack.Message) { m.Metadata = other.stamp(row) },
		"another channel":  func(m *slack.Message) { m.Metadata = d.stamp(elsewhere) },
		"another delivery": func(m *slack.Message) { m.Metadata.EventPayload["delivery_id"] = "e" },
		"no code":          func(m *slack.Message) { delete(m.Metadata.EventPayload, "mac") },
		"another type":     func(m *slack.Message) { m.Metadata.EventType = "x" },
		"nothing":          func(m *slack.Message) { m.Metadata = slack.SlackMetadata{} },
	} {
		assert.False(t, d.isOurs(message(change), row), name)
	}
}

func TestRateLimits(t *testing.T) {
	for name, tc := range map[string]struct {
		fault slacksim.Fault
		wait  time.Duration
	}{
		"with Retry-After":    {slacksim.Fault{Kind: slacksim.RateLimited, RetryAfter: 7 * time.Second}, 7 * time.Second},
		"without Retry-After": {slacksim.Fault{Kind: slacksim.RateLimitedNoHeader}, 30 * time.Second},
		"200 with an error":   {slacksim.Fault{Kind: slacksim.OKRateLimited}, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, slacksim.Options{})
			tc.fault.Method = "chat.postMessage"
			b.ws.Inject(tc.fault)
			b.start()
			run := sampleRun()
			b.desk.set(run)
			before := time.Now()
			b.box.queue(dryRunDelivery(run))
			b.box.await("the delay", func() bool { return !b.box.rows[run.ID+"/drain/plan-1"].NotBefore.IsZero() })
			row := b.box.row(run.ID + "/drain/plan-1")
			assert.WithinRange(t, row.NotBefore, before.Add(tc.wait), time.Now().Add(tc.wait))
			assert.True(t, row.AttemptAt.IsZero(), "for certain nothing was posted")
			assert.Empty(t, row.dead, "an approval is never dropped for a limit")
			// Another delivery in the same lane waits as well, and is not tried.
			b.box.queue(runCardDelivery(run))
			assert.Len(t, b.ws.Calls("chat.postMessage"), 1)
		})
	}
}

// TestCannotPost: the card is given up with its reason, and the requester is told.
func TestCannotPost(t *testing.T) {
	b := newBench(t, slacksim.Options{})
	b.start()
	run := sampleRun()
	run.Channel = slacksim.Secret // without the bot
	b.desk.set(run)
	d := dryRunDelivery(run)
	out := b.slash("alice", "/runbook run x")
	b.box.await("the start", func() bool { return b.box.settled["slash-"+out.TriggerID] })
	d.ResponseURL = b.desk.started()[0].ResponseURL
	b.box.queue(d)
	b.box.await("the card to be given up", func() bool { return b.box.rows[d.ID].dead != "" })
	assert.Contains(t, []string{"not_in_channel", "channel_not_found"}, b.box.row(d.ID).dead)
	b.hears("alice", "Invite Blast Door to the channel")
	assert.Contains(t, b.log.String(), "delivery dropped")

	d.ID, d.ResponseURL = "another", "" // without a response URL: a direct message
	b.box.queue(d)
	b.box.await("the card to be given up", func() bool { return b.box.rows[d.ID].dead != "" })
	calls := b.ws.Calls("chat.postMessage")
	last := calls[len(calls)-1]
	assert.True(t, last.OK())
	assert.True(t, strings.HasPrefix(last.Args["channel"], "D"), last.Args["channel"])
	assert.Contains(t, last.Args["text"], "cannot be posted")
}

// TestTooBigForSlack: when Slack refuses a card that passed our check, a small one
// without buttons takes its place.
func TestTooBigForSlack(t *testing.T) {
	b := newBench(t, slacksim.Options{})
	b.ws.Inject(slacksim.Fault{Method: "chat.postMessage", Kind: slacksim.ErrorBeforeCommit, Error: "msg_blocks_too_long"})
	b.ws.Inject(slacksim.Fault{Method: "chat.update", Kind: slacksim.ErrorBeforeCommit, Error: "msg_too_long"})
	b.start()
	run := sampleRun()
	b.desk.set(run)
	b.box.queue(dryRunDelivery(run))
	row := b.delivered(run.ID + "/drain/plan-1")
	m, err := b.ws.Message("ops", row.TS)
	require.NoError(t, err)
	assert.Contains(t, slacksim.PlainText(m), "could not be shown in full")
	assert.Empty(t, m.Buttons())
	run.Len++
	b.desk.set(run)
	b.box.queue(dryRunDelivery(run))
	assert.Equal(t, row.TS, b.delivered(run.ID+"/drain/plan-1").TS)
	require.Len(t, b.cards(), 1)
}

// TestDeletedCardIsPostedAnew, and its new address is recorded.
func TestDeletedCardIsPostedAnew(t *testing.T) {
	b := newBench(t, slacksim.Options{})
	b.start()
	card := b.post(t)
	b.delivered("drain-host-a-1/drain/plan-1")
	api := slack.New(b.ws.BotToken(), slack.OptionAPIURL(b.ws.APIURL()))
	_, _, err := api.DeleteMessage(card.Channel, card.TS)
	require.NoError(t, err)
	run := sampleRun()
	run.Len++
	b.desk.set(run)
	b.box.queue(dryRunDelivery(run))
	row := b.delivered(run.ID + "/drain/plan-1")
	assert.NotEqual(t, card.TS, row.TS)
	require.Len(t, b.cards(), 1)
}

func TestPrivateAnswers(t *testing.T) {
	var evil atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { evil.Add(1) }))
	defer srv.Close()
	b := newBench(t, slacksim.Options{})
	b.start()
	out := b.slash("alice", "/runbook run x")
	b.box.await("the start", func() bool { return b.box.settled["slash-"+out.TriggerID] })
	good := b.desk.started()[0].ResponseURL
	answer := func(id, url string, age time.Duration) blastdoor.Delivery {
		body, err := json.Marshal(plainly(markup("answer " + id)))
		require.NoError(t, err)
		return blastdoor.Delivery{ID: id, Kind: blastdoor.ReplyMsg, Channel: slacksim.Ops, User: slacksim.Alice, Body: body,
			ResponseURL: url, CreatedAt: time.Now().Add(-age)}
	}
	b.box.queue(answer("one", good, 0))
	b.hears("alice", "answer one")
	require.Empty(t, b.ws.Calls("chat.postEphemeral"))

	b.box.queue(answer("two", good, 26*time.Minute)) // the URL may have run out
	b.hears("alice", "answer two")
	b.box.queue(answer("three", srv.URL+"/hook", 0)) // not Slack's host
	b.hears("alice", "answer three")
	b.box.queue(answer("four", "", 0))
	b.hears("alice", "answer four")
	b.ws.Inject(slacksim.Fault{Method: "response_url", Kind: slacksim.Status, Status: 404})
	b.box.queue(answer("five", good, 0)) // used up
	b.hears("alice", "answer five")
	require.Len(t, b.ws.Calls("chat.postEphemeral"), 4)
	assert.Zero(t, evil.Load(), "no word goes to a foreign host")

	b.box.queue(answer("six", good, 31*time.Minute))
	b.box.await("the old answer to be dropped", func() bool { return b.box.rows["six"].dead != "" })
	b.box.queue(blastdoor.Delivery{ID: "seven", Kind: blastdoor.NoticeMsg, Channel: slacksim.Ops, User: slacksim.Alice, Want: 1, CreatedAt: time.Now(),
		Notice: &blastdoor.Notice{Code: string(blastdoor.RefusedSelfApproval), RunID: "r"}})
	b.hears("alice", "you asked for this run yourself")
	b.delivered("seven")
	for _, secret := range []string{good, b.ws.BotToken(), b.ws.AppToken()} {
		assert.NotContains(t, b.log.String(), secret, "secrets are not logged")
	}
}

func TestMayRespondTo(t *testing.T) {
	w, err := newWeb("xoxb", "xapp", "http://127.0.0.1:9/api/")
	require.NoError(t, err)
	for url, want := range map[string]bool{
		"https://hooks.slack.com/commands/x": true, "https://slack.com/x": true, "http://127.0.0.1:9/hook": true,
		"http://hooks.slack.com/x": false, "https://hooks.slack.com.evil.example/x": false, "https://evilslack.com/x": false,
		"https://user@hooks.slack.com/x": false, "https://hooks.slack.com:8443/x": false, "http://127.0.0.1:10/hook": false,
		"https://127.0.0.1:9/hook": false, "": false, "::": false,
	} {
		assert.Equal(t, want, w.mayRespondTo(url), url)
	}
	require.ErrorContains(t, w.respond(t.Context(), "http://127.0.0.1:10/hook", plainly("x")), "the host is not Slack's")
}

// TestDue: urgent messages are held back only by Slack's own word, others by the
// pace as well.
func TestDue(t *testing.T) {
	now := at(0)
	d := &deliverer{lanes: map[lane]*laneState{}, memory: map[string]memory{}}
	row := blastdoor.OutboxRow{Delivery: blastdoor.Delivery{ID: "d", Channel: "C"}, TS: "1.1"}
	free := &laneState{}
	assert.False(t, d.due(row, free).After(now))
	d.memory["d"] = memory{refreshed: now}
	assert.Equal(t, now.Add(updatePause), d.due(row, free), "one refresh a second for one message")
	urgent := row
	urgent.Urgent = true
	assert.False(t, d.due(urgent, free).After(now))
	for i := range updatesPerMinute {
		d.refresh = append(d.refresh, now.Add(time.Duration(i)*time.Second))
	}
	assert.Equal(t, now.Add(time.Minute), d.due(row, free), "the budget of the workspace is used up")
	assert.False(t, d.due(urgent, free).After(now), "what is kept back is for the urgent")
	d.lanes[lane{"chat.update", ""}] = &laneState{until: now.Add(time.Hour)}
	assert.Equal(t, now.Add(time.Hour), d.due(urgent, free), "Slack's word holds for all")
	fresh := blastdoor.OutboxRow{Delivery: blastdoor.Delivery{ID: "e", Channel: "C"}, NotBefore: now.Add(time.Second)}
	assert.Equal(t, now.Add(time.Second), d.due(fresh, free), "a post is not held back by refreshes")
	assert.Equal(t, now.Add(time.Minute), d.due(fresh, &laneState{until: now.Add(time.Minute)}))
}

// TestNewestStateWins: many changes while an update is under way end in the newest
// state, with few calls.
func TestNewestStateWins(t *testing.T) {
	b := newBench(t, slacksim.Options{})
	b.start()
	run := sampleRun()
	b.desk.set(run)
	b.box.queue(runCardDelivery(run))
	b.delivered(run.ID + "/card")
	gate, reached := make(chan struct{}), make(chan struct{}, 1)
	b.ws.Inject(slacksim.Fault{Method: "chat.update", Kind: slacksim.Slow, Gate: gate, Reached: reached})
	for i := range 50 {
		next := sampleStates()["applied"]
		next.Len = 10 + i
		b.desk.set(next)
		d := runCardDelivery(next)
		d.Urgent = true
		b.box.queue(d)
		if i == 0 {
			<-reached
		}
	}
	close(gate)
	row := b.delivered(run.ID + "/card")
	assert.Equal(t, 59, row.Sent)
	assert.LessOrEqual(t, len(b.ws.Calls("chat.update")), 3)
}

func TestJudge(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want fate
	}{
		{&slack.RateLimitedError{RetryAfter: time.Second}, throttled},
		{slack.StatusCodeError{Code: 429}, throttled},
		{slack.SlackErrorResponse{Err: "ratelimited"}, throttled},
		{slack.StatusCodeError{Code: 500}, inDoubt},
		{slack.StatusCodeError{Code: 404}, refused},
		{slack.SlackErrorResponse{Err: "internal_error"}, inDoubt},
		{slack.SlackErrorResponse{Err: "fatal_error"}, inDoubt},
		{slack.SlackErrorResponse{Err: "request_timeout"}, inDoubt},
		{slack.SlackErrorResponse{Err: "channel_not_found"}, refused},
		{slack.SlackErrorResponse{Err: "not_in_channel"}, refused},
		{slack.SlackErrorResponse{Err: "is_archived"}, refused},
		{slack.SlackErrorResponse{Err: "msg_too_long"}, refused},
		{errors.New("unexpected EOF"), inDoubt},
	} {
		got, _, word := judge(tc.err)
		assert.Equal(t, tc.want, got, "%v", tc.err)
		assert.NotEmpty(t, word)
	}
	api := slack.New("x", slack.OptionAPIURL("http://127.0.0.1:1/"))
	_, _, err := api.PostMessage("C", slack.MsgOptionText("x", false))
	got, _, _ := judge(err)
	assert.Equal(t, notDone, got, "a connection that was never made carried nothing")
}
