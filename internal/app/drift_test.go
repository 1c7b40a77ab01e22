package app_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"blastdoor"
	"blastdoor/chat/slacksim"
	"blastdoor/simenv"
)

// TestTheWorldMovesAfterTheQuestion: the approval of a plan that no longer fits is
// void; a new question is asked, and only its answer counts.
func TestTheWorldMovesAfterTheQuestion(t *testing.T) {
	t.Parallel()
	h := newHouse(t, setup{})
	id := h.run("alice", "drain-host-a")
	old := h.card(id)
	h.world(func(ctx context.Context, env *simenv.Env) error {
		return env.AddDependency(ctx, "metrics-agent", simenv.Dependency{Name: "db", Kind: blastdoor.Calls})
	})
	h.click("bob", old, "approve")
	card := h.sees("a new question", func(m slacksim.Message) bool { return m.HasButton("approve") && m.TS != old.TS })
	require.Contains(t, read(card), "affects 9 services")
	require.Contains(t, read(card), "metrics-agent")
	require.Contains(t, read(card), "(no. 2)")
	require.Empty(t, h.becomes(old, "Superseded").Buttons())
	require.Zero(t, h.effects())

	h.refused("carol", old, blastdoor.RefusedStaleCard)
	h.refused("alice", card, blastdoor.RefusedSelfApproval)
	require.Zero(t, h.effects())
	h.click("bob", card, "approve")
	h.ends(id, "Completed")
	require.Equal(t, 1, h.effects())
	require.Equal(t, 2, h.state(id).Steps[0].Plans)
}

// TestAnotherWorldUnderTheSameVerdict: the plan is what was approved, not the
// verdict on it. Somebody has scaled the target meanwhile; the reasons to ask are
// the same as before, and the answer given does not count.
func TestAnotherWorldUnderTheSameVerdict(t *testing.T) {
	t.Parallel()
	h := newHouse(t, setup{})
	id := h.run("alice", "restart-cache")
	old := h.card(id)
	first := h.state(id).Steps[0]
	h.world(func(ctx context.Context, env *simenv.Env) error { return env.SetReplicas(ctx, "cache", 1) })
	h.click("bob", old, "approve")
	card := h.sees("a new question", func(m slacksim.Message) bool { return m.HasButton("approve") && m.TS != old.TS })
	require.Zero(t, h.effects())
	second := h.state(id).Steps[0]
	require.Equal(t, first.Verdict, second.Verdict)
	require.NotEqual(t, first.PlanHash, second.PlanHash)
	require.NotEqual(t, first.Approval.ID, second.Approval.ID)
	h.click("carol", card, "approve")
	h.ends(id, "Completed")
	require.Equal(t, 1, h.effects())
}

// TestAMetricIsNoDrift: what only ticks does not void an approval.
func TestAMetricIsNoDrift(t *testing.T) {
	t.Parallel()
	h := newHouse(t, setup{})
	id := h.run("alice", "restart-cache")
	card := h.card(id)
	h.world(func(ctx context.Context, env *simenv.Env) error { return env.SetMetric(ctx, "cache", "cpu_pct", 99) })
	h.click("bob", card, "approve")
	h.ends(id, "Completed")
	require.Equal(t, 1, h.state(id).Steps[0].Plans)
	require.Equal(t, 1, h.effects())
}

// TestAProtectionAddedSince asks again, though the changes are the same.
func TestAProtectionAddedSince(t *testing.T) {
	t.Parallel()
	h := newHouse(t, setup{})
	id := h.run("alice", "restart-cache")
	old := h.card(id)
	h.world(func(ctx context.Context, env *simenv.Env) error { return env.SetProtected(ctx, "worker", true) })
	h.click("bob", old, "approve")
	card := h.sees("a new question", func(m slacksim.Message) bool { return m.HasButton("approve") && m.TS != old.TS })
	require.Contains(t, read(card), "worker is protected")
	h.click("carol", card, "decline")
	h.ends(id, "Declined")
	require.Zero(t, h.effects())
}

