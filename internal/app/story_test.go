package app_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"blastdoor"
	"blastdoor/chat/slacksim"
	"blastdoor/simenv"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestStory is the main job: Alice asks, six people may not approve, Bob may, and
// the write happens once. What everybody read is in a golden file.
func TestStory(t *testing.T) {
	t.Parallel()
	h := newHouse(t, setup{})
	id := h.run("alice", "drain-host-a")
	card := h.card(id)
	text := read(card)
	for _, words := range []string{"affects 8 services", "2 directly", "cache, db", "api, auth-svc, batch-report, search, web, worker",
		"auth-svc, db", "Needs approval", "blast_radius_over_threshold", "protected_resource", "host-a schedulable", "sha256:", "[Approve]", "[Decline]"} {
		require.Contains(t, text, words)
	}
	before := h.state(id)
	for _, c := range []struct {
		who  string
		code blastdoor.RefusalCode
	}{{"alice", blastdoor.RefusedSelfApproval}, {"mallory", blastdoor.RefusedNotAnApprover}, {"gina", blastdoor.RefusedGuest},
		{"uma", blastdoor.RefusedGuest}, {"erin", blastdoor.RefusedExternalUser}} {
		h.hears(c.who, []string{string(c.code), "did not count", id}, func() { h.click(c.who, card, "approve") })
		require.Zero(t, h.effects(), "%s clicked", c.who)
	}
	after := h.state(id)
	require.Equal(t, 5, after.Refusals)
	require.Equal(t, before.Steps, after.Steps, "a refused click changes nothing but the count")
	require.Zero(t, h.public("did not count"), "refusals are private")

	h.click("bob", card, "approve")
	h.ends(id, "Completed")
	decided := h.becomes(card, "Approved by @bob", "Applied")
	require.Empty(t, decided.Buttons())
	require.Equal(t, 1, h.effects())
	require.Equal(t, 1, h.public("Dry run: drain-host-a"))
	require.Equal(t, 1, h.public("Run: drain-host-a"))
	h.world(func(ctx context.Context, env *simenv.Env) error {
		services, err := env.Services(ctx)
		require.False(t, slices.ContainsFunc(services, func(s simenv.ServiceState) bool { return s.Host == "host-a" }))
		return err
	})
	h.hears("alice", []string{id, "completed"}, func() { h.slash("alice", "/runbook status") })
	h.hears("alice", []string{"Approved by @bob", "effect-1"}, func() { h.slash("alice", "/runbook status "+id) })
	h.golden("story.golden")
}

