package slacksim_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slack-go/slack"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"blastdoor/chat/slacksim"
)

// refused asserts on Slack's error code.
func refused(t *testing.T, code string, err error) {
	t.Helper()
	var refusal slack.SlackErrorResponse
	require.ErrorAs(t, err, &refusal)
	assert.Equal(t, code, refusal.Err)
}

func text(s string) slack.MsgOption { return slack.MsgOptionText(s, false) }

func section(s string) slack.MsgOption {
	return slack.MsgOptionBlocks(slack.NewSectionBlock(slack.NewTextBlockObject("mrkdwn", s, false, false), nil, nil))
}

func TestPostStoresEscaped(t *testing.T) {
	ws := start(t, slacksim.Options{})
	_, ts, err := client(t, ws).PostMessage(slacksim.Ops, text("a & <b> <@U0BOB> &lt;"), section("1 < 2 <!here>"))
	require.NoError(t, err)
	m, err := ws.Message("ops", ts)
	require.NoError(t, err)
	assert.Equal(t, "a &amp; &lt;b&gt; <@U0BOB> &lt;", m.Text)
	assert.Contains(t, string(m.Blocks), `"text":"1 &lt; 2 <!here>"`)
	assert.Contains(t, string(m.Blocks), `"block_id":"blk`, "Slack makes up the ids that are left out")
	assert.Equal(t, slacksim.BotUserID, m.User)
	assert.Equal(t, slacksim.BotID, m.BotID)
	assert.Equal(t, slacksim.AppID, m.AppID)
}

func TestPostRefusals(t *testing.T) {
	ws := start(t, slacksim.Options{})
	api := client(t, ws)
	_, _, err := api.PostMessage(slacksim.Secret, text("x"))
	refused(t, "channel_not_found", err)
	_, _, err = api.PostMessage("C0NOWHERE", text("x"))
	refused(t, "channel_not_found", err)
	_, _, err = api.PostMessage(slacksim.Archived, text("x"))
	refused(t, "is_archived", err)
	_, _, err = api.PostMessage(slacksim.Ops)
	refused(t, "no_text", err)
	_, _, err = api.PostMessage(slacksim.Ops, text("x"), slack.MsgOptionTS("1.000001"))
	refused(t, "thread_not_found", err)
	require.NoError(t, ws.As(slacksim.BotUserID).Leave("ops"))
	_, _, err = api.PostMessage(slacksim.Ops, text("x"))
	refused(t, "not_in_channel", err)
	ws.SetScopes(append(slacksim.DefaultScopes(), "chat:write.public")...)
	_, _, err = api.PostMessage(slacksim.Ops, text("x"))
	require.NoError(t, err)
}

func TestInvalidBlocksSayWhere(t *testing.T) {
	ws := start(t, slacksim.Options{})
	_, _, err := client(t, ws).PostMessage(slacksim.Ops, section(strings.Repeat("&", 601)))
	refused(t, "invalid_blocks", err)
	var refusal slack.SlackErrorResponse
	require.ErrorAs(t, err, &refusal)
	assert.Equal(t, []string{"[ERROR] must be less than 3001 characters [json-pointer:/blocks/0/text/text]"}, refusal.ResponseMetadata.Messages)
	assert.Empty(t, ws.Messages("ops"))
}

func TestLongTextIsCut(t *testing.T) {
	ws := start(t, slacksim.Options{})
	_, ts, err := client(t, ws).PostMessage(slacksim.Ops, text(strings.Repeat("é", 40001)))
	require.NoError(t, err)
	m, err := ws.Message("ops", ts)
	require.NoError(t, err)
	assert.Equal(t, strings.Repeat("é", 40000), m.Text)
}

