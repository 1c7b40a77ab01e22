package slacksim_test

import (
	"testing"

	"github.com/slack-go/slack"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"blastdoor/chat/slacksim"
)

func TestConversationInfo(t *testing.T) {
	ws := start(t, slacksim.Options{})
	api := client(t, ws)
	info := func(id string) (*slack.Channel, error) {
		return api.GetConversationInfo(&slack.GetConversationInfoInput{ChannelID: id})
	}
	ops, err := info(slacksim.Ops)
	require.NoError(t, err)
	assert.Equal(t, "ops", ops.Name)
	assert.True(t, ops.IsMember)
	assert.False(t, ops.IsExtShared)
	partners, err := info(slacksim.Partners)
	require.NoError(t, err)
	assert.True(t, partners.IsExtShared)
	assert.True(t, partners.IsShared)
	_, err = info(slacksim.Secret)
	refused(t, "channel_not_found", err)
	require.NoError(t, ws.ChangeChannel("ops", func(c *slacksim.Channel) { c.PendingExtShared = true }))
	ops, err = info(slacksim.Ops)
	require.NoError(t, err)
	assert.True(t, ops.IsPendingExtShared)
}

func TestHistoryNeedsMembership(t *testing.T) {
	ws := start(t, slacksim.Options{})
	api := client(t, ws)
	require.NoError(t, ws.As(slacksim.BotUserID).Leave("general"))
	_, err := api.GetConversationHistory(&slack.GetConversationHistoryParameters{ChannelID: slacksim.General})
	refused(t, "not_in_channel", err)
	_, err = api.GetConversationHistory(&slack.GetConversationHistoryParameters{ChannelID: slacksim.Secret})
	refused(t, "channel_not_found", err)
}

func TestMembersAndList(t *testing.T) {
	ws := start(t, slacksim.Options{})
	api := client(t, ws)
	members, cursor, err := api.GetUsersInConversation(&slack.GetUsersInConversationParameters{ChannelID: slacksim.General, Limit: 2})
	require.NoError(t, err)
	assert.Equal(t, []string{slacksim.Alice, slacksim.Bob}, members)
	members, cursor, err = api.GetUsersInConversation(&slack.GetUsersInConversationParameters{ChannelID: slacksim.General, Limit: 10, Cursor: cursor})
	require.NoError(t, err)
	assert.Equal(t, []string{slacksim.Carol, slacksim.Mallory, slacksim.BotUserID}, members)
	assert.Empty(t, cursor)

	list, _, err := api.GetConversations(&slack.GetConversationsParameters{Types: []string{"public_channel", "private_channel"}, ExcludeArchived: true})
	require.NoError(t, err)
	var names []string
	for _, c := range list {
		names = append(names, c.Name)
	}
	assert.Equal(t, []string{"ops", "general", "partners"}, names, "without the archived one and the private one")
}

func TestDirectMessages(t *testing.T) {
	ws := start(t, slacksim.Options{})
	api := client(t, ws)
	open := func(user string) (string, error) {
		ch, _, _, err := api.OpenConversation(&slack.OpenConversationParameters{Users: []string{user}, ReturnIM: true})
		if err != nil {
			return "", err
		}
		return ch.ID, nil
	}
	first, err := open(slacksim.Bob)
	require.NoError(t, err)
	second, err := open(slacksim.Bob)
	require.NoError(t, err)
	assert.Equal(t, first, second)
	ch, _, err := api.PostMessage(slacksim.Bob, text("to a user id"))
	require.NoError(t, err)
	assert.Equal(t, first, ch)
	assert.Len(t, ws.As("bob").Messages(first), 1)
	assert.Empty(t, ws.As("alice").Messages(first), "others cannot see it")
	_, err = open("U0NOBODY")
	refused(t, "user_not_found", err)
	_, err = open(slacksim.Dora)
	refused(t, "user_disabled", err)
	_, err = open(slacksim.OtherBot)
	refused(t, "cannot_dm_bot", err)
}