// golden compares everything that people read with a file. Ids, hashes and times
// differ each time and are replaced.
func (h *house) golden(name string) {
	h.t.Helper()
	var b strings.Builder
	texts := []string{}
	for _, m := range h.ws.Messages("ops") {
		texts = append(texts, slacksim.PlainText(m))
	}
	slices.Sort(texts) // the two cards are posted in either order
	for _, person := range everyone {
		for _, m := range h.ws.Ephemerals(person) {
			texts = append(texts, "("+person+" alone reads)\n"+slacksim.PlainText(m))
		}
	}
	for _, text := range texts {
		b.WriteString(normal(text) + "\n")
	}
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(h.t, os.MkdirAll("testdata", 0o755))
		require.NoError(h.t, os.WriteFile(path, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(h.t, err)
	require.Equal(h.t, string(want), b.String())
}

func normal(text string) string {
	for _, r := range []struct{ pattern, name string }{
		{`sha256:[0-9a-f]{64}`, "sha256:HASH"}, {`sha256:[0-9a-f]+`, "HASH"}, {"`[0-9a-f]{8}`", "`HASH`"}, {`ap-[0-9a-f]{20}`, "ap-ID"},
		{`\b(drain-host-a)-[a-z2-7]{8}\b`, "$1-ID"}, {`bd1-[0-9a-f]+`, "KEY"}, {`\d{4}-\d\d-\d\d`, "DATE"}, {`\d\d:\d\d(:\d\d)?`, "TIME"},
	} {
		text = regexp.MustCompile(r.pattern).ReplaceAllString(text, r.name)
	}
	return text
}

// TestBeingInTheGroupIsNotEnough puts everybody who may not approve into the group
// of approvers: each is refused for what they are, and a member who has joined the
// group since the question is refused no more.
func TestBeingInTheGroupIsNotEnough(t *testing.T) {
	t.Parallel()
	h := newHouse(t, setup{})
	id := h.run("alice", "restart-cache")
	card := h.card(id)
	h.refused("mallory", card, blastdoor.RefusedNotAnApprover)
	require.NoError(t, h.ws.ChangeGroup("sre", func(g *slacksim.Group) {
		g.Members = []string{slacksim.Alice, slacksim.Mallory, slacksim.Gina, slacksim.Uma, slacksim.Erin, slacksim.Dora, slacksim.Ivan,
			slacksim.OtherBot, slacksim.BotUserID, slacksim.Slackbot, slacksim.Carol}
	}))
	require.NoError(t, h.ws.Deactivate("carol"))
	for _, c := range []struct {
		who  string
		code blastdoor.RefusalCode
	}{{"alice", blastdoor.RefusedSelfApproval}, {"gina", blastdoor.RefusedGuest}, {"uma", blastdoor.RefusedGuest}, {"erin", blastdoor.RefusedExternalUser},
		{"dora", blastdoor.RefusedInactiveUser}, {"carol", blastdoor.RefusedInactiveUser}, {"ivan", blastdoor.RefusedInactiveUser},
		{"deploybot", blastdoor.RefusedBotUser}, {"runbook", blastdoor.RefusedBotUser}, {"slackbot", blastdoor.RefusedBotUser}} {
		h.refused(c.who, card, c.code)
	}
	h.refused("bob", card, blastdoor.RefusedNotAnApprover) // he has left it since
	require.Zero(t, h.effects())
	require.Equal(t, blastdoor.StatusWaiting, h.state(id).Steps[0].Status)
	h.click("mallory", card, "approve") // the control: nothing else stands against her
	h.ends(id, "Completed")
	require.Equal(t, 1, h.effects())
}

func TestDecline(t *testing.T) {
	t.Parallel()
	h := newHouse(t, setup{})
	id := h.run("alice", "restart-cache")
	card := h.card(id)
	h.hears("mallory", []string{"not_an_approver"}, func() { h.click("mallory", card, "decline") })
	h.click("carol", card, "decline")
	h.ends(id, "Declined")
	require.Empty(t, h.becomes(card, "Declined by @carol").Buttons())
	h.sees("alice is told", func(m slacksim.Message) bool {
		return m.IsReply() && holds(read(m), []string{"@alice", "Declined", "Nothing was written"})
	})
	h.refused("bob", card, blastdoor.RefusedNotPending)
	require.Zero(t, h.effects())
}

func TestTheRequesterTakesItBack(t *testing.T) {
	t.Parallel()
	h := newHouse(t, setup{})
	id := h.run("alice", "restart-cache")
	card := h.card(id)
	h.click("alice", card, "decline")
	h.ends(id, "Cancelled")
	require.Empty(t, h.becomes(card, "Cancelled").Buttons())
	h.refused("bob", card, blastdoor.RefusedNotPending)

	id = h.run("alice", "restart-cache")
	card = h.card(id)
	h.hears("mallory", []string{"Only the person who asked", "Decline"}, func() { h.slash("mallory", "/runbook cancel "+id) })
	h.hears("alice", []string{"cancelled", id}, func() { h.slash("alice", "/runbook cancel "+id) })
	h.ends(id, "Cancelled")
	require.Empty(t, h.becomes(card, "Cancelled").Buttons())
	h.refused("bob", card, blastdoor.RefusedNotPending)
	h.hears("alice", []string{"already ended"}, func() { h.slash("alice", "/runbook cancel "+id) })
	require.Zero(t, h.effects())
}

// TestAnApprovalExpires: the clock ends a question, also while the bot is down.
func TestAnApprovalExpires(t *testing.T) {
	t.Parallel()
	h := newHouse(t, setup{})
	id := h.run("alice", "restart-cache")
	card := h.card(id)
	h.later(16 * time.Minute) // the timer of the bot has not gone off; the click is too late all the same
	h.refused("bob", card, blastdoor.RefusedExpired)
	h.restart()
	h.ends(id, "Expired")
	require.Empty(t, h.becomes(card, "expired").Buttons())
	require.Zero(t, h.effects())
}

// TestTwoClicksAtOnce: of approvals that arrive together one counts, and one write
// follows.
func TestTwoClicksAtOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t, setup{})
	id := h.run("alice", "restart-cache")
	card := h.card(id)
	clicks := make(chan error, 6)
	for i := range cap(clicks) {
		who := []string{"bob", "carol"}[i%2]
		go func() {
			_, err := h.ws.As(who).ForceClick(card, "approve", nil)
			clicks <- err
		}()
	}
	for range cap(clicks) {
		require.NoError(t, <-clicks)
	}
	h.ends(id, "Completed")
	require.NoError(t, h.await("five refusals", func() bool { return len(h.ws.Ephemerals("bob"))+len(h.ws.Ephemerals("carol")) == 5 }))
	require.Equal(t, 1, h.effects())
	require.Len(t, h.state(id).Steps[0].Approval.Votes, 1)
	require.Equal(t, 5, h.state(id).Refusals)
	h.refused("bob", card, blastdoor.RefusedNotPending)
}

// await looks after every change of the workspace.
func (h *house) await(what string, look func() bool) error {
	ctx := h.ctx()
	for {
		changed := h.ws.Changed()
		if look() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return &blastdoor.Error{Code: blastdoor.ErrUnavailable, Msg: "waiting for " + what, Err: ctx.Err()}
		}
	}
}