func TestUpdate(t *testing.T) {
	ws := start(t, slacksim.Options{})
	api := client(t, ws)
	meta := slack.SlackMetadata{EventType: "card", EventPayload: map[string]any{"run": "r1"}}
	m := post(t, ws, api, slack.MsgOptionMetadata(meta))
	read := func() slacksim.Message {
		got, err := ws.Message("ops", m.TS)
		require.NoError(t, err)
		return got
	}

	_, _, _, err := api.UpdateMessage(slacksim.Ops, m.TS, text("Approve?"), section("same text"))
	require.NoError(t, err)
	assert.Nil(t, read().Edited, "the text is the same")
	require.NotNil(t, read().Metadata, "metadata stays when it is left out")
	assert.JSONEq(t, `{"run":"r1"}`, string(read().Metadata.EventPayload))

	_, _, _, err = api.UpdateMessage(slacksim.Ops, m.TS, text("Done"))
	require.NoError(t, err)
	assert.Equal(t, "Done", read().Text)
	assert.Nil(t, read().Blocks, "text without blocks removes them")
	assert.NotNil(t, read().Edited)

	_, _, _, err = api.UpdateMessage(slacksim.Ops, m.TS, text(strings.Repeat("x", 4001)))
	refused(t, "msg_too_long", err)
	_, _, _, err = api.UpdateMessage(slacksim.Ops, "1.000001", text("x"))
	refused(t, "message_not_found", err)
	said, err := ws.As("alice").Say("ops", "hello")
	require.NoError(t, err)
	_, _, _, err = api.UpdateMessage(slacksim.Ops, said.TS, text("x"))
	refused(t, "cant_update_message", err)
}

func TestUpdateCannotTurnRichTextIntoAnother(t *testing.T) {
	ws := start(t, slacksim.Options{})
	api := client(t, ws)
	rich := slack.NewRichTextBlock("", slack.NewRichTextSection(slack.NewRichTextSectionTextElement("x", nil)))
	_, ts, err := api.PostMessage(slacksim.Ops, slack.MsgOptionBlocks(rich))
	require.NoError(t, err)
	_, _, _, err = api.UpdateMessage(slacksim.Ops, ts, section("x"))
	refused(t, "block_mismatch", err)
}

func TestDelete(t *testing.T) {
	ws := start(t, slacksim.Options{})
	api := client(t, ws)
	m := post(t, ws, api)
	said, err := ws.As("alice").Say("ops", "mine")
	require.NoError(t, err)
	_, _, err = api.DeleteMessage(slacksim.Ops, said.TS)
	refused(t, "cant_delete_message", err)
	_, _, err = api.DeleteMessage(slacksim.Ops, m.TS)
	require.NoError(t, err)
	_, _, err = api.DeleteMessage(slacksim.Ops, m.TS)
	refused(t, "message_not_found", err)
	assert.Len(t, ws.Messages("ops"), 1)

	parent := post(t, ws, api)
	_, err = ws.As("bob").Reply(parent, "a reply")
	require.NoError(t, err)
	_, _, err = api.DeleteMessage(slacksim.Ops, parent.TS)
	require.NoError(t, err)
	stone, err := ws.Message("ops", parent.TS)
	require.NoError(t, err)
	assert.True(t, stone.Tombstone, "a parent with replies leaves a tombstone")
}

func TestEphemeralIsSeenByOne(t *testing.T) {
	ws := start(t, slacksim.Options{})
	api := client(t, ws)
	_, err := api.PostEphemeral(slacksim.Ops, slacksim.Alice, text("only you"))
	require.NoError(t, err)
	m, err := ws.WaitEphemeral(patience(t), "alice", nil)
	require.NoError(t, err)
	assert.Equal(t, "only you", m.Text)
	assert.Len(t, ws.As("alice").Messages("ops"), 1)
	assert.Empty(t, ws.As("bob").Messages("ops"))
	history, err := api.GetConversationHistory(&slack.GetConversationHistoryParameters{ChannelID: slacksim.Ops})
	require.NoError(t, err)
	assert.Empty(t, history.Messages)
	_, _, _, err = api.UpdateMessage(slacksim.Ops, m.TS, text("x"))
	refused(t, "message_not_found", err)

	for _, user := range []string{slacksim.Dora, slacksim.Ivan} {
		_, err = api.PostEphemeral(slacksim.Ops, user, text("x"))
		refused(t, "user_not_in_channel", err)
	}
	_, err = api.PostEphemeral(slacksim.General, slacksim.Gina, text("x"))
	refused(t, "user_not_in_channel", err)
	_, err = api.PostEphemeral(slacksim.Ops, "U0NOBODY", text("x"))
	refused(t, "user_not_found", err)
}

func TestPermalink(t *testing.T) {
	ws := start(t, slacksim.Options{Now: newClock().Now})
	api := client(t, ws)
	m := post(t, ws, api)
	link, err := api.GetPermalink(&slack.PermalinkParameters{Channel: slacksim.Ops, Ts: m.TS})
	require.NoError(t, err)
	assert.Equal(t, "https://acme.slack.com/archives/C0OPS/p1772373900000000", link)
	_, err = api.GetPermalink(&slack.PermalinkParameters{Channel: slacksim.Ops, Ts: "1.000001"})
	refused(t, "message_not_found", err)
}

