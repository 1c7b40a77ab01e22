package slacksim_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/slack-go/slack"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"blastdoor/chat/slacksim"
)

func TestButtons(t *testing.T) {
	ws := start(t, slacksim.Options{})
	m := post(t, ws, client(t, ws))
	assert.Equal(t, []slacksim.Button{
		{BlockID: "decision", ActionID: "approve", Text: "Approve", Value: "run-1"},
		{BlockID: "decision", ActionID: "decline", Text: "Decline", Value: "run-1"},
	}, m.Buttons())
	assert.True(t, m.HasButton("approve"))
	assert.False(t, m.HasButton("launch"))
	assert.Empty(t, slacksim.Message{}.Buttons())
}

// What was handed out does not change when the stored message does.
func TestMessagesAreCopies(t *testing.T) {
	ws := start(t, slacksim.Options{})
	api := client(t, ws)
	before := post(t, ws, api)
	require.NoError(t, api.AddReaction("eyes", slack.NewRefToMessage(slacksim.Ops, before.TS)))
	_, _, _, err := api.UpdateMessage(slacksim.Ops, before.TS, text("after"))
	require.NoError(t, err)
	assert.Equal(t, "Approve?", before.Text)
	assert.Empty(t, before.Reactions)
	assert.True(t, before.HasButton("approve"))
}

// The whole life of a message comes back through history, as the client reads it.
func TestHistoryShowsEditsReactionsFilesAndThreads(t *testing.T) {
	ws := start(t, slacksim.Options{})
	api := client(t, ws)
	m := post(t, ws, api)
	require.NoError(t, api.AddReaction("eyes", slack.NewRefToMessage(slacksim.Ops, m.TS)))
	_, _, _, err := api.UpdateMessage(slacksim.Ops, m.TS, text("after"))
	require.NoError(t, err)
	_, err = api.UploadFile(slack.UploadFileParameters{Filename: "out.txt", Content: "hello", FileSize: 5, Channel: slacksim.Ops})
	require.NoError(t, err)
	reply, err := ws.As("bob").Reply(m, "looking")
	require.NoError(t, err)
	link, err := api.GetPermalink(&slack.PermalinkParameters{Channel: slacksim.Ops, Ts: reply.TS})
	require.NoError(t, err)
	assert.Contains(t, link, "thread_ts="+m.TS)

	history, err := api.GetConversationHistory(&slack.GetConversationHistoryParameters{ChannelID: slacksim.Ops})
	require.NoError(t, err)
	require.Len(t, history.Messages, 2)
	assert.Equal(t, "out.txt", history.Messages[0].Files[0].Name)
	card := history.Messages[1]
	assert.Equal(t, slacksim.BotUserID, card.Edited.User)
	assert.Equal(t, 1, card.ReplyCount)
	assert.Equal(t, []string{slacksim.BotUserID}, card.Reactions[0].Users)
}

func TestClickInAThreadNamesIt(t *testing.T) {
	ws := start(t, slacksim.Options{})
	b := runBot(t, ws, ackAll)
	api := client(t, ws)
	parent := post(t, ws, api)
	m := post(t, ws, api, slack.MsgOptionTS(parent.TS))
	_, err := ws.As("bob").Click(m, "decline")
	require.NoError(t, err)
	assert.Equal(t, parent.TS, callback(t, b.next(t)).Container.ThreadTs)
}

func TestResponseURLOfAnEphemeralMessage(t *testing.T) {
	ws := start(t, slacksim.Options{})
	b := runBot(t, ws, ackAll)
	api := client(t, ws)
	_, err := api.PostEphemeral(slacksim.Ops, slacksim.Alice, text("x"), card())
	require.NoError(t, err)
	_, err = ws.As("alice").Click(ws.Ephemerals("alice")[0], "approve")
	require.NoError(t, err)
	url := callback(t, b.next(t)).ResponseURL
	_, _, err = api.PostMessage(slacksim.Ops, text("done"), slack.MsgOptionReplaceOriginal(url))
	require.NoError(t, err)
	m, err := ws.WaitEphemeral(patience(t), "alice", func(m slacksim.Message) bool { return m.Text == "done" })
	require.NoError(t, err)
	assert.Empty(t, m.Buttons())
	_, _, err = api.PostMessage(slacksim.Ops, slack.MsgOptionDeleteOriginal(url))
	require.NoError(t, err)
	assert.Empty(t, ws.Ephemerals("alice"))
}

