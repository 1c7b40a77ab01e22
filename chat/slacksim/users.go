package slacksim

import (
	"regexp"
	"slices"
)

func (ws *Workspace) userInfo(c *call) (map[string]any, error) {
	u := ws.user(c.args["user"])
	if u == nil || u.ID != c.args["user"] {
		return nil, refuse("user_not_found")
	}
	return map[string]any{"user": ws.wireUser(u)}, nil
}

func (ws *Workspace) wireUser(u *User) map[string]any {
	out := map[string]any{
		"id": u.ID, "team_id": u.TeamID, "name": u.Name, "real_name": u.RealName, "deleted": u.Deleted, "is_bot": u.Bot, "tz": "UTC",
		"is_restricted": u.Restricted, "is_ultra_restricted": u.UltraRestricted, "is_app_user": false,
		"is_admin": false, "is_owner": false, "is_primary_owner": false,
		"profile": map[string]any{"real_name": u.RealName, "display_name": u.Name, "team": u.TeamID},
	}
	if u.Stranger { // absent for people of the own workspace
		out["is_stranger"] = true
	}
	if u.Invited {
		out["is_invited_user"] = true
	}
	return out
}

func (ws *Workspace) userList(c *call) (map[string]any, error) {
	limit, err := c.args.number("limit", 1000, 1, 1000)
	if err != nil {
		return nil, err
	}
	start, next, err := window(len(ws.users), limit, c.args["cursor"])
	if err != nil {
		return nil, err
	}
	out := make([]map[string]any, 0, len(ws.users))
	for _, u := range ws.users[start:min(start+limit, len(ws.users))] {
		out = append(out, ws.wireUser(u))
	}
	return map[string]any{"members": out, "response_metadata": map[string]any{"next_cursor": next}}, nil
}

func (ws *Workspace) groupList(c *call) (map[string]any, error) {
	out := make([]map[string]any, 0, len(ws.groups))
	for _, g := range ws.groups {
		if g.Disabled && !c.args.flag("include_disabled") {
			continue
		}
		item := map[string]any{"id": g.ID, "team_id": ws.team.ID, "is_usergroup": true, "name": g.Name, "handle": g.Handle, "user_count": len(g.Members)}
		if g.Disabled {
			item["date_delete"] = 1
		}
		if c.args.flag("include_users") {
			item["users"] = slices.Clone(g.Members)
		}
		out = append(out, item)
	}
	return map[string]any{"usergroups": out}, nil
}

// groupUsers lists the members of a group; a disabled group counts as empty unless include_disabled is set.
func (ws *Workspace) groupUsers(c *call) (map[string]any, error) {
	g := ws.group(c.args["usergroup"])
	if g == nil || g.ID != c.args["usergroup"] {
		return nil, refuse("no_such_subteam")
	}
	members := slices.Clone(g.Members)
	if g.Disabled && !c.args.flag("include_disabled") {
		members = []string{}
	}
	return map[string]any{"users": members}, nil
}

var emojiName = regexp.MustCompile(`^[a-z0-9_+'-]+$`)

// reacted finds the message a reaction is about and the name of the emoji.
func (ws *Workspace) reacted(c *call) (*Message, string, error) {
	name := c.args["name"]
	if !emojiName.MatchString(name) {
		return nil, "", refuse("invalid_name")
	}
	ch, err := ws.visible(c.args["channel"])
	if err != nil {
		return nil, "", err
	}
	m := ws.find(ch.ID, c.args["timestamp"])
	switch {
	case ch.Archived:
		return nil, "", refuse("is_archived")
	case !ch.has(ws.app.BotUserID):
		return nil, "", refuse("not_in_channel")
	case m == nil || m.Tombstone:
		return nil, "", refuse("message_not_found")
	}
	return m, name, nil
}

func (ws *Workspace) addReaction(c *call) (map[string]any, error) {
	m, name, err := ws.reacted(c)
	if err != nil {
		return nil, err
	}
	bot := ws.app.BotUserID
	for i, r := range m.Reactions {
		if r.Name != name {
			continue
		}
		if slices.Contains(r.Users, bot) {
			return nil, refuse("already_reacted")
		}
		m.Reactions[i].Users = append(slices.Clone(r.Users), bot)
		ws.touch(m)
		return nil, nil
	}
	m.Reactions = append(m.Reactions, Reaction{Name: name, Users: []string{bot}})
	ws.touch(m)
	return nil, nil
}

func (ws *Workspace) removeReaction(c *call) (map[string]any, error) {
	m, name, err := ws.reacted(c)
	if err != nil {
		return nil, err
	}
	bot := ws.app.BotUserID
	for i, r := range m.Reactions {
		if r.Name != name || !slices.Contains(r.Users, bot) {
			continue
		}
		ws.touch(m)
		left := slices.DeleteFunc(slices.Clone(r.Users), func(u string) bool { return u == bot })
		if len(left) == 0 {
			m.Reactions = slices.Delete(slices.Clone(m.Reactions), i, i+1)
			return nil, nil
		}
		m.Reactions[i].Users = left
		return nil, nil
	}
	return nil, refuse("no_reaction")
}
