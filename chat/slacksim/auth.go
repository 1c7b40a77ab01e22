package slacksim

import (
	"slices"
	"strings"
)

// The tokens are the same in every workspace: they guard nothing outside this process.
const (
	botToken = "xoxb-0-simulated-bot"
	appToken = "xapp-1-simulated-app"
)

// route is a Web API method: what it needs and what it does. handle runs with mu held.
type route struct {
	app    bool   // needs the app-level token rather than the bot token
	scope  string // empty: none, or decided by the handler
	handle func(*call) (map[string]any, error)
}

// routes lists the methods there are; any other is unknown_method.
func (ws *Workspace) routes() map[string]route {
	return map[string]route{
		"auth.test":                    {handle: ws.authTest},
		"apps.connections.open":        {app: true, handle: ws.connectionsOpen},
		"chat.postMessage":             {scope: "chat:write", handle: ws.postMessage},
		"chat.update":                  {scope: "chat:write", handle: ws.updateMessage},
		"chat.delete":                  {scope: "chat:write", handle: ws.deleteMessage},
		"chat.postEphemeral":           {scope: "chat:write", handle: ws.postEphemeral},
		"chat.getPermalink":            {handle: ws.getPermalink},
		"conversations.info":           {handle: ws.conversationInfo},
		"conversations.history":        {handle: ws.conversationHistory},
		"conversations.replies":        {handle: ws.conversationReplies},
		"conversations.members":        {handle: ws.conversationMembers},
		"conversations.list":           {handle: ws.conversationList},
		"conversations.open":           {scope: "im:write", handle: ws.conversationOpen},
		"users.info":                   {scope: "users:read", handle: ws.userInfo},
		"users.list":                   {scope: "users:read", handle: ws.userList},
		"usergroups.list":              {scope: "usergroups:read", handle: ws.groupList},
		"usergroups.users.list":        {scope: "usergroups:read", handle: ws.groupUsers},
		"reactions.add":                {scope: "reactions:write", handle: ws.addReaction},
		"reactions.remove":             {scope: "reactions:write", handle: ws.removeReaction},
		"views.open":                   {handle: ws.openView},
		"views.push":                   {handle: ws.pushView},
		"views.update":                 {handle: ws.updateView},
		"views.publish":                {handle: ws.publishView},
		"files.getUploadURLExternal":   {scope: "files:write", handle: ws.uploadURL},
		"files.completeUploadExternal": {scope: "files:write", handle: ws.completeUpload},
	}
}

// authorize checks the token and the scope of a call.
func (ws *Workspace) authorize(c *call, rt route) error {
	token := c.args["token"]
	switch {
	case token == "":
		return refuse("not_authed")
	case token != botToken && token != appToken:
		return refuse("invalid_auth")
	case ws.authError != "":
		return refuse(ws.authError)
	case rt.app != (token == appToken):
		return refuse("not_allowed_token_type")
	case rt.scope != "":
		return ws.needScope(rt.scope)
	}
	return nil
}

// needScope refuses unless the app has one of the scopes.
func (ws *Workspace) needScope(anyOf ...string) error {
	if slices.ContainsFunc(anyOf, func(s string) bool { return slices.Contains(ws.scopes, s) }) {
		return nil
	}
	return &apiError{code: "missing_scope", extra: map[string]any{
		"needed": strings.Join(anyOf, ","), "provided": strings.Join(ws.scopes, ","),
	}}
}

// SetScopes replaces the scopes of the bot token.
func (ws *Workspace) SetScopes(scopes ...string) {
	ws.locked(func() { ws.scopes = slices.Clone(scopes) })
}

// RefuseTokens makes every call answer with an error code such as token_revoked or account_inactive; the empty string
// makes the tokens good again.
func (ws *Workspace) RefuseTokens(code string) {
	ws.locked(func() { ws.authError = code })
}

func (ws *Workspace) authTest(*call) (map[string]any, error) {
	return map[string]any{
		"url": ws.workspaceURL(), "team": ws.team.Name, "team_id": ws.team.ID,
		"user": ws.app.Name, "user_id": ws.app.BotUserID, "bot_id": ws.app.BotID, "is_enterprise_install": false,
	}, nil
}

func (ws *Workspace) workspaceURL() string { return "https://" + ws.team.Domain + ".slack.com/" }