func TestInChannelAckIsSeenByAll(t *testing.T) {
	ws := start(t, slacksim.Options{})
	b := runBot(t, ws, ackAll)
	out, err := ws.As("alice").Slash("ops", "/runbook list")
	require.NoError(t, err)
	cmd, ok := b.next(t).Data.(slack.SlashCommand)
	require.True(t, ok)
	assert.Equal(t, out.TriggerID, cmd.TriggerID)
	_, _, err = client(t, ws).PostMessage(slacksim.Ops, text("for all"), slack.MsgOptionResponseURL(cmd.ResponseURL, slack.ResponseTypeInChannel))
	require.NoError(t, err)
	assert.Len(t, ws.As("bob").Messages("ops"), 1)
}

// A wait sees a message that changes into what is waited for, not only new ones.
func TestWaitSeesUpdates(t *testing.T) {
	ws := start(t, slacksim.Options{})
	api := client(t, ws)
	m := post(t, ws, api)
	found := make(chan slacksim.Message, 1)
	ctx := patience(t)
	go func() {
		got, _ := ws.WaitMessage(ctx, "ops", func(m slacksim.Message) bool { return m.Text == "Approved" }) // an error leaves it empty
		found <- got
	}()
	_, _, _, err := api.UpdateMessage(slacksim.Ops, m.TS, text("Approved"))
	require.NoError(t, err)
	assert.Equal(t, m.TS, (<-found).TS)
}

func TestDatesReadRelativeToTheMessage(t *testing.T) {
	at := newClock().Now()
	date := func(d time.Duration, format string) string {
		m := slacksim.Message{TS: "1772373900.000000", Text: "<!date^" + itoa(at.Add(d).Unix()) + "^" + format + "|fallback>"}
		return slacksim.PlainText(m)
	}
	rows := map[string]string{
		date(0, "{date_num} {time_secs}"):              "2026-03-01 14:05:00 UTC",
		date(0, "{date} or {date_slash}"):              "March 1, 2026 or 03/01/2026",
		date(0, "{date_short}, {date_long}"):           "Mar 1, 2026, Sunday, March 1, 2026",
		date(0, "{date_pretty}"):                       "today",
		date(24*time.Hour, "{date_long_pretty}"):       "tomorrow",
		date(-24*time.Hour, "{date_short_pretty}"):     "yesterday",
		date(72*time.Hour, "{date_short_pretty}"):      "Mar 4, 2026",
		date(-90*time.Second, "{ago}"):                 "2 minutes ago",
		date(15*time.Minute, "in {unknown} or {ago}!"): "in {unknown} or in 15 minutes!",
	}
	for got, want := range rows {
		assert.Contains(t, got, "│ "+want+"\n")
	}
}

func TestRichTextElementsRead(t *testing.T) {
	m := slacksim.Message{Blocks: []byte(`[{"type":"rich_text","elements":[{"type":"rich_text_section","elements":[
		{"type":"link","url":"https://example.com","text":"a &amp; b"},{"type":"text","text":" "},{"type":"link","url":"https://example.com"},
		{"type":"text","text":" "},{"type":"usergroup","usergroup_id":"S1"},{"type":"channel","channel_id":"C1"},{"type":"color","value":"#fff"},
		{"type":"user","user_id":"U1"}]}]}]`)}
	assert.Contains(t, slacksim.PlainText(m), "│ a & b (https://example.com) https://example.com S1C1#fffU1\n")
}

func TestScopesFollowTheKindOfChannel(t *testing.T) {
	ws := start(t, slacksim.Options{})
	api := client(t, ws)
	require.NoError(t, ws.As(slacksim.BotUserID).Join("secret"))
	read := func(channel string) error {
		_, err := api.GetConversationHistory(&slack.GetConversationHistoryParameters{ChannelID: channel})
		return err
	}
	require.NoError(t, read(slacksim.Secret))
	ch, _, err := api.PostMessage(slacksim.Bob, text("hi"))
	require.NoError(t, err)
	refused(t, "missing_scope", read(ch))
	ws.SetScopes("channels:history", "im:history", "chat:write")
	require.NoError(t, read(ch))
	refused(t, "missing_scope", read(slacksim.Secret))
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
