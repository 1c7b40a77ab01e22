package slacksim_test

import (
	"testing"
	"time"

	"github.com/slack-go/slack"
	"github.com/slack-go/slack/socketmode"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"blastdoor/chat/slacksim"
)

func callback(t *testing.T, ev socketmode.Event) slack.InteractionCallback {
	t.Helper()
	cb, ok := ev.Data.(slack.InteractionCallback)
	require.True(t, ok)
	return cb
}

func TestClickEchoesTheMessage(t *testing.T) {
	ws := start(t, slacksim.Options{})
	b := runBot(t, ws, ackAll)
	m := post(t, ws, client(t, ws), slack.MsgOptionMetadata(slack.SlackMetadata{EventType: "card", EventPayload: map[string]any{"run": "r1"}}))
	out, err := ws.As("bob").Click(m, "approve")
	require.NoError(t, err)
	assert.Equal(t, slacksim.Acked, out.Status)
	cb := callback(t, b.next(t))
	assert.Equal(t, slack.InteractionTypeBlockActions, cb.Type)
	assert.Equal(t, slacksim.AppID, cb.APIAppID)
	assert.Equal(t, slacksim.TeamID, cb.Team.ID)
	assert.Equal(t, slacksim.Bob, cb.User.ID)
	assert.Equal(t, slacksim.TeamID, cb.User.TeamID)
	assert.Equal(t, m.TS, cb.Container.MessageTs)
	assert.Equal(t, slacksim.Ops, cb.Container.ChannelID)
	assert.Equal(t, slacksim.Ops, cb.Channel.ID)
	assert.Equal(t, "Approve?", cb.Message.Text)
	assert.Len(t, cb.Message.Blocks.BlockSet, 2, "the whole message comes back")
	assert.Equal(t, "r1", cb.Message.Metadata.EventPayload["run"])
	require.Len(t, cb.ActionCallback.BlockActions, 1)
	action := cb.ActionCallback.BlockActions[0]
	assert.Equal(t, "approve", action.ActionID)
	assert.Equal(t, "decision", action.BlockID)
	assert.Equal(t, "run-1", action.Value)
	assert.NotEmpty(t, action.ActionTs)
	assert.NotEmpty(t, cb.ResponseURL)
	assert.NotEmpty(t, cb.TriggerID)
}

func TestClickWithoutAckShowsTheTriangle(t *testing.T) {
	ws := start(t, slacksim.Options{AckDeadline: short})
	runBot(t, ws, ackNothing)
	m := post(t, ws, client(t, ws))
	out, err := ws.As("bob").Click(m, "approve")
	require.NoError(t, err)
	assert.Equal(t, slacksim.OperationTimeout, out.Status)
	assert.Equal(t, "⚠", out.Shown)
}

// Where the real Slack would not let it happen, neither does this one, and the app hears nothing.
func TestClickIsRefused(t *testing.T) {
	ws := start(t, slacksim.Options{})
	api := client(t, ws)
	m := post(t, ws, api)
	_, err := ws.As("bob").Click(m, "launch")
	assert.ErrorIs(t, err, slacksim.ErrNoButton)
	for _, user := range []string{"dora", "ivan", "deploybot", "slackbot"} {
		_, err := ws.As(user).Click(m, "approve")
		assert.ErrorIs(t, err, slacksim.ErrNotAllowed, user)
	}
	_, err = ws.As("nobody").Click(m, "approve")
	assert.ErrorIs(t, err, slacksim.ErrNoUser)
	require.NoError(t, ws.As("bob").Leave("ops"))
	_, err = ws.As("bob").Click(m, "approve")
	assert.ErrorIs(t, err, slacksim.ErrNotVisible)
	require.NoError(t, ws.As("bob").Join("ops"))

	_, _, _, err = api.UpdateMessage(slacksim.Ops, m.TS, text("Approved"))
	require.NoError(t, err)
	_, err = ws.As("bob").Click(m, "approve")
	assert.ErrorIs(t, err, slacksim.ErrNoButton, "the buttons are gone")
	_, _, err = api.DeleteMessage(slacksim.Ops, m.TS)
	require.NoError(t, err)
	_, err = ws.As("bob").Click(m, "approve")
	assert.ErrorIs(t, err, slacksim.ErrNoMessage)
	for _, e := range ws.Journal() {
		assert.NotEqual(t, slacksim.KindEnvelope, e.Kind)
	}
}

