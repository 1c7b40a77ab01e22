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

func modal(title string) slack.ModalViewRequest {
	return slack.ModalViewRequest{Type: slack.VTModal, Title: slack.NewTextBlockObject("plain_text", title, false, false),
		Blocks: slack.Blocks{BlockSet: []slack.Block{slack.NewDividerBlock()}}}
}

func TestTriggersAreShortAndSingleUse(t *testing.T) {
	c := newClock()
	ws := start(t, slacksim.Options{Now: c.Now})
	runBot(t, ws, ackAll)
	api := client(t, ws)
	trigger := func() string {
		out, err := ws.As("alice").Slash("ops", "/runbook run")
		require.NoError(t, err)
		return out.TriggerID
	}
	id := trigger()
	_, err := api.OpenView(id, modal(strings.Repeat("x", 25)))
	refused(t, "invalid_arguments", err)
	view, err := api.OpenView(id, modal("Run"))
	require.NoError(t, err)
	assert.NotEmpty(t, view.ID)
	assert.Equal(t, view.ID, view.RootViewID)
	require.Len(t, ws.Modals("alice"), 1)
	_, err = api.OpenView(id, modal("Run"))
	refused(t, "exchanged_trigger_id", err)
	id = trigger()
	c.Advance(3 * time.Second)
	_, err = api.OpenView(id, modal("Run"))
	refused(t, "expired_trigger_id", err)
	_, err = api.OpenView("1.2.x", modal("Run"))
	refused(t, "invalid_trigger_id", err)

	for range 2 {
		_, err = api.PushView(trigger(), modal("More"))
		require.NoError(t, err)
	}
	_, err = api.PushView(trigger(), modal("Too much"))
	refused(t, "push_limit_reached", err)
	assert.Len(t, ws.Modals("alice"), 3)

	updated, err := api.UpdateView(modal("Changed"), "", view.Hash, view.ID)
	require.NoError(t, err)
	assert.NotEqual(t, view.Hash, updated.Hash)
	_, err = api.UpdateView(modal("Stale"), "", view.Hash, view.ID)
	refused(t, "hash_conflict", err)
	_, err = api.UpdateView(modal("None"), "", "", "V0NONE")
	refused(t, "not_found", err)
}

func TestHomeTab(t *testing.T) {
	ws := start(t, slacksim.Options{})
	api := client(t, ws)
	home := slack.PublishViewContextRequest{UserID: slacksim.Alice, View: slack.HomeTabViewRequest{Type: slack.VTHomeTab,
		Blocks: slack.Blocks{BlockSet: []slack.Block{slack.NewDividerBlock()}}}}
	_, err := api.PublishViewContext(patience(t), home)
	require.NoError(t, err)
	view, ok := ws.Home("alice")
	require.True(t, ok)
	assert.Equal(t, "home", view.Type)
	_, ok = ws.Home("bob")
	assert.False(t, ok)
	home.UserID = slacksim.Dora
	_, err = api.PublishViewContext(patience(t), home)
	refused(t, "user_not_found", err)
}

func TestUpload(t *testing.T) {
	ws := start(t, slacksim.Options{})
	api := client(t, ws)
	m := post(t, ws, api)
	upload := func(channel, content string, size int) error {
		_, err := api.UploadFile(slack.UploadFileParameters{Filename: "out.txt", Title: "Output", Content: content, FileSize: size, Channel: channel, ThreadTimestamp: m.TS})
		return err
	}
	require.NoError(t, upload(slacksim.Ops, "hello", 5))
	shared, err := ws.WaitMessage(patience(t), "ops", func(m slacksim.Message) bool { return len(m.Files) > 0 })
	require.NoError(t, err)
	assert.Equal(t, m.TS, shared.ThreadTS)
	assert.Equal(t, "Output", shared.Files[0].Title)
	assert.Equal(t, "hello", string(shared.Files[0].Content))
	assert.Error(t, upload(slacksim.Ops, "hello", 4), "the length must be what was announced")
	refused(t, "channel_not_found", upload(slacksim.Secret, "hello", 5))
}
