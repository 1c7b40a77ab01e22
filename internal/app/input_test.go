package app_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"blastdoor/chat/slacksim"
	"blastdoor/simenv"
)

// TestBadInput: each gets a private answer that says what would be right, and no
// run begins.
func TestBadInput(t *testing.T) {
	t.Parallel()
	h := newHouse(t, setup{})
	for _, c := range []struct {
		line  string
		words []string
	}{
		{"run ghost", []string{`no runbook "ghost"`, "the runbooks are", "drain-host-a"}},
		{"run drain-hots-a", []string{`no runbook "drain-hots-a"`, `did you mean "drain-host-a"?`}},
		{"rnu drain-host-a", []string{`no command "rnu"`, "did you mean", "run"}},
		{"drain-host-a", []string{"did you mean", "run drain-host-a"}},
		{"frobnicate", []string{`no command "frobnicate"`, "help, list, plan, run, status, cancel"}},
		{"run", []string{"Which runbook?", "run NAME"}},
		{"run drain-host", []string{"Host is missing", "drain-host takes host"}},
		{"run drain-host hots=host-a", []string{"hots", "host"}},
		{"run drain-host host-a", []string{"expected key=value"}},
		{"run drain-host host=host-a host=host-b", []string{"given twice"}},
		{`run drain-host host="web; rm -rf /"`, []string{"web; rm -rf /", "does not have the form"}},
		{"run drain-host host=$(reboot)", []string{"$(reboot)", "does not have the form"}},
		{"run drain-host host=`reboot`", []string{"reboot", "does not have the form"}},
		{"run drain-host host=../../etc/passwd", []string{"does not have the form"}},
		{`run drain-host host="host-a`, []string{"a quote is not closed"}},
		{"run drain-host host=" + strings.Repeat("a", 10_000), []string{"10,000 characters is too long", "at most 1,000"}},
		{"run " + strings.Repeat("a", 10_000), []string{"10,000 characters is too long"}},
		{"run drain-host-a " + strings.Repeat("a=1 ", 60), []string{"too many"}},
		{"run ../policy", []string{"no runbook"}},
		{"run policy", []string{"no runbook"}},
		{"plan ghost", []string{`no runbook "ghost"`}},
		{"status ../../x", []string{"is not the id of a run"}},
		{"status restart-cache-aaaaaaaa", []string{"no run"}},
		{"cancel", []string{"Which run?"}},
		{"cancel restart-cache-aaaaaaaa", []string{"no run"}},
	} {
		h.hears("alice", c.words, func() { h.slash("alice", "/runbook "+c.line) })
	}
	require.Zero(t, h.counts().Runs)
	require.Empty(t, h.ws.Messages("ops"), "every answer is private")
	require.NotContains(t, h.log.String(), "level=ERROR")
	require.Zero(t, h.effects())
}

// TestHostileTextIsShownAsText: what a person typed cannot mention, link, or call
// the channel when it is quoted back.
func TestHostileTextIsShownAsText(t *testing.T) {
	t.Parallel()
	h := newHouse(t, setup{})
	for _, text := range []string{"<!channel>", "<@U0BOB>", "<https://evil.example|host-a>", "*host-a*\u202e", "@bob"} {
		h.hears("alice", nil, func() { h.slash("alice", `/runbook run drain-host host="`+text+`"`) })
	}
	for _, m := range h.ws.Ephemerals("alice") {
		require.NotContains(t, string(m.Blocks), "<!channel")
		require.NotContains(t, string(m.Blocks), "<@U0BOB")
		require.NotContains(t, string(m.Blocks), "<https")
		require.NotContains(t, string(m.Blocks), "\u202e")
	}
	require.Zero(t, h.counts().Runs)
}

func TestWhatCommandsTell(t *testing.T) {
	t.Parallel()
	h := newHouse(t, setup{})
	h.hears("alice", []string{"/runbook run NAME", "cancel RUN"}, func() { h.slash("alice", "/runbook help") })
	h.hears("alice", []string{"/runbook run NAME"}, func() { h.slash("alice", "/runbook") })
	h.hears("alice", []string{"6 runbooks", "scale-db-to-zero", "host="}, func() { h.slash("alice", "/runbook list") })
	h.hears("alice", []string{"No runs in #ops yet"}, func() { h.slash("alice", "/runbook status") })
	h.hears("alice", []string{"nothing was written", "affects 8 services", "Needs approval"}, func() { h.slash("alice", "/runbook plan drain-host-a") })
	require.Zero(t, h.counts().Runs)
	require.Zero(t, h.effects())

	// A run of one channel is told to nobody in another, except its requester.
	id := h.run("alice", "restart-cache")
	h.card(id)
	elsewhere := func(who string) func() {
		return func() {
			_, err := h.ws.As(who).Slash("general", "/runbook status "+id)
			require.NoError(t, err)
		}
	}
	h.hears("mallory", []string{"no run"}, elsewhere("mallory"))
	h.hears("alice", []string{"Status: restart-cache"}, elsewhere("alice"))
}