func TestForceClickSendsWhatSlackWouldNot(t *testing.T) {
	ws := start(t, slacksim.Options{})
	b := runBot(t, ws, ackAll)
	api := client(t, ws)
	m := post(t, ws, api)
	_, _, _, err := api.UpdateMessage(slacksim.Ops, m.TS, text("Approved"))
	require.NoError(t, err)
	out, err := ws.As("dora").ForceClick(m, "approve", func(p map[string]any) { p["api_app_id"] = "A0OTHER" })
	require.NoError(t, err)
	assert.Equal(t, slacksim.Acked, out.Status)
	cb := callback(t, b.next(t))
	assert.Equal(t, slacksim.Dora, cb.User.ID, "deactivated")
	assert.Equal(t, "A0OTHER", cb.APIAppID)
	assert.Len(t, cb.Message.Blocks.BlockSet, 2, "the message as it was")

	_, err = ws.As("erin").ForceClick(m, "approve", nil)
	require.NoError(t, err)
	assert.Equal(t, slacksim.OtherTeamID, callback(t, b.next(t)).User.TeamID)
	_, err = ws.As("bob").ForceClick(m, "launch", nil)
	assert.ErrorIs(t, err, slacksim.ErrNoButton)
	ws.Forge(slacksim.TypeInteractive, map[string]any{"type": "block_actions", "actions": []any{}})
	assert.Empty(t, callback(t, b.next(t)).User.ID)
}

func TestExternalPersonClicksInASharedChannel(t *testing.T) {
	ws := start(t, slacksim.Options{})
	b := runBot(t, ws, ackAll)
	ch, ts, err := client(t, ws).PostMessage(slacksim.Partners, card())
	require.NoError(t, err)
	m, err := ws.Message(ch, ts)
	require.NoError(t, err)
	_, err = ws.As("erin").Click(m, "approve")
	require.NoError(t, err)
	assert.Equal(t, slacksim.OtherTeamID, callback(t, b.next(t)).User.TeamID)
}

func TestSlashIsRefused(t *testing.T) {
	ws := start(t, slacksim.Options{})
	rows := []struct {
		user, channel, line string
		want                error
	}{
		{"dora", "ops", "/runbook list", slacksim.ErrNotAllowed},
		{"ivan", "ops", "/runbook list", slacksim.ErrNotAllowed},
		{"erin", "partners", "/runbook list", slacksim.ErrNotAllowed},
		{"deploybot", "ops", "/runbook list", slacksim.ErrNotAllowed},
		{"alice", "archived", "/runbook list", slacksim.ErrNotAllowed},
		{"alice", "ops", "/deploy now", slacksim.ErrNotAllowed},
		{"gina", "general", "/runbook list", slacksim.ErrNotVisible},
		{"alice", "nowhere", "/runbook list", slacksim.ErrNoChannel},
		{"nobody", "ops", "/runbook list", slacksim.ErrNoUser},
	}
	for _, row := range rows {
		_, err := ws.As(row.user).Slash(row.channel, row.line)
		assert.ErrorIs(t, err, row.want, "%s %s in %s", row.user, row.line, row.channel)
	}
	assert.Empty(t, ws.Journal())
}

func TestSlashInPrivateChannelHidesItsName(t *testing.T) {
	ws := start(t, slacksim.Options{})
	b := runBot(t, ws, ackAll)
	_, err := ws.As("alice").Slash("secret", "/runbook list")
	require.NoError(t, err)
	cmd, ok := b.next(t).Data.(slack.SlashCommand)
	require.True(t, ok)
	assert.Equal(t, "privategroup", cmd.ChannelName)
	assert.Equal(t, slacksim.Secret, cmd.ChannelID)
}

func TestWhoSeesWhat(t *testing.T) {
	ws := start(t, slacksim.Options{})
	api := client(t, ws)
	post(t, ws, api)
	_, _, err := api.PostMessage(slacksim.General, text("to all"))
	require.NoError(t, err)
	_, err = ws.As("alice").Say("secret", "psst")
	require.NoError(t, err)
	see := func(user, channel string) int { return len(ws.As(user).Messages(channel)) }
	assert.Equal(t, 1, see("alice", "secret"))
	assert.Equal(t, 0, see("carol", "secret"), "private")
	assert.Equal(t, 1, see("gina", "ops"))
	assert.Equal(t, 0, see("gina", "general"), "a guest sees only their channels")
	assert.Equal(t, 0, see("erin", "general"))
	assert.Equal(t, 0, see("dora", "ops"), "deactivated")
	require.NoError(t, ws.As("carol").Leave("general"))
	assert.Equal(t, 1, see("carol", "general"), "a member may look into a public channel")
	assert.Equal(t, 0, see("nobody", "ops"))
	assert.Equal(t, 0, see("alice", "nowhere"))
}

