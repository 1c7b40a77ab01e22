package slacksim_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/slack-go/slack"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"blastdoor/chat/slacksim"
)

const postMessage = "chat.postMessage"

// Each fault as the real client sees it, and whether the message was posted all the same.
func TestFaults(t *testing.T) {
	rows := []struct {
		name   string
		fault  slacksim.Fault
		posted int
		check  func(t *testing.T, err error)
	}{
		{"cut before commit", slacksim.Fault{Kind: slacksim.CutBeforeCommit}, 0, isTransport},
		{"cut after commit", slacksim.Fault{Kind: slacksim.CutAfterCommit}, 1, isTransport},
		{"status 503", slacksim.Fault{Kind: slacksim.Status, Status: 503}, 0, hasStatus(503)},
		{"rate limited", slacksim.Fault{Kind: slacksim.RateLimited, RetryAfter: 7 * time.Second}, 0, func(t *testing.T, err error) {
			var limited *slack.RateLimitedError
			require.ErrorAs(t, err, &limited)
			assert.Equal(t, 7*time.Second, limited.RetryAfter)
		}},
		{"rate limited, no header", slacksim.Fault{Kind: slacksim.RateLimitedNoHeader}, 0, hasStatus(http.StatusTooManyRequests)},
		{"ok but rate limited", slacksim.Fault{Kind: slacksim.OKRateLimited}, 0, func(t *testing.T, err error) { refused(t, "ratelimited", err) }},
		{"error before commit", slacksim.Fault{Kind: slacksim.ErrorBeforeCommit}, 0, func(t *testing.T, err error) { refused(t, "internal_error", err) }},
		{"error after commit", slacksim.Fault{Kind: slacksim.ErrorAfterCommit, Error: "fatal_error"}, 1, func(t *testing.T, err error) { refused(t, "fatal_error", err) }},
		{"slow", slacksim.Fault{Kind: slacksim.Slow, Delay: time.Millisecond}, 1, func(t *testing.T, err error) { assert.NoError(t, err) }},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			ws := start(t, slacksim.Options{})
			api := client(t, ws)
			row.fault.Method = postMessage
			ws.Inject(row.fault)
			_, _, err := api.PostMessage(slacksim.Ops, text("x"))
			row.check(t, err)
			assert.Len(t, ws.Messages("ops"), row.posted)
			_, _, err = api.PostMessage(slacksim.Ops, text("y"))
			require.NoError(t, err, "the fault fires once")
			calls := ws.Calls(postMessage)
			require.Len(t, calls, 2)
			assert.False(t, calls[0].OK())
			assert.Contains(t, calls[0].Outcome, row.fault.Kind.String())
			assert.True(t, calls[1].OK())
		})
	}
}

func isTransport(t *testing.T, err error) {
	require.Error(t, err)
	var refusal slack.SlackErrorResponse
	assert.NotErrorAs(t, err, &refusal, "the client cannot know what happened")
}

func hasStatus(code int) func(*testing.T, error) {
	return func(t *testing.T, err error) {
		var status slack.StatusCodeError
		require.ErrorAs(t, err, &status)
		assert.Equal(t, code, status.Code)
	}
}

func TestFaultTimesSkipAndMatch(t *testing.T) {
	ws := start(t, slacksim.Options{})
	api := client(t, ws)
	posts := func(channel string) bool {
		_, _, err := api.PostMessage(channel, text("x"))
		return err == nil
	}
	ws.Inject(slacksim.Fault{Method: postMessage, Kind: slacksim.ErrorBeforeCommit, Times: 2, Skip: 1})
	assert.Equal(t, []bool{true, false, false, true}, []bool{posts(slacksim.Ops), posts(slacksim.Ops), posts(slacksim.Ops), posts(slacksim.Ops)})

	ws.Inject(slacksim.Fault{Method: "*", Kind: slacksim.ErrorBeforeCommit, Times: -1,
		Match: func(a map[string]string) bool { return a["channel"] == slacksim.General }})
	assert.Equal(t, []bool{true, false, false}, []bool{posts(slacksim.Ops), posts(slacksim.General), posts(slacksim.General)})
	ws.ClearFaults()
	assert.True(t, posts(slacksim.General))
}

// A call that its caller has given up lands all the same, late: the third way for a write to go wrong.
func TestSlowCallLandsLate(t *testing.T) {
	ws := start(t, slacksim.Options{})
	api := client(t, ws)
	gate, reached := make(chan struct{}), make(chan struct{}, 1)
	ws.Inject(slacksim.Fault{Method: postMessage, Kind: slacksim.Slow, Gate: gate, Reached: reached})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, _, err := api.PostMessageContext(ctx, slacksim.Ops, text("late"))
		done <- err
	}()
	<-reached
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	assert.Empty(t, ws.Messages("ops"))
	close(gate)
	m, err := ws.WaitMessage(patience(t), "ops", nil)
	require.NoError(t, err)
	assert.Equal(t, "late", m.Text)
}

func TestCloseReleasesAHeldCall(t *testing.T) {
	ws := start(t, slacksim.Options{})
	api := client(t, ws)
	reached := make(chan struct{}, 1)
	ws.Inject(slacksim.Fault{Method: postMessage, Kind: slacksim.Slow, Gate: make(chan struct{}), Reached: reached})
	done := make(chan error, 1)
	go func() {
		_, _, err := api.PostMessage(slacksim.Ops, text("x"))
		done <- err
	}()
	<-reached
	ws.Close()
	ws.Close() // twice is safe
	assert.Error(t, <-done)
	assert.ErrorIs(t, ws.WaitConnected(patience(t)), slacksim.ErrClosed)
}

func TestWaitingEndsWithItsContext(t *testing.T) {
	ws := start(t, slacksim.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := ws.WaitMessage(ctx, "ops", nil)
	assert.ErrorIs(t, err, context.Canceled)
	assert.ErrorContains(t, err, "waiting for a message in ops")
}

func TestResponseURLFaults(t *testing.T) {
	ws := start(t, slacksim.Options{})
	b := runBot(t, ws, ackAll)
	_, err := ws.As("alice").Slash("ops", "/runbook list")
	require.NoError(t, err)
	cmd, ok := b.next(t).Data.(slack.SlashCommand)
	require.True(t, ok)
	respond := func() error {
		_, _, err := client(t, ws).PostMessage(slacksim.Ops, text("x"), slack.MsgOptionResponseURL(cmd.ResponseURL, slack.ResponseTypeEphemeral))
		return err
	}
	ws.Inject(slacksim.Fault{Method: "response_url", Kind: slacksim.CutBeforeCommit})
	assert.Error(t, respond())
	assert.Empty(t, ws.Ephemerals("alice"))
	ws.Inject(slacksim.Fault{Method: "response_url", Kind: slacksim.CutAfterCommit})
	assert.Error(t, respond())
	assert.Len(t, ws.Ephemerals("alice"), 1)
}