func TestUsers(t *testing.T) {
	ws := start(t, slacksim.Options{})
	api := client(t, ws)
	info := func(id string) *slack.User {
		u, err := api.GetUserInfo(id)
		require.NoError(t, err)
		return u
	}
	assert.Equal(t, slacksim.TeamID, info(slacksim.Alice).TeamID)
	assert.True(t, info(slacksim.Gina).IsRestricted)
	assert.False(t, info(slacksim.Gina).IsUltraRestricted)
	assert.True(t, info(slacksim.Uma).IsUltraRestricted)
	assert.True(t, info(slacksim.Uma).IsRestricted)
	assert.True(t, info(slacksim.Erin).IsStranger)
	assert.Equal(t, slacksim.OtherTeamID, info(slacksim.Erin).TeamID)
	assert.True(t, info(slacksim.Dora).Deleted)
	assert.True(t, info(slacksim.Ivan).IsInvitedUser)
	assert.True(t, info(slacksim.OtherBot).IsBot)
	assert.False(t, info(slacksim.Slackbot).IsBot, "as Slack has it")
	_, err := api.GetUserInfo("U0NOBODY")
	refused(t, "user_not_found", err)
	require.NoError(t, ws.Deactivate("bob"))
	assert.True(t, info(slacksim.Bob).Deleted, "changes show at once")
	all, err := api.GetUsers()
	require.NoError(t, err)
	assert.Len(t, all, len(slacksim.DefaultWorld().Users))
	assert.ErrorIs(t, ws.Deactivate("nobody"), slacksim.ErrNoUser)
}

func TestUserGroups(t *testing.T) {
	ws := start(t, slacksim.Options{})
	api := client(t, ws)
	members, err := api.GetUserGroupMembers(slacksim.SRE)
	require.NoError(t, err)
	assert.Equal(t, []string{slacksim.Bob, slacksim.Carol}, members)
	_, err = api.GetUserGroupMembers("S0NONE")
	refused(t, "no_such_subteam", err)
	groups, err := api.GetUserGroups(slack.GetUserGroupsOptionIncludeUsers(true))
	require.NoError(t, err)
	require.Len(t, groups, 1)
	assert.Equal(t, "sre", groups[0].Handle)
	assert.Equal(t, members, groups[0].Users)

	require.NoError(t, ws.ChangeGroup("sre", func(g *slacksim.Group) { g.Members = []string{slacksim.Carol} }))
	members, err = api.GetUserGroupMembers(slacksim.SRE)
	require.NoError(t, err)
	assert.Equal(t, []string{slacksim.Carol}, members)
	require.NoError(t, ws.ChangeGroup("sre", func(g *slacksim.Group) { g.Disabled = true }))
	members, err = api.GetUserGroupMembers(slacksim.SRE)
	require.NoError(t, err)
	assert.Empty(t, members, "a disabled group is empty")
	groups, err = api.GetUserGroups()
	require.NoError(t, err)
	assert.Empty(t, groups)
	assert.ErrorIs(t, ws.ChangeGroup("none", func(*slacksim.Group) {}), slacksim.ErrNoGroup)
}

func TestReactions(t *testing.T) {
	ws := start(t, slacksim.Options{})
	api := client(t, ws)
	m := post(t, ws, api)
	ref := slack.NewRefToMessage(slacksim.Ops, m.TS)
	require.NoError(t, api.AddReaction("eyes", ref))
	refused(t, "already_reacted", api.AddReaction("eyes", ref))
	m, err := ws.Message("ops", m.TS)
	require.NoError(t, err)
	assert.Equal(t, []slacksim.Reaction{{Name: "eyes", Users: []string{slacksim.BotUserID}}}, m.Reactions)
	require.NoError(t, api.RemoveReaction("eyes", ref))
	refused(t, "no_reaction", api.RemoveReaction("eyes", ref))
	refused(t, "invalid_name", api.AddReaction("Not An Emoji", ref))
	refused(t, "message_not_found", api.AddReaction("eyes", slack.NewRefToMessage(slacksim.Ops, "1.000001")))
}