// TestAFreezeBegunSince stops a write that has been approved: the freeze is on
// something that the write would shake, not on its target.
func TestAFreezeBegunSince(t *testing.T) {
	t.Parallel()
	h := newHouse(t, setup{runbooks: true})
	id := h.run("alice", "restart-cache")
	card := h.card(id)
	h.rewrite("policy.yaml", "freezes: []", "freezes:\n  - {name: sale, reason: a busy day, names: [web], from: 2000-01-01T00:00:00Z, until: 2999-01-01T00:00:00Z}")
	h.click("bob", card, "approve")
	h.ends(id, "Denied")
	require.Empty(t, h.becomes(card, "change_freeze", "sale").Buttons())
	require.Zero(t, h.effects())

	// The control: without the freeze the same run is only asked about.
	h.rewrite("policy.yaml", "names: [web]", "names: [metrics-agent]")
	id = h.run("alice", "restart-cache")
	h.click("bob", h.card(id), "approve")
	h.ends(id, "Completed")
	require.Equal(t, 1, h.effects())
}

// TestAStricterPolicySince: the stricter of then and now counts, for the approvers
// as for their number.
func TestAStricterPolicySince(t *testing.T) {
	t.Parallel()
	h := newHouse(t, setup{runbooks: true})
	id := h.run("alice", "restart-cache")
	card := h.card(id)
	h.rewrite("policy.yaml", "groups: [S0SRE]", "users: [U0CAROL]")
	h.refused("bob", card, blastdoor.RefusedNotAnApprover)
	h.rewrite("policy.yaml", "users: [U0CAROL]", "users: [U0MALLORY]")
	h.refused("mallory", card, blastdoor.RefusedNotAnApprover) // a name added since does not count either
	h.rewrite("policy.yaml", "users: [U0MALLORY]", "users: []")
	h.refused("carol", card, blastdoor.RefusedNotAnApprover) // an empty list is nobody
	require.Zero(t, h.effects())
	h.rewrite("policy.yaml", "users: []", "users: [U0CAROL]")
	h.click("carol", card, "approve")
	h.ends(id, "Completed")
	require.Equal(t, 1, h.effects())
}

// TestABrokenPolicy: without rules nothing is decided and nothing begins; with the
// rules back, the same click counts.
func TestABrokenPolicy(t *testing.T) {
	t.Parallel()
	h := newHouse(t, setup{runbooks: true, asleep: true})
	h.conf.Timing.GiveUp = 100 * time.Millisecond // how long a click waits for an edit to be done
	h.start()
	id := h.run("alice", "restart-cache")
	card := h.card(id)
	before := h.state(id)
	h.rewrite("policy.yaml", "max_affected: 10 ", "max_afected: 10 ")
	h.hears("bob", []string{"The policy cannot be read"}, func() { h.click("bob", card, "approve") })
	h.hears("alice", []string{"max_affected", "invalid_policy"}, func() { h.slash("alice", "/runbook run restart-cache") })
	require.Equal(t, before, h.state(id), "the click is not recorded as a vote")
	require.Equal(t, 1, h.counts().Runs)
	require.Zero(t, h.effects())
	h.rewrite("policy.yaml", "max_afected: 10 ", "max_affected: 10 ")
	h.click("bob", card, "approve")
	h.ends(id, "Completed")
	require.Equal(t, 1, h.effects())
}

// TestAClickWaitsForThePolicy: a click that meets a policy in the middle of an edit
// counts once the edit is done.
func TestAClickWaitsForThePolicy(t *testing.T) {
	t.Parallel()
	h := newHouse(t, setup{runbooks: true})
	id := h.run("alice", "restart-cache")
	card := h.card(id)
	h.rewrite("policy.yaml", "max_affected: 10 ", "max_afected: 10 ")
	h.click("bob", card, "approve")
	require.Zero(t, h.effects())
	h.rewrite("policy.yaml", "max_afected: 10 ", "max_affected: 10 ")
	h.ends(id, "Completed")
	require.Equal(t, 1, h.effects())
}

// TestARunbookEditedSince: a run keeps the steps it began with.
func TestARunbookEditedSince(t *testing.T) {
	t.Parallel()
	h := newHouse(t, setup{runbooks: true})
	id := h.run("alice", "restart-cache")
	card := h.card(id)
	h.rewrite("restart-cache.yaml", "service: cache", "service: db")
	h.click("bob", card, "approve")
	h.ends(id, "Completed")
	h.world(func(ctx context.Context, env *simenv.Env) error {
		ledger, err := env.Ledger(ctx)
		require.Len(t, ledger, 1)
		require.Equal(t, "cache", ledger[0].Params["service"], "what was asked and approved is what is written")
		return err
	})
}