func TestRepliesHangUnderTheirParent(t *testing.T) {
	ws := start(t, slacksim.Options{})
	m := post(t, ws, client(t, ws))
	first, err := ws.As("bob").Reply(m, "one & only")
	require.NoError(t, err)
	second, err := ws.As("carol").Reply(first, "two")
	require.NoError(t, err)
	assert.Equal(t, m.TS, first.ThreadTS)
	assert.Equal(t, m.TS, second.ThreadTS)
	assert.Equal(t, "one &amp; only", first.Text)
	assert.True(t, second.IsReply())
}

func TestEphemeralButtonEchoesLittle(t *testing.T) {
	ws := start(t, slacksim.Options{})
	b := runBot(t, ws, ackAll)
	_, err := client(t, ws).PostEphemeral(slacksim.Ops, slacksim.Alice, text("x"), card())
	require.NoError(t, err)
	m, err := ws.WaitEphemeral(patience(t), "alice", nil)
	require.NoError(t, err)
	_, err = ws.As("bob").Click(m, "approve")
	assert.ErrorIs(t, err, slacksim.ErrNotVisible)
	_, err = ws.As("alice").Click(m, "approve")
	require.NoError(t, err)
	cb := callback(t, b.next(t))
	assert.True(t, cb.Container.IsEphemeral)
	assert.Empty(t, cb.Message.Blocks.BlockSet)
	assert.Empty(t, cb.Message.Text)
}

func TestButtonForSomeIsHiddenFromOthers(t *testing.T) {
	ws := start(t, slacksim.Options{})
	runBot(t, ws, ackAll)
	button := slack.NewButtonBlockElement("approve", "v", slack.NewTextBlockObject("plain_text", "Approve", false, false))
	button.VisibleToUserIDs = []string{slacksim.Bob}
	ch, ts, err := client(t, ws).PostMessage(slacksim.Ops, slack.MsgOptionBlocks(slack.NewActionBlock("", button)))
	require.NoError(t, err)
	m, err := ws.Message(ch, ts)
	require.NoError(t, err)
	_, err = ws.As("alice").Click(m, "approve")
	assert.ErrorIs(t, err, slacksim.ErrNotVisible)
	_, err = ws.As("bob").Click(m, "approve")
	assert.NoError(t, err)
}

func TestResponseURL(t *testing.T) {
	c := newClock()
	ws := start(t, slacksim.Options{Now: c.Now})
	b := runBot(t, ws, ackAll)
	api := client(t, ws)
	_, err := ws.As("alice").Slash("secret", "/runbook list")
	require.NoError(t, err)
	cmd, ok := b.next(t).Data.(slack.SlashCommand)
	require.True(t, ok)
	respond := func(url string, opts ...slack.MsgOption) error {
		_, _, err := api.PostMessage(cmd.ChannelID, append(opts, slack.MsgOptionResponseURL(url, slack.ResponseTypeEphemeral))...)
		return err
	}
	for range 5 {
		require.NoError(t, respond(cmd.ResponseURL, text("private & here")), "it works where the bot is not")
	}
	assert.Error(t, respond(cmd.ResponseURL, text("x")), "five uses")
	assert.Len(t, ws.Ephemerals("alice"), 5)
	assert.Equal(t, "private &amp; here", ws.Ephemerals("alice")[0].Text)
	assert.Error(t, respond(ws.URL()+"commands/made-up", text("x")))

	_, err = ws.As("alice").Slash("ops", "/runbook list")
	require.NoError(t, err)
	cmd, ok = b.next(t).Data.(slack.SlashCommand)
	require.True(t, ok)
	c.Advance(30 * time.Minute)
	assert.Error(t, respond(cmd.ResponseURL, text("x")), "thirty minutes")
}

func TestResponseURLReplacesAndDeletes(t *testing.T) {
	ws := start(t, slacksim.Options{})
	b := runBot(t, ws, ackAll)
	api := client(t, ws)
	m := post(t, ws, api)
	_, err := ws.As("bob").Click(m, "approve")
	require.NoError(t, err)
	url := callback(t, b.next(t)).ResponseURL
	_, _, err = api.PostMessage(m.Channel, text("Approved"), slack.MsgOptionReplaceOriginal(url))
	require.NoError(t, err)
	got, err := ws.Message("ops", m.TS)
	require.NoError(t, err)
	assert.Equal(t, "Approved", got.Text)
	assert.Empty(t, got.Buttons())
	_, _, err = api.PostMessage(m.Channel, slack.MsgOptionDeleteOriginal(url))
	require.NoError(t, err)
	_, err = ws.Message("ops", m.TS)
	assert.ErrorIs(t, err, slacksim.ErrNoMessage)
}
