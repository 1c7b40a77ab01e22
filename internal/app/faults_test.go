package app_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // a test holds the log's file as another program would

	"blastdoor"
	"blastdoor/chat/slacksim"
	"blastdoor/engine"
)

// deliveryIs fits the posting of one delivery of a run, such as "/card".
func deliveryIs(suffix string) func(map[string]string) bool {
	return func(args map[string]string) bool { return strings.Contains(args["metadata"], suffix+`"`) }
}

// TestSlackFailsWhileACardIsPosted: whatever becomes of a post, one card hangs in
// the channel in the end, and it can be answered.
func TestSlackFailsWhileACardIsPosted(t *testing.T) {
	for _, delivery := range []string{"/card", "/plan-1"} {
		for _, c := range []struct {
			name  string
			fault slacksim.Fault
			pause time.Duration // before the next try, when it is long: the bot then sleeps through it
		}{
			{"cut before commit", slacksim.Fault{Kind: slacksim.CutBeforeCommit}, 0},
			{"cut after commit", slacksim.Fault{Kind: slacksim.CutAfterCommit}, 0},
			{"cut after commit twice", slacksim.Fault{Kind: slacksim.CutAfterCommit, Times: 2}, 0},
			{"an error after commit", slacksim.Fault{Kind: slacksim.ErrorAfterCommit}, 0},
			{"server error", slacksim.Fault{Kind: slacksim.Status, Status: 503}, 0},
			{"rate limited", slacksim.Fault{Kind: slacksim.RateLimited, RetryAfter: time.Second}, 0},
			{"rate limited for long", slacksim.Fault{Kind: slacksim.RateLimited, RetryAfter: 5 * time.Minute}, 5 * time.Minute},
			{"rate limited without a time", slacksim.Fault{Kind: slacksim.RateLimitedNoHeader}, 30 * time.Second},
			{"rate limited with status 200", slacksim.Fault{Kind: slacksim.OKRateLimited}, 30 * time.Second},
		} {
			t.Run(c.name+" of "+delivery, func(t *testing.T) {
				t.Parallel()
				h := newHouse(t, setup{})
				reached := make(chan struct{}, 2)
				c.fault.Method, c.fault.Match, c.fault.Reached = "chat.postMessage", deliveryIs(delivery), reached
				h.ws.Inject(c.fault)
				id := h.run("alice", "restart-cache")
				h.meets(reached)
				if c.pause > 0 {
					h.stop()
					h.later(c.pause)
					h.start()
				}
				card := h.card(id)
				h.click("bob", card, "approve")
				h.ends(id, "Completed")
				require.Equal(t, 1, h.public("Run: restart-cache"))
				require.Equal(t, 1, h.public("Dry run: restart-cache"))
				require.Equal(t, 1, h.effects())
			})
		}
	}
}

// meets waits until a call meets a fault.
func (h *house) meets(reached <-chan struct{}) {
	h.t.Helper()
	select {
	case <-reached:
	case <-h.ctx().Done():
		h.t.Fatal("the fault did not strike")
	}
}

// TestWhoIsClickingIsNotKnown: while Slack does not say who somebody is, they are
// nobody. They are told, and may click again.
func TestWhoIsClickingIsNotKnown(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault slacksim.Fault
	}{
		{"users.info answers with an error", slacksim.Fault{Method: "users.info", Kind: slacksim.ErrorBeforeCommit}},
		{"users.info is cut", slacksim.Fault{Method: "users.info", Kind: slacksim.CutBeforeCommit}},
		{"users.info fails", slacksim.Fault{Method: "users.info", Kind: slacksim.Status, Status: 500}},
		{"users.info is rate limited", slacksim.Fault{Method: "users.info", Kind: slacksim.RateLimited, RetryAfter: time.Second}},
		{"the group cannot be read", slacksim.Fault{Method: "usergroups.users.list", Kind: slacksim.ErrorBeforeCommit}},
		{"the group's answer is cut", slacksim.Fault{Method: "usergroups.users.list", Kind: slacksim.CutAfterCommit}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, setup{})
			id := h.run("alice", "restart-cache")
			card := h.card(id)
			c.fault.Times = -1
			h.ws.Inject(c.fault)
			h.hears("bob", []string{string(blastdoor.RefusedUnverifiedIdentity), "Click again"}, func() { h.click("bob", card, "approve") })
			require.Equal(t, blastdoor.StatusWaiting, h.state(id).Steps[0].Status)
			require.Zero(t, h.effects())
			h.ws.ClearFaults()
			h.click("bob", card, "approve")
			h.ends(id, "Completed")
			require.Equal(t, 1, h.effects())
		})
	}
}