// TestQuotesOfAPhone: what a keyboard makes of quotes is understood.
func TestQuotesOfAPhone(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"run drain-host host=“host-a”", "run drain-host host=‘host-a’", "run drain-host —host=host-a",
		"run\u00a0drain-host host＝host-a", "run drain-host host=\u200bhost-a"} {
		h := newHouse(t, setup{})
		h.slash("alice", "/runbook "+line)
		card := h.sees(line, func(m slacksim.Message) bool { return m.HasButton("approve") })
		require.Contains(t, read(card), "Draining host-a affects 8 services", line)
	}
}

// TestDenied: a run that the rules deny ends at once, says why, and asks nobody.
func TestDenied(t *testing.T) {
	t.Parallel()
	h := newHouse(t, setup{})
	id := h.run("alice", "scale-db-to-zero")
	h.ends(id, "Denied")
	card := h.sees("the dry run", func(m slacksim.Message) bool {
		return m.IsReply() && holds(read(m), []string{"Dry run: scale-db-to-zero", "scale_to_zero", "db replicas 3 → 0"})
	})
	require.Empty(t, card.Buttons())
	h.sees("alice is told", func(m slacksim.Message) bool {
		return m.IsReply() && holds(read(m), []string{"@alice", "Denied", "Nothing was written"})
	})

	// A channel that the policy does not list.
	_, err := h.ws.As("alice").Slash("general", "/runbook run restart-cache")
	require.NoError(t, err)
	_, err = h.ws.WaitMessage(h.ctx(), "general", func(m slacksim.Message) bool {
		return !m.IsReply() && holds(read(m), []string{"Run: restart-cache", "Denied", "channel_not_allowed"})
	})
	require.NoError(t, err)

	// Guests of the workspace are no members: they may not ask.
	id = h.run("gina", "restart-cache")
	h.ends(id, "Denied")
	require.Zero(t, h.effects())
}

func TestTheStrictPolicy(t *testing.T) {
	t.Parallel()
	h := newHouse(t, setup{asleep: true})
	h.conf.PolicyFile = "shipped:policy-strict.yaml"
	h.start()
	id := h.run("alice", "drain-host-a")
	h.ends(id, "Denied")
	h.sees("the reasons", func(m slacksim.Message) bool {
		return holds(read(m), []string{"Dry run: drain-host-a", "blast_radius_exceeded", "protected_resource"})
	})
	require.Zero(t, h.effects())
}

// TestFiveHundredAffected: a card has room for some names and a count; the full
// list is in the thread.
func TestFiveHundredAffected(t *testing.T) {
	t.Parallel()
	world := simenv.GenerateWorld(1, 500, 900)
	for i := range world.Services { // every dependency a call, so that breakage travels all the way
		for j := range world.Services[i].DependsOn {
			world.Services[i].DependsOn[j].Kind = "calls"
		}
	}
	h := newHouse(t, setup{world: &world, runbooks: true})
	h.rewrite("policy.yaml", "max_affected: 10 ", "max_affected: 1000 ")
	id := h.run("alice", "safe-restart service=svc-000000")
	card := h.card(id)
	require.Contains(t, read(card), "affects 500 services (1 directly)")
	require.Contains(t, read(card), "Dependents (499): ")
	require.Contains(t, read(card), "The full list is in the thread")
	require.NotContains(t, read(card), "svc-000499")
	list := h.sees("the full list", func(m slacksim.Message) bool { return m.IsReply() && holds(read(m), []string{"Dependents (499)"}) })
	for i := range 500 {
		require.Contains(t, read(list), fmt.Sprintf("svc-%06d", i))
	}
	h.click("bob", card, "approve")
	h.ends(id, "Completed")
	h.hears("alice", []string{"affects 500 services"}, func() { h.slash("alice", "/runbook status "+id) })
	h.world(func(ctx context.Context, env *simenv.Env) error {
		ledger, err := env.Ledger(ctx)
		require.Len(t, ledger, 1)
		return err
	})
}
