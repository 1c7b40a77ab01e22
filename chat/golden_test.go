package chat

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"blastdoor/chat/blockkit"
	"blastdoor/chat/slacksim"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares a message with its golden files: the JSON that is sent, and what
// a person reads.
func golden(t *testing.T, name string, m Message) {
	t.Helper()
	require.NoError(t, m.check())
	var pretty bytes.Buffer
	enc := json.NewEncoder(&pretty)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	require.NoError(t, enc.Encode(m))
	same(t, filepath.Join("testdata", name+".json"), pretty.Bytes())
	same(t, filepath.Join("testdata", name+".txt"), []byte(reading(t, m)))
}

// reading is the message as a person reads it in Slack.
func reading(t *testing.T, m Message) string {
	t.Helper()
	stored, err := blockkit.StoredBlocks(m.Blocks)
	require.NoError(t, err)
	return slacksim.PlainText(slacksim.Message{TS: "1795960860.000100", Channel: slacksim.Ops, User: slacksim.BotUserID, BotID: slacksim.BotID,
		Text: blockkit.AsStored(m.Text, true), Blocks: stored})
}

func same(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, got, 0o644))
		return
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err, "run the test with -update to write it")
	require.Equal(t, string(want), string(got), "%s; run the test with -update if this is meant", file)
}
