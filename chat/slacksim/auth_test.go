package slacksim_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/slack-go/slack"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"blastdoor/chat/slacksim"
)

func TestAuthTest(t *testing.T) {
	ws := start(t, slacksim.Options{})
	res, err := client(t, ws).AuthTest()
	require.NoError(t, err)
	assert.Equal(t, slacksim.TeamID, res.TeamID)
	assert.Equal(t, slacksim.BotUserID, res.UserID)
	assert.Equal(t, slacksim.BotID, res.BotID)
}

func TestTokens(t *testing.T) {
	ws := start(t, slacksim.Options{})
	bot, app := ws.BotToken(), ws.AppToken()
	_, err := clientWith(t, ws, "xoxb-wrong", app).AuthTest()
	refused(t, "invalid_auth", err)
	_, err = clientWith(t, ws, "", app).AuthTest()
	refused(t, "not_authed", err)
	_, _, err = clientWith(t, ws, app, app).PostMessage(slacksim.Ops, text("x"))
	refused(t, "not_allowed_token_type", err)
	_, _, err = clientWith(t, ws, bot, bot).StartSocketModeContext(patience(t))
	refused(t, "not_allowed_token_type", err)
	ws.RefuseTokens("token_revoked")
	_, err = client(t, ws).AuthTest()
	refused(t, "token_revoked", err)
	ws.RefuseTokens("")
	_, err = client(t, ws).AuthTest()
	require.NoError(t, err)
}

func TestMissingScope(t *testing.T) {
	ws := start(t, slacksim.Options{Scopes: []string{"users:read", "channels:read"}})
	api := client(t, ws)
	_, _, err := api.PostMessage(slacksim.Ops, text("x"))
	refused(t, "missing_scope", err)
	var refusal slack.SlackErrorResponse
	require.ErrorAs(t, err, &refusal)
	assert.Equal(t, "chat:write", refusal.Needed)
	assert.Equal(t, "users:read,channels:read", refusal.Provided)
	_, err = api.GetConversationHistory(&slack.GetConversationHistoryParameters{ChannelID: slacksim.Ops})
	refused(t, "missing_scope", err)
	_, err = api.GetConversationInfo(&slack.GetConversationInfoInput{ChannelID: slacksim.Ops})
	require.NoError(t, err)
	_, err = api.GetUserGroupMembers(slacksim.SRE)
	refused(t, "missing_scope", err)
}

// request sends one by hand, for shapes that the client does not use.
func request(t *testing.T, method, target, contentType, body string, header map[string]string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(patience(t), method, target, strings.NewReader(body))
	require.NoError(t, err)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	for k, v := range header {
		if k == "Host" {
			req.Host = v
			continue
		}
		req.Header.Set(k, v)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := transport.RoundTrip(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	var b strings.Builder
	_, err = copyBody(&b, res)
	require.NoError(t, err)
	return res.StatusCode, b.String()
}

// Every shape in which clients send arguments and tokens arrives as the same call.
func TestWireShapes(t *testing.T) {
	ws := start(t, slacksim.Options{})
	target := ws.APIURL() + "chat.postMessage"
	bearer := map[string]string{"Authorization": "Bearer " + ws.BotToken()}
	form := url.Values{"channel": {slacksim.Ops}, "text": {"hi"}}
	withToken := url.Values{"channel": {slacksim.Ops}, "text": {"hi"}, "token": {ws.BotToken()}}
	const formType, jsonType = "application/x-www-form-urlencoded", "application/json; charset=utf-8"
	shapes := map[string]func() (int, string){
		"form with token":  func() (int, string) { return request(t, "POST", target, formType, withToken.Encode(), nil) },
		"form with bearer": func() (int, string) { return request(t, "POST", target, formType, form.Encode(), bearer) },
		"JSON with bearer": func() (int, string) {
			return request(t, "POST", target, jsonType, `{"channel":"C0OPS","text":"hi","thread_ts":null,"unfurl_links":false}`, bearer)
		},
		"GET with bearer": func() (int, string) { return request(t, "GET", target+"?"+form.Encode(), "", "", bearer) },
	}
	for name, send := range shapes {
		t.Run(name, func(t *testing.T) {
			status, body := send()
			assert.Equal(t, http.StatusOK, status)
			assert.Contains(t, body, `"ok":true`)
		})
	}
	for _, e := range ws.Calls("chat.postMessage") {
		assert.NotContains(t, e.Args, "token", "the journal holds no token")
		assert.Equal(t, "hi", e.Args["text"])
	}
	assert.Len(t, ws.Messages("ops"), len(shapes))
}

func TestUnknownMethodAndBadBodies(t *testing.T) {
	ws := start(t, slacksim.Options{})
	_, body := request(t, "POST", ws.APIURL()+"rtm.start", "", "", map[string]string{"Authorization": "Bearer " + ws.BotToken()})
	assert.JSONEq(t, `{"ok":false,"error":"unknown_method"}`, body)
	_, body = request(t, "POST", ws.APIURL()+"auth.test", "application/json", "{", nil)
	assert.JSONEq(t, `{"ok":false,"error":"invalid_json"}`, body)
	_, body = request(t, "POST", ws.APIURL()+"auth.test", "application/x-www-form-urlencoded", "a=%zz", nil)
	assert.JSONEq(t, `{"ok":false,"error":"invalid_form_data"}`, body)
	_, body = request(t, "POST", ws.APIURL()+"auth.test", "", "", nil)
	assert.JSONEq(t, `{"ok":false,"error":"not_authed"}`, body)
}

func TestForeignHostsAndOriginsAreRefused(t *testing.T) {
	ws := start(t, slacksim.Options{})
	port := ws.URL()[strings.LastIndex(ws.URL(), ":"):]
	port = strings.TrimSuffix(port, "/")
	rows := []struct {
		name   string
		header map[string]string
		want   int
	}{
		{"no origin", nil, 200},
		{"own page", map[string]string{"Origin": strings.TrimSuffix(ws.URL(), "/")}, 200},
		{"localhost", map[string]string{"Host": "localhost" + port}, 200},
		{"rebound name", map[string]string{"Host": "evil.example" + port}, 403},
		{"other port", map[string]string{"Host": "127.0.0.1:1"}, 403},
		{"no port", map[string]string{"Host": "127.0.0.1"}, 403},
		{"foreign page", map[string]string{"Origin": "https://evil.example"}, 403},
		{"sandboxed page", map[string]string{"Origin": "null"}, 403},
		{"the client's origin, away from the socket", map[string]string{"Origin": "https://api.slack.com"}, 403},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			status, _ := request(t, "GET", ws.URL(), "", "", row.header)
			assert.Equal(t, row.want, status)
		})
	}
}

func TestStartRefuses(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", ":0", "example.com:80", "127.0.0.1"} {
		_, err := slacksim.Start(slacksim.Options{Addr: addr})
		assert.Error(t, err, addr)
	}
	world := slacksim.DefaultWorld()
	world.Users = append(world.Users, world.Users[0])
	_, err := slacksim.Start(slacksim.Options{World: world})
	assert.ErrorContains(t, err, "used twice")
	world = slacksim.DefaultWorld()
	world.App.BotUserID = "U0NOBODY"
	_, err = slacksim.Start(slacksim.Options{World: world})
	assert.ErrorContains(t, err, "U0NOBODY")
	world = slacksim.DefaultWorld()
	world.Channels[0].Members = []string{"U0NOBODY"}
	_, err = slacksim.Start(slacksim.Options{World: world})
	assert.ErrorContains(t, err, "unknown member")
}