// TestTheSocketDropsInTheMiddleOfAClick: a click that was acknowledged counts,
// whatever becomes of the socket, and it counts once.
func TestTheSocketDropsInTheMiddleOfAClick(t *testing.T) {
	t.Parallel()
	h := newHouse(t, setup{})
	id := h.run("alice", "restart-cache")
	card := h.card(id)
	gate, reached := make(chan struct{}), make(chan struct{}, 1)
	h.ws.Inject(slacksim.Fault{Method: "users.info", Kind: slacksim.Slow, Gate: gate, Reached: reached})
	h.click("bob", card, "approve")
	h.meets(reached)
	h.ws.DropSockets()
	require.Zero(t, h.effects())
	close(gate)
	h.ends(id, "Completed")
	require.NoError(t, h.ws.WaitConnected(h.ctx()))
	h.refused("bob", card, blastdoor.RefusedNotPending)
	require.Equal(t, 1, h.effects())
}

// TestTheAckOfAClickIsLost: Bob sees a warning and clicks again; the first click
// was stored, and one of the two counts.
func TestTheAckOfAClickIsLost(t *testing.T) {
	t.Parallel()
	h := newHouse(t, setup{slack: slacksim.Options{AckDeadline: 500 * time.Millisecond}})
	id := h.run("alice", "restart-cache")
	card := h.card(id)
	h.ws.Inject(slacksim.Fault{Method: "ack", Kind: slacksim.LoseAck})
	out, err := h.ws.As("bob").Click(card, "approve")
	require.NoError(t, err)
	require.Equal(t, slacksim.OperationTimeout, out.Status)
	h.ends(id, "Completed")
	h.refused("bob", card, blastdoor.RefusedNotPending)
	require.Equal(t, 1, h.effects())
}

// TestWhatIsNotStoredIsNotAcknowledged: while the log cannot be written, the person
// sees that the command was not taken.
func TestWhatIsNotStoredIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	h := newHouse(t, setup{slack: slacksim.Options{AckDeadline: 500 * time.Millisecond}})
	db, err := sql.Open("sqlite", h.conf.Files.Store())
	require.NoError(t, err)
	other, err := db.Conn(h.ctx())
	require.NoError(t, err)
	_, err = other.ExecContext(h.ctx(), "BEGIN IMMEDIATE") // some other program holds the file
	require.NoError(t, err)
	out, err := h.ws.As("alice").Slash("ops", "/runbook run restart-cache")
	require.NoError(t, err)
	require.Equal(t, slacksim.OperationTimeout, out.Status)
	_, err = other.ExecContext(h.ctx(), "ROLLBACK")
	require.NoError(t, err)
	require.NoError(t, errors.Join(other.Close(), db.Close()))
	h.card(h.run("alice", "restart-cache"))
}

// TestTheSameRequestTwice: Slack has been seen to deliver an envelope twice.
func TestTheSameRequestTwice(t *testing.T) {
	t.Parallel()
	h := newHouse(t, setup{})
	asked := h.slash("alice", "/runbook run restart-cache")
	id := engine.RunID("restart-cache", "slash-"+asked.TriggerID)
	card := h.card(id)
	again, err := h.ws.Redeliver(asked.EnvelopeID)
	require.NoError(t, err)
	require.Equal(t, slacksim.Acked, again.Status)
	out, err := h.ws.As("bob").Click(card, "approve")
	require.NoError(t, err)
	h.ends(id, "Completed")
	again, err = h.ws.Redeliver(out.EnvelopeID)
	require.NoError(t, err)
	require.Equal(t, slacksim.Acked, again.Status)
	h.restart()
	again, err = h.ws.Redeliver(out.EnvelopeID)
	require.NoError(t, err)
	require.Equal(t, slacksim.Acked, again.Status)
	require.Equal(t, 1, h.counts().Runs)
	require.Equal(t, 1, h.effects())
	require.Zero(t, h.state(id).Refusals)
	require.Empty(t, h.ws.Ephemerals("bob"))
}

// TestSlackRefusesTheToken ends the bot with a message that says what to do.
func TestSlackRefusesTheToken(t *testing.T) {
	t.Parallel()
	h := newHouse(t, setup{})
	h.ws.RefuseTokens("token_revoked")
	h.ws.DropSockets()
	err := h.ended()
	require.ErrorContains(t, err, "reinstall the app and copy the new one")
}

// TestWhereTheBotIsNotInvited: the card cannot be posted there, and the person who
// asked hears it all the same.
func TestWhereTheBotIsNotInvited(t *testing.T) {
	h := newHouse(t, setup{})
	h.hears("alice", []string{"cannot be posted", "Invite Blast Door"}, func() {
		outcome, err := h.ws.As("alice").Slash("secret", "/runbook run restart-cache")
		require.NoError(t, err)
		require.Equal(t, slacksim.Acked, outcome.Status)
	})
}
