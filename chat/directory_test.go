package chat

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"blastdoor"
	"blastdoor/chat/slacksim"
)

func startSlack(t *testing.T, o slacksim.Options) *slacksim.Workspace {
	t.Helper()
	ws, err := slacksim.Start(o)
	require.NoError(t, err)
	t.Cleanup(ws.Close)
	return ws
}

func TestDirectoryFlags(t *testing.T) {
	ws := startSlack(t, slacksim.Options{})
	dir, err := NewDirectory(DirectoryOptions{Token: ws.BotToken(), APIURL: ws.APIURL(), Timeout: 10 * time.Second})
	require.NoError(t, err)
	for _, tc := range []struct {
		id, team string
		want     blastdoor.Principal
	}{
		{slacksim.Bob, slacksim.TeamID, blastdoor.Principal{}},
		{slacksim.Bob, slacksim.OtherTeamID, blastdoor.Principal{External: true}}, // the payload says another team
		{slacksim.Gina, slacksim.TeamID, blastdoor.Principal{Guest: true}},
		{slacksim.Uma, slacksim.TeamID, blastdoor.Principal{Guest: true}},
		{slacksim.Erin, slacksim.OtherTeamID, blastdoor.Principal{External: true}},
		{slacksim.Dora, slacksim.TeamID, blastdoor.Principal{Inactive: true}},
		{slacksim.Ivan, slacksim.TeamID, blastdoor.Principal{Inactive: true}},
		{slacksim.OtherBot, slacksim.TeamID, blastdoor.Principal{Bot: true}},
		{slacksim.Slackbot, slacksim.TeamID, blastdoor.Principal{Bot: true}},
		{slacksim.BotUserID, slacksim.TeamID, blastdoor.Principal{Bot: true}},
	} {
		p, err := dir.Person(t.Context(), tc.id, tc.team)
		require.NoError(t, err, tc.id)
		assert.True(t, p.Verified)
		assert.Equal(t, tc.id, p.UserID)
		assert.NotEmpty(t, p.Name)
		flags := blastdoor.Principal{Bot: p.Bot, Guest: p.Guest, External: p.External, Inactive: p.Inactive}
		assert.Equal(t, tc.want, flags, "%s of %s", tc.id, tc.team)
		assert.Equal(t, tc.want == blastdoor.Principal{}, p.FullMember())
	}
}

// TestDirectoryIsFresh: who is deactivated now is deactivated in the next answer.
func TestDirectoryIsFresh(t *testing.T) {
	ws := startSlack(t, slacksim.Options{})
	dir, err := NewDirectory(DirectoryOptions{Token: ws.BotToken(), APIURL: ws.APIURL(), Timeout: 10 * time.Second})
	require.NoError(t, err)
	p, err := dir.Person(t.Context(), slacksim.Bob, slacksim.TeamID)
	require.NoError(t, err)
	require.True(t, p.FullMember())
	require.NoError(t, ws.Deactivate("bob"))
	p, err = dir.Person(t.Context(), slacksim.Bob, slacksim.TeamID)
	require.NoError(t, err)
	assert.False(t, p.FullMember())

	in, err := dir.Groups(t.Context(), slacksim.Carol, []string{slacksim.SRE, "S0GHOST"})
	require.NoError(t, err)
	assert.Equal(t, []string{slacksim.SRE}, in, "an unknown group has no members")
	require.NoError(t, ws.ChangeGroup("sre", func(g *slacksim.Group) { g.Disabled = true }))
	in, err = dir.Groups(t.Context(), slacksim.Carol, []string{slacksim.SRE})
	require.NoError(t, err)
	assert.Empty(t, in, "a disabled group has no members")
	in, err = dir.Groups(t.Context(), slacksim.Mallory, nil)
	require.NoError(t, err)
	assert.Empty(t, in)
}

func TestDirectoryFailsClosed(t *testing.T) {
	ws := startSlack(t, slacksim.Options{})
	dir, err := NewDirectory(DirectoryOptions{Token: ws.BotToken(), APIURL: ws.APIURL(), Timeout: 10 * time.Second})
	require.NoError(t, err)
	for _, f := range []slacksim.Fault{{Kind: slacksim.RateLimited, RetryAfter: time.Second}, {Kind: slacksim.RateLimitedNoHeader},
		{Kind: slacksim.OKRateLimited}, {Kind: slacksim.Status, Status: 503}, {Kind: slacksim.CutBeforeCommit}, {Kind: slacksim.ErrorBeforeCommit}} {
		f.Method = "users.info"
		ws.Inject(f)
		_, err := dir.Person(t.Context(), slacksim.Bob, slacksim.TeamID)
		assert.True(t, blastdoor.ErrUnavailable.Is(err), "%s: %v", f.Kind, err)
		f.Method = "usergroups.users.list"
		ws.Inject(f)
		_, err = dir.Groups(t.Context(), slacksim.Bob, []string{slacksim.SRE})
		assert.True(t, blastdoor.ErrUnavailable.Is(err), "%s: %v", f.Kind, err)
	}
	for _, id := range []string{"", "U0GHOST", "not an id", "<@U0BOB>"} {
		_, err := dir.Person(t.Context(), id, slacksim.TeamID)
		assert.True(t, blastdoor.ErrUnavailable.Is(err), id)
	}
	_, err = dir.Person(t.Context(), slacksim.Bob, "")
	assert.True(t, blastdoor.ErrUnavailable.Is(err), "no team")
}

