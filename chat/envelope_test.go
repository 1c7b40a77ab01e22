package chat

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const slashSample = `{"token":"secret","team_id":"T1","enterprise_id":"E1","channel_id":"C1","channel_name":"ops","user_id":"U1",
"user_name":"bob","command":"/runbook","text":"run x","api_app_id":"A1","is_enterprise_install":"false",
"response_url":"https://hooks.slack.com/x","trigger_id":"1.2.c"}`

const clickSample = `{"type":"block_actions","token":"secret","api_app_id":"A1","team":{"id":"T1","domain":"d"},"enterprise":null,
"user":{"id":"U2","username":"alice","name":"alice","team_id":"T9"},
"container":{"type":"message","message_ts":"1700.0001","channel_id":"C1","is_ephemeral":false},
"channel":{"id":"CFORGED","name":"ops"},"message":{"ts":"1.1","text":"forged","blocks":[{"type":"new_kind"}]},
"response_url":"https://hooks.slack.com/y","actions":[
{"type":"button","action_id":"approve","block_id":"b","value":"v1|r|a|h","action_ts":"2.1"},
{"type":"button","action_id":"open_docs","block_id":"b","url":"https://x","action_ts":"2.2"},
{"type":"button","action_id":"decline","block_id":"b","value":"v1|r|a|h","action_ts":"2.3"}]}`

func TestParseSlash(t *testing.T) {
	p, err := parseEnvelope(slashKind, "e1", json.RawMessage(slashSample))
	require.NoError(t, err)
	require.Len(t, p.Items, 1)
	assert.Equal(t, origin{TeamID: "T1", EnterpriseID: "E1", AppID: "A1"}, p.Origin)
	assert.Equal(t, "slash-1.2.c", p.Items[0].ID)
	assert.NotContains(t, string(p.Items[0].Payload), "secret", "the deprecated token is not kept")
	assert.NotContains(t, string(p.Items[0].Payload), "bob", "a name proves nothing and is not kept")

	p, err = parseEnvelope(slashKind, "e1", json.RawMessage(strings.Replace(slashSample, "1.2.c", "", 1)))
	require.NoError(t, err)
	assert.Equal(t, "envelope-e1", p.Items[0].ID)

	for _, broken := range []string{`[]`, `{"team_id":"T1"}`, `{"user_id":7}`, `nope`} {
		_, err := parseEnvelope(slashKind, "e1", json.RawMessage(broken))
		assert.Error(t, err, broken)
	}
}

// TestParseClick: every action of ours in the array is one item; identity and
// address come from the authenticated parts of the payload.
func TestParseClick(t *testing.T) {
	p, err := parseEnvelope(interactiveKind, "e1", json.RawMessage(clickSample))
	require.NoError(t, err)
	require.Len(t, p.Items, 2, "approve and decline; the link button is not ours")
	var r request
	require.NoError(t, json.Unmarshal(p.Items[0].Payload, &r))
	assert.Equal(t, &clickRequest{Action: "approve", Value: "v1|r|a|h", UserID: "U2", TeamID: "T9", Channel: "C1",
		MessageTS: "1700.0001", ResponseURL: "https://hooks.slack.com/y"}, r.Click)
	assert.NotEqual(t, p.Items[0].ID, p.Items[1].ID)

	again, err := parseEnvelope(interactiveKind, "another envelope", json.RawMessage(clickSample))
	require.NoError(t, err)
	assert.Equal(t, p.Items[0].ID, again.Items[0].ID, "the same press is the same request")
	other, err := parseEnvelope(interactiveKind, "e1", json.RawMessage(strings.Replace(clickSample, `"2.1"`, `"3.1"`, 1)))
	require.NoError(t, err)
	assert.NotEqual(t, p.Items[0].ID, other.Items[0].ID, "a later press is another one")

	org, err := parseEnvelope(interactiveKind, "e", json.RawMessage(`{"type":"block_actions","team":null,"enterprise":{"id":"E1"},"actions":[]}`))
	require.NoError(t, err)
	assert.Equal(t, origin{EnterpriseID: "E1"}, org.Origin)
	for _, ignored := range []string{`{"type":"view_closed"}`, `{"type":"shortcut"}`, `{"type":"block_actions","actions":[{"action_id":"x"}]}`} {
		p, err := parseEnvelope(interactiveKind, "e", json.RawMessage(ignored))
		require.NoError(t, err, ignored)
		assert.Empty(t, p.Items, ignored)
	}
	_, err = parseEnvelope(interactiveKind, "e", json.RawMessage(`{"type":"block_actions","actions":[{"action_id":"approve"}]}`))
	require.Error(t, err, "a click without a person is none")
	p, err = parseEnvelope(eventsKind, "e", json.RawMessage(`{"type":"event_callback"}`))
	require.NoError(t, err)
	assert.Empty(t, p.Items)
}

func TestButtonValue(t *testing.T) {
	v := buttonValue{RunID: "r", ApprovalID: "a", PlanHash: "sha256:h"}
	got, ok := parseButtonValue(v.String())
	require.True(t, ok)
	assert.Equal(t, v, got)
	for _, s := range []string{"", "v2|r|a|h", "v1|r|a", "v1|r|a|h|x", "v1||a|h", "v1|r||h", "v1|r|a|", "v1|r|a|" + strings.Repeat("h", 2000)} {
		_, ok := parseButtonValue(s)
		assert.False(t, ok, s)
	}
}

func FuzzParseInteraction(f *testing.F) {
	f.Add(interactiveKind, clickSample)
	f.Add(slashKind, slashSample)
	f.Add(eventsKind, `{}`)
	f.Add(interactiveKind, `{"type":"block_actions","user":null,"actions":[null,{"action_id":"approve"}]}`)
	f.Add(interactiveKind, `{"type":"block_actions","container":{"channel_id":"C","message_ts":"1"},"user":{"id":"U"},"actions":[{"action_id":"approve"},{"action_id":"approve"}]}`)
	f.Fuzz(func(t *testing.T, kind, payload string) {
		p, err := parseEnvelope(kind, "e", json.RawMessage(payload))
		if err != nil {
			if len(p.Items) > 0 {
				t.Fatal("items beside an error")
			}
			return
		}
		for _, item := range p.Items {
			var r request
			if err := json.Unmarshal(item.Payload, &r); err != nil || item.ID == "" {
				t.Fatalf("item %q does not read back: %v", item.ID, err)
			}
			switch {
			case r.Slash != nil && r.Slash.UserID != "" && r.Slash.Channel != "":
			case r.Click != nil && r.Click.UserID != "" && r.Click.Channel != "" && r.Click.MessageTS != "":
			default:
				t.Fatalf("a request of nobody: %s", item.Payload)
			}
		}
	})
}
