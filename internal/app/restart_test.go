package app_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"blastdoor"
	"blastdoor/chat/slacksim"
	"blastdoor/store"
)

// TestStoppedBetweenAllSteps stops the bot and starts it again after each thing
// that anybody does, as soon as it was acknowledged. The story ends the same.
func TestStoppedBetweenAllSteps(t *testing.T) {
	t.Parallel()
	h := newHouse(t, setup{})
	id := h.run("alice", "drain-host-a")
	h.restart()
	card := h.card(id)
	h.restart()
	h.hears("alice", []string{string(blastdoor.RefusedSelfApproval)}, func() {
		h.click("alice", card, "approve")
		h.restart()
	})
	h.restart()
	require.Zero(t, h.effects())
	h.click("bob", card, "approve")
	h.restart()
	h.ends(id, "Completed")
	require.Empty(t, h.becomes(card, "Approved by @bob", "Applied").Buttons())
	h.restart()
	h.refused("carol", card, blastdoor.RefusedNotPending)
	h.restart()
	h.hears("alice", []string{"Completed"}, func() { h.slash("alice", "/runbook status "+id) })
	require.Equal(t, 1, h.effects())
	require.Equal(t, 1, h.public("Run: drain-host-a"))
	require.Equal(t, 1, h.public("Dry run: drain-host-a"))
}

// TestAskedWhileTheBotIsDown: nobody is told that something was accepted.
func TestAskedWhileTheBotIsDown(t *testing.T) {
	t.Parallel()
	h := newHouse(t, setup{})
	id := h.run("alice", "restart-cache")
	card := h.card(id)
	h.stop()
	require.NoError(t, h.ws.WaitConnections(h.ctx(), 0))
	out, err := h.ws.As("bob").Click(card, "approve")
	require.NoError(t, err)
	require.Equal(t, slacksim.DispatchFailed, out.Status)
	out, err = h.ws.As("alice").Slash("ops", "/runbook run scale-auth")
	require.NoError(t, err)
	require.Equal(t, slacksim.DispatchFailed, out.Status)
	h.start()
	require.Equal(t, 1, h.counts().Runs)
	require.Equal(t, blastdoor.StatusWaiting, h.state(id).Steps[0].Status)
	h.click("bob", card, "approve")
	h.ends(id, "Completed")
	require.Equal(t, 1, h.effects())
}

// TestTheHeadIsSigned after each decision and at the end, and it covers all.
func TestTheHeadIsSigned(t *testing.T) {
	t.Parallel()
	h := newHouse(t, setup{})
	id := h.run("alice", "restart-cache")
	h.click("bob", h.card(id), "approve")
	h.ends(id, "Completed")
	h.stop()
	require.Equal(t, 0, h.counts().Pending, "a stop delivers what is left")
	h.reads(func(ctx context.Context, s *store.Store) error {
		report, err := s.Verify(ctx, store.AuditOptions{})
		require.True(t, report.OK(), "%+v", report.Findings)
		require.GreaterOrEqual(t, report.Heads, 3) // the first, the decision's, the last
		return err
	})
}
