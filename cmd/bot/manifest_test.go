package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"blastdoor/chat/slacksim"
)

// TestTheManifestAsksForEnough plays the story with the scopes of the manifest that
// people install, and finds nothing missing.
func TestTheManifestAsksForEnough(t *testing.T) {
	data, err := os.ReadFile("../../docs/slack-app-manifest.yaml")
	require.NoError(t, err)
	var manifest struct {
		OAuth struct {
			Scopes struct{ Bot []string }
		} `yaml:"oauth_config"`
	}
	require.NoError(t, yaml.Unmarshal(data, &manifest))
	require.NotEmpty(t, manifest.OAuth.Scopes.Bot)

	d := newDemo(t)
	d.ws.SetScopes(manifest.OAuth.Scopes.Bot...)
	require.NoError(t, d.play(t.Context()))
	require.Empty(t, missing(d.ws.Journal()))

	// The negative control: without the right to look people up nobody is asked.
	poor := newDemo(t)
	poor.ws.SetScopes("commands", "chat:write")
	outcome, err := poor.act("alice", "/runbook run drain-host-a")
	require.NoError(t, err)
	require.Empty(t, outcome.Shown)
	_, err = poor.ws.WaitEntry(deadline(t), "a refusal", func(e slacksim.Entry) bool { return e.Outcome == "missing_scope" })
	require.NoError(t, err)
}

func missing(journal []slacksim.Entry) (out []slacksim.Entry) {
	for _, e := range journal {
		if e.Outcome == "missing_scope" {
			out = append(out, e)
		}
	}
	return out
}