// TestDirectoryRefusesOddAnswers: an answer that does not say everything vouches
// for nobody. The first row is the control: the same answer, whole, is taken.
func TestDirectoryRefusesOddAnswers(t *testing.T) {
	const whole = `"id":"U1","team_id":"T1","deleted":false,"is_bot":false,"is_restricted":false,"is_ultra_restricted":false`
	for _, tc := range []struct {
		body string
		ok   bool
	}{
		{`{"ok":true,"user":{` + whole + `}}`, true},
		{`{"user":{` + whole + `}}`, false},
		{`{"ok":false,"user":{` + whole + `}}`, false},
		{`{"ok":true,"user":{"id":"U2","team_id":"T1","deleted":false,"is_bot":false,"is_restricted":false,"is_ultra_restricted":false}}`, false},
		{`{"ok":true,"user":{"id":"U1","deleted":false,"is_bot":false,"is_restricted":false,"is_ultra_restricted":false}}`, false},
		{`{"ok":true,"user":{"id":"U1","team_id":"T1","is_bot":false,"is_restricted":false,"is_ultra_restricted":false}}`, false},
		{`{"ok":true,"user":{"id":"U1","team_id":"T1","deleted":false,"is_restricted":false,"is_ultra_restricted":false}}`, false},
		{`{"ok":true,"user":{"id":"U1","team_id":"T1","deleted":false,"is_bot":false,"is_ultra_restricted":false}}`, false},
		{`{"ok":true,"user":{"id":"U1","team_id":"T1","deleted":false,"is_bot":false,"is_restricted":false}}`, false},
		{`{"ok":true,"user":{` + whole, false},
		{`{"ok":true}`, false},
		{`<html>`, false},
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if r.URL.Path == "/api/auth.test" {
				fmt.Fprint(w, `{"ok":true,"team_id":"T1","user_id":"UBOT","bot_id":"B1"}`)
				return
			}
			fmt.Fprint(w, tc.body)
		}))
		dir, err := NewDirectory(DirectoryOptions{Token: "xoxb-1", APIURL: srv.URL + "/api/", Timeout: 10 * time.Second})
		require.NoError(t, err)
		p, err := dir.Person(t.Context(), "U1", "T1")
		if tc.ok {
			require.NoError(t, err, tc.body)
			assert.True(t, p.FullMember())
		} else {
			assert.Error(t, err, tc.body)
			assert.Equal(t, blastdoor.Principal{}, p, "nobody")
		}
		srv.Close()
	}
}

// TestEnterpriseColleague: a colleague of a sister workspace with access to ours is
// no stranger; one without access, or of another organisation, is.
func TestEnterpriseColleague(t *testing.T) {
	no := false
	self := installation{TeamID: "T1", EnterpriseID: "E1", BotUserID: "UBOT"}
	make := func(org string, teams ...string) person {
		p := person{ID: "U1", TeamID: "T2", Deleted: &no, IsBot: &no, IsRestricted: &no, IsUltra: &no}
		p.EnterpriseMember = &struct {
			ID           string   `json:"id"`
			EnterpriseID string   `json:"enterprise_id"`
			Teams        []string `json:"teams"`
		}{"W1", org, teams}
		return p
	}
	got := make("E1", "T1", "T2").principal(self, "T2")
	assert.True(t, got.FullMember())
	assert.Equal(t, "W1", got.EnterpriseUserID)
	assert.True(t, make("E1", "T2").principal(self, "T2").External, "without access to our workspace")
	assert.True(t, make("E2", "T1", "T2").principal(self, "T2").External, "of another organisation")
	assert.True(t, make("E1", "T1", "T2").principal(self, "T3").External, "the payload names a third team")
	stranger := make("E1", "T1", "T2")
	stranger.IsStranger = true
	assert.True(t, stranger.principal(self, "T2").External)
	bot := make("E1", "T1", "T2")
	bot.IsWorkflowBot = true
	assert.True(t, bot.principal(self, "T2").Bot)
}
