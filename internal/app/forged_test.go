package app_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"blastdoor"
	"blastdoor/chat/slacksim"
)

// set changes one value of a payload; the path leads through maps.
func set(value any, path ...string) func(map[string]any) {
	return func(payload map[string]any) {
		for _, key := range path[:len(path)-1] {
			payload = payload[key].(map[string]any)
		}
		payload[path[len(path)-1]] = value
	}
}

// value changes what the button says.
func value(v string) func(map[string]any) {
	return func(payload map[string]any) { payload["actions"].([]any)[0].(map[string]any)["value"] = v }
}

// TestForgedClicks: a payload that does not fit what is stored, or not the person
// it names, counts for nothing.
func TestForgedClicks(t *testing.T) {
	t.Parallel()
	h := newHouse(t, setup{})
	id := h.run("alice", "restart-cache")
	card := h.card(id)
	other := h.card(h.run("alice", "scale-auth"))
	said, err := h.ws.As("bob").Say("ops", "approve")
	require.NoError(t, err)
	approval := h.state(id).Steps[0].Approval
	button := func(run, ap, hash string) func(map[string]any) { return value("v1|" + run + "|" + ap + "|" + hash) }

	for _, c := range []struct {
		name   string
		change func(map[string]any)
		words  string
	}{
		{"a message the bot did not post", set(said.TS, "container", "message_ts"), "stale_card"},
		{"the card of another run", set(other.TS, "container", "message_ts"), "stale_card"},
		{"another channel", set(slacksim.General, "container", "channel_id"), "stale_card"},
		{"a person Slack does not know", set("U0NOBODY", "user", "id"), "unverified_identity"},
		{"an id that is none", set("U0BOB' OR 1", "user", "id"), "unverified_identity"},
		{"a team that is not the person's", set(slacksim.OtherTeamID, "user", "team_id"), "external_user"},
		{"no team at all", set("", "user", "team_id"), "unverified_identity"},
		{"another approval", button(id, "ap-00000000000000000000", approval.PlanHash), "stale_card"},
		{"another plan", button(id, approval.ID, blastdoor.DigestBytes([]byte("another plan"))), "plan_mismatch"},
		{"a run that does not exist", button("restart-cache-aaaaaaaa", approval.ID, approval.PlanHash), "no run"},
		{"a value of another program", value("approve"), "not one that Blast Door made"},
		{"a value that is too long", button(id, approval.ID, approval.PlanHash+string(make([]byte, 3000))), "not one that Blast Door made"},
	} {
		t.Log(c.name)
		h.hears("bob", []string{c.words}, func() { h.force("bob", card, "approve", c.change) })
		require.Equal(t, blastdoor.StatusWaiting, h.state(id).Steps[0].Status, c.name)
	}
	require.Zero(t, h.effects())
	h.click("bob", card, "approve") // the control: unchanged, the same click counts
	h.ends(id, "Completed")
	require.Equal(t, 1, h.effects())
}

// TestForeignEnvelopes are acknowledged, so that Slack does not send them again,
// and dropped: no answer, no record, nothing stored.
func TestForeignEnvelopes(t *testing.T) {
	t.Parallel()
	h := newHouse(t, setup{})
	id := h.run("alice", "restart-cache")
	card := h.card(id)
	require.NoError(t, h.await("the request to be settled", func() bool { return h.counts().Unsettled == 0 }))
	before := h.state(id)
	for _, c := range []struct {
		name   string
		change func(map[string]any)
	}{
		{"another app", set("A0OTHER", "api_app_id")},
		{"no app", set("", "api_app_id")},
		{"another team", set(slacksim.OtherTeamID, "team", "id")},
		{"no team", set(nil, "team")},
		{"another organisation", func(p map[string]any) {
			p["team"], p["enterprise"] = nil, map[string]any{"id": "E0OTHER"}
		}},
		{"no person", set("", "user", "id")},
		{"no message", set("", "container", "message_ts")},
		{"another button", func(p map[string]any) { p["actions"].([]any)[0].(map[string]any)["action_id"] = "approve_all" }},
		{"another kind", set("view_submission", "type")},
		{"actions of another form", set("approve", "actions")},
	} {
		h.force("bob", card, "approve", c.change)
		require.Zero(t, h.counts().Unsettled, c.name) // stored is what is acknowledged, and nothing was stored
	}
	require.Empty(t, h.ws.Ephemerals("bob"))
	require.Equal(t, before, h.state(id))

	payload := map[string]any{"command": "/runbook", "text": "run scale-auth", "team_id": slacksim.OtherTeamID, "api_app_id": slacksim.AppID,
		"user_id": slacksim.Bob, "channel_id": slacksim.Ops, "trigger_id": "1.1.a"}
	require.Equal(t, slacksim.Acked, h.ws.Forge(slacksim.TypeSlash, payload).Status)
	require.Zero(t, h.counts().Unsettled)
	require.Equal(t, 1, h.counts().Runs)
	payload["team_id"] = slacksim.TeamID // the control
	require.Equal(t, slacksim.Acked, h.ws.Forge(slacksim.TypeSlash, payload).Status)
	h.sees("the run of the control", func(m slacksim.Message) bool { return holds(read(m), []string{"Run: scale-auth"}) })
}

// TestACopyOfTheCard: somebody with the bot's token posts the card again, buttons
// and all. A click on the copy does not count.
func TestACopyOfTheCard(t *testing.T) {
	t.Parallel()
	h := newHouse(t, setup{})
	id := h.run("alice", "restart-cache")
	card := h.card(id)
	resp, err := http.PostForm(h.ws.APIURL()+"chat.postMessage", url.Values{"token": {h.ws.BotToken()}, "channel": {slacksim.Ops},
		"text": {card.Text}, "blocks": {string(card.Blocks)}})
	require.NoError(t, err)
	defer resp.Body.Close()
	var answer struct {
		OK    bool
		Error string
		TS    string
	}
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&answer))
	require.True(t, answer.OK, answer.Error)
	copied, err := h.ws.Message("ops", answer.TS)
	require.NoError(t, err)
	h.hears("bob", []string{"stale_card"}, func() { h.click("bob", copied, "approve") })
	h.hears("bob", []string{"stale_card"}, func() { h.click("bob", copied, "decline") })
	h.hears("alice", []string{"self_approval"}, func() { h.click("alice", copied, "decline") }) // nor does it withdraw
	require.Zero(t, h.effects())
	h.click("bob", card, "approve")
	h.ends(id, "Completed")
	require.Equal(t, 1, h.effects())
}
