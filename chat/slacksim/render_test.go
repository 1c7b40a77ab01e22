package slacksim_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slack-go/slack"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"blastdoor/chat/slacksim"
)

var update = flag.Bool("update", false, "rewrite the golden files") // the usual shape of such a flag; tests only read it

// Each testdata/render/NAME.json is what an app posts; NAME.txt is how a person reads it.
func TestPlainTextGolden(t *testing.T) {
	inputs, err := filepath.Glob("testdata/render/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, inputs)
	for _, path := range inputs {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".json"), func(t *testing.T) {
			raw, err := os.ReadFile(path)
			require.NoError(t, err)
			var in struct {
				Text     string          `json:"text"`
				Blocks   json.RawMessage `json:"blocks"`
				OnlyFor  string          `json:"only_for"`
				InThread bool            `json:"in_thread"`
				React    []string        `json:"react"`
				Edit     string          `json:"edit"`
			}
			require.NoError(t, json.Unmarshal(raw, &in))
			ws := start(t, slacksim.Options{Now: newClock().Now})
			api := client(t, ws)
			opts := []slack.MsgOption{text(in.Text)}
			if in.Blocks != nil {
				var blocks slack.Blocks
				require.NoError(t, json.Unmarshal(in.Blocks, &blocks))
				opts = append(opts, slack.MsgOptionBlocks(blocks.BlockSet...))
			}
			if in.InThread {
				opts = append(opts, slack.MsgOptionTS(post(t, ws, api).TS))
			}
			checkGolden(t, strings.TrimSuffix(path, ".json")+".txt", slacksim.PlainText(show(t, ws, api, opts, in.OnlyFor, in.React, in.Edit)))
		})
	}
}

// show posts a message and returns it as stored.
func show(t *testing.T, ws *slacksim.Workspace, api *slack.Client, opts []slack.MsgOption, onlyFor string, react []string, edit string) slacksim.Message {
	t.Helper()
	if onlyFor != "" {
		_, err := api.PostEphemeral(slacksim.Ops, onlyFor, opts...)
		require.NoError(t, err)
		return ws.Ephemerals(onlyFor)[0]
	}
	_, ts, err := api.PostMessage(slacksim.Ops, opts...)
	require.NoError(t, err)
	for _, name := range react {
		require.NoError(t, api.AddReaction(name, slack.NewRefToMessage(slacksim.Ops, ts)))
	}
	if edit != "" {
		_, _, _, err := api.UpdateMessage(slacksim.Ops, ts, text(edit))
		require.NoError(t, err)
	}
	m, err := ws.Message("ops", ts)
	require.NoError(t, err)
	return m
}

func checkGolden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}

// Text that was escaped reads as typed and never as a mention, however it is written.
func TestPlainTextShowsEscapedTextLiterally(t *testing.T) {
	m := slacksim.Message{Text: "&lt;!channel&gt; &amp;lt;"}
	assert.Contains(t, slacksim.PlainText(m), "│ <!channel> &lt;\n")
	assert.Contains(t, slacksim.PlainText(slacksim.Message{Text: "<!channel>"}), "│ @channel\n")
}

func TestPlainTextCannotSteerTheTerminal(t *testing.T) {
	out := slacksim.PlainText(slacksim.Message{Text: "a\x1b[2Jb\rc"})
	assert.Contains(t, out, "a\uFFFD[2Jb\uFFFDc")
}

func TestPlainTextOfOddBlocks(t *testing.T) {
	for _, blocks := range []string{`[{}]`, `[{"type":"section"}]`, `{`, `[{"type":"table","rows":[1,[1]]}]`, `[{"type":"rich_text","elements":[{}]}]`} {
		assert.NotPanics(t, func() { slacksim.PlainText(slacksim.Message{Blocks: json.RawMessage(blocks)}) }, blocks)
	}
}

func FuzzPlainText(f *testing.F) {
	f.Add("*a* <@U1> <!date^1^{date}|x> `c` ```\nd\n``` &gt; q", `[{"type":"section","text":{"type":"mrkdwn","text":"x"}}]`)
	f.Fuzz(func(t *testing.T, text, blocks string) {
		out := slacksim.PlainText(slacksim.Message{TS: "1.000001", Text: text})
		require.True(t, strings.HasSuffix(out, "\n"))
		slacksim.PlainText(slacksim.Message{TS: "1.000001", Blocks: json.RawMessage(blocks)})
	})
}