func TestHistoryWithMetadata(t *testing.T) {
	ws := start(t, slacksim.Options{Now: newClock().Now})
	api := client(t, ws)
	first := post(t, ws, api, slack.MsgOptionMetadata(slack.SlackMetadata{EventType: "card", EventPayload: map[string]any{"id": "d1"}}))
	second := post(t, ws, api)
	_, _, err := api.PostMessage(slacksim.Ops, text("in thread"), slack.MsgOptionTS(first.TS))
	require.NoError(t, err)

	read := func(p slack.GetConversationHistoryParameters) *slack.GetConversationHistoryResponse {
		p.ChannelID = slacksim.Ops
		res, err := api.GetConversationHistory(&p)
		require.NoError(t, err)
		return res
	}
	all := read(slack.GetConversationHistoryParameters{IncludeAllMetadata: true})
	require.Len(t, all.Messages, 2, "replies are not in it")
	assert.Equal(t, second.TS, all.Messages[0].Timestamp, "newest first")
	assert.Equal(t, "card", all.Messages[1].Metadata.EventType)
	assert.Equal(t, "d1", all.Messages[1].Metadata.EventPayload["id"])
	assert.Empty(t, read(slack.GetConversationHistoryParameters{}).Messages[1].Metadata.EventType, "metadata must be asked for")
	assert.Len(t, read(slack.GetConversationHistoryParameters{Oldest: first.TS}).Messages, 1)
	assert.Len(t, read(slack.GetConversationHistoryParameters{Oldest: first.TS, Inclusive: true}).Messages, 2)
	assert.Len(t, read(slack.GetConversationHistoryParameters{Latest: second.TS}).Messages, 1)

	page := read(slack.GetConversationHistoryParameters{Limit: 1})
	require.True(t, page.HasMore)
	rest := read(slack.GetConversationHistoryParameters{Limit: 1, Cursor: page.ResponseMetaData.NextCursor})
	assert.Equal(t, first.TS, rest.Messages[0].Timestamp)
	assert.False(t, rest.HasMore)

	thread, _, _, err := api.GetConversationReplies(&slack.GetConversationRepliesParameters{ChannelID: slacksim.Ops, Timestamp: first.TS})
	require.NoError(t, err)
	require.Len(t, thread, 2)
	assert.Equal(t, first.TS, thread[0].Timestamp, "the parent first")
	assert.Equal(t, "in thread", thread[1].Text)
}

func TestHistoryLag(t *testing.T) {
	c := newClock()
	ws := start(t, slacksim.Options{Now: c.Now})
	api := client(t, ws)
	ws.SetHistoryLag(5 * time.Second)
	post(t, ws, api)
	read := func() int {
		res, err := api.GetConversationHistory(&slack.GetConversationHistoryParameters{ChannelID: slacksim.Ops})
		require.NoError(t, err)
		return len(res.Messages)
	}
	assert.Equal(t, 0, read())
	c.Advance(5 * time.Second)
	assert.Equal(t, 1, read())
}

func TestMetadataLimits(t *testing.T) {
	ws := start(t, slacksim.Options{})
	api := client(t, ws)
	big := slack.SlackMetadata{EventType: "card", EventPayload: map[string]any{"x": strings.Repeat("x", 8001)}}
	_, _, err := api.PostMessage(slacksim.Ops, text("x"), slack.MsgOptionMetadata(big))
	refused(t, "metadata_too_large", err)
	long := slack.SlackMetadata{EventType: strings.Repeat("x", 256), EventPayload: map[string]any{}}
	_, _, err = api.PostMessage(slacksim.Ops, text("x"), slack.MsgOptionMetadata(long))
	refused(t, "invalid_metadata_schema", err)
}

func TestTimestampsNeverRepeat(t *testing.T) {
	ws := start(t, slacksim.Options{Now: newClock().Now}) // a clock that stands still
	api := client(t, ws)
	seen := map[string]bool{}
	for range 10 {
		m := post(t, ws, api)
		assert.False(t, seen[m.TS])
		seen[m.TS] = true
	}
}
