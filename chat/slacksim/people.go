package slacksim

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"blastdoor/chat/blockkit"
)

// Person does in the workspace what a person does in a Slack client. Each method acts under the rules of the moment: a
// person deactivated since then can do nothing.
type Person struct {
	ws  *Workspace
	key string
}

// As returns the person with this name or id. Whether there is one shows when they do something.
func (ws *Workspace) As(user string) *Person { return &Person{ws: ws, key: user} }

// active finds the user and a channel they are in. The caller holds mu.
func (p *Person) active(channel string) (*User, *Channel, error) {
	u := p.ws.user(p.key)
	switch {
	case u == nil:
		return nil, nil, fmt.Errorf("%s: %w", p.key, ErrNoUser)
	case u.Deleted || u.Invited || u.Bot || u.ID == Slackbot:
		return nil, nil, fmt.Errorf("%s cannot use a Slack client: %w", u.Name, ErrNotAllowed)
	}
	ch := p.ws.channel(channel)
	switch {
	case ch == nil:
		return nil, nil, fmt.Errorf("%s: %w", channel, ErrNoChannel)
	case !ch.has(u.ID):
		return nil, nil, fmt.Errorf("%s is not in #%s: %w", u.Name, ch.Name, ErrNotVisible)
	}
	return u, ch, nil
}

// Slash types a slash command in a channel and waits for the ack or the deadline. Slack refuses it for people outside
// the channel, for external people, and for a command no app has; those are errors, and the app hears nothing.
func (p *Person) Slash(channel, line string) (Outcome, error) {
	ws := p.ws
	command, text, _ := strings.Cut(strings.TrimSpace(line), " ")
	ws.mu.Lock()
	u, ch, err := p.active(channel)
	switch {
	case err != nil:
	case u.TeamID != ws.team.ID:
		err = fmt.Errorf("an external person cannot use %s: %w", command, ErrNotAllowed)
	case ch.Archived:
		err = fmt.Errorf("#%s is archived: %w", ch.Name, ErrNotAllowed)
	case !slices.Contains(ws.opts.Commands, command):
		err = fmt.Errorf("%s is not a valid command: %w", command, ErrNotAllowed)
	}
	if err != nil {
		ws.mu.Unlock()
		return Outcome{}, err
	}
	payload := ws.slashPayload(u, ch, command, strings.TrimSpace(text))
	d := ws.envelope(TypeSlash, payload)
	d.command, d.channel, d.user = command, ch.ID, u.ID
	ws.mu.Unlock()
	out := ws.deliver(d)
	out.TriggerID, _ = payload["trigger_id"].(string)
	return out, nil
}

func (ws *Workspace) slashPayload(u *User, ch *Channel, command, text string) map[string]any {
	name := ch.Name
	switch {
	case ch.IM:
		name = "directmessage"
	case ch.Private:
		name = "privategroup"
	}
	return map[string]any{
		"token": "deprecated", "team_id": ws.team.ID, "team_domain": ws.team.Domain, "channel_id": ch.ID, "channel_name": name,
		"user_id": u.ID, "user_name": u.Name, "command": command, "text": ws.escapeNames(text), "api_app_id": ws.app.ID,
		"is_enterprise_install": "false", "response_url": ws.newHook("commands", &hook{channel: ch.ID, user: u.ID}), "trigger_id": ws.newTrigger(u.ID),
	}
}

var namePattern = regexp.MustCompile(`(^|\s)[@#][a-z0-9][a-z0-9._-]*`)

// escapeNames writes the names of people, channels and groups as ids, as the manifest's should_escape asks for.
func (ws *Workspace) escapeNames(text string) string {
	return namePattern.ReplaceAllStringFunc(text, func(match string) string {
		i := strings.IndexAny(match, "@#")
		space, sign, name := match[:i], match[i], match[i+1:]
		if sign == '#' {
			if ch := ws.channel(name); ch != nil && ch.Name == name {
				return space + "<#" + ch.ID + "|" + name + ">"
			}
			return match
		}
		if u := ws.user(name); u != nil && u.Name == name {
			return space + "<@" + u.ID + "|" + name + ">"
		}
		if g := ws.group(name); g != nil && g.Handle == name {
			return space + "<!subteam^" + g.ID + ">"
		}
		return match
	})
}

// Click clicks the button with this action id in a message the person sees, confirms the dialog if there is one, and
// waits for the ack or the deadline. The button must be in the message as it stands now.
func (p *Person) Click(msg Message, actionID string) (Outcome, error) {
	ws := p.ws
	ws.mu.Lock()
	current, err := p.clickable(msg)
	var payload map[string]any
	if err == nil {
		payload, err = ws.clickPayload(ws.user(p.key), current, actionID)
	}
	if err != nil {
		ws.mu.Unlock()
		return Outcome{}, fmt.Errorf("clicking %s: %w", actionID, err)
	}
	d := ws.envelope(TypeInteractive, payload)
	ws.mu.Unlock()
	out := ws.deliver(d)
	out.TriggerID, _ = payload["trigger_id"].(string)
	return out, nil
}

// clickable finds the message as this person sees it now. The caller holds mu.
func (p *Person) clickable(msg Message) (*Message, error) {
	u, ch, err := p.active(msg.Channel)
	if err != nil {
		return nil, err
	}
	if msg.EphemeralTo == "" {
		if m := p.ws.find(ch.ID, msg.TS); m != nil && !m.Tombstone {
			return m, nil
		}
		return nil, ErrNoMessage
	}
	for _, m := range p.ws.ephemerals {
		if m.Channel == ch.ID && m.TS == msg.TS {
			if m.EphemeralTo != u.ID {
				return nil, ErrNotVisible
			}
			return m, nil
		}
	}
	return nil, ErrNoMessage
}

// ForceClick sends a click that Slack would not have let happen, or that was already on its way when things changed: by
// a person who is deactivated or outside, on the message exactly as given. change, if not nil, may rewrite the payload
// further. It serves to prove that the app checks for itself.
func (p *Person) ForceClick(msg Message, actionID string, change func(payload map[string]any)) (Outcome, error) {
	payload, err := p.ClickPayload(msg, actionID)
	if err != nil {
		return Outcome{}, err
	}
	if change != nil {
		change(payload)
	}
	return p.ws.Forge(TypeInteractive, payload), nil
}

// ClickPayload is the block_actions payload of a click, not sent; Forge sends it.
func (p *Person) ClickPayload(msg Message, actionID string) (map[string]any, error) {
	ws := p.ws
	ws.mu.Lock()
	defer ws.mu.Unlock()
	u := ws.user(p.key)
	if u == nil {
		return nil, fmt.Errorf("%s: %w", p.key, ErrNoUser)
	}
	payload, err := ws.clickPayload(u, &msg, actionID)
	if err != nil {
		return nil, fmt.Errorf("clicking %s: %w", actionID, err)
	}
	return payload, nil
}

func (ws *Workspace) clickPayload(u *User, m *Message, actionID string) (map[string]any, error) {
	list := elements(m.Blocks)
	i := slices.IndexFunc(list, func(e element) bool { return e.obj["action_id"] == actionID && e.obj["type"] == "button" })
	if i < 0 {
		return nil, ErrNoButton
	}
	button := list[i]
	if only, ok := button.obj["visible_to_user_ids"].([]any); ok && len(only) > 0 && !slices.Contains(only, any(u.ID)) {
		return nil, ErrNotVisible
	}
	action := map[string]any{"type": "button", "action_id": actionID, "block_id": button.blockID, "text": button.obj["text"], "action_ts": ws.nextTS()}
	for _, key := range []string{"value", "style", "url"} {
		if v, ok := button.obj[key]; ok {
			action[key] = v
		}
	}
	container := map[string]any{"type": "message", "message_ts": m.TS, "channel_id": m.Channel, "is_ephemeral": m.EphemeralTo != ""}
	if m.ThreadTS != "" {
		container["thread_ts"] = m.ThreadTS
	}
	message := ws.wire(m, true)
	if m.EphemeralTo != "" {
		message = map[string]any{"type": "message", "ts": m.TS}
	}
	name := m.Channel
	if ch := ws.channel(m.Channel); ch != nil {
		name = ch.Name
	}
	h := &hook{channel: m.Channel, user: u.ID, message: m.TS, ephemeral: m.EphemeralTo != ""}
	return map[string]any{
		"type": "block_actions", "token": "deprecated", "api_app_id": ws.app.ID, "team": map[string]any{"id": ws.team.ID, "domain": ws.team.Domain},
		"enterprise": nil, "is_enterprise_install": false,
		"user":      map[string]any{"id": u.ID, "username": u.Name, "name": u.Name, "team_id": u.TeamID},
		"container": container, "channel": map[string]any{"id": m.Channel, "name": name}, "message": message,
		"trigger_id": ws.newTrigger(u.ID), "response_url": ws.newHook("actions", h),
		"state": map[string]any{"values": map[string]any{}}, "actions": []any{action},
	}, nil
}

// Messages is what this person sees in a channel, oldest first: its messages, its threads, and their own ephemeral ones.
// Someone who cannot see the channel sees nothing. A full member can look into a public channel without joining it.
func (p *Person) Messages(channel string) []Message {
	ws := p.ws
	ws.mu.Lock()
	defer ws.mu.Unlock()
	u, ch := ws.user(p.key), ws.channel(channel)
	if u == nil || ch == nil || !mayLook(ws, u, ch) {
		return nil
	}
	var out []Message
	for _, m := range ws.messages[ch.ID] {
		out = append(out, ws.snapshot(m))
	}
	for _, m := range ws.ephemerals {
		if m.Channel == ch.ID && m.EphemeralTo == u.ID {
			out = append(out, ws.snapshot(m))
		}
	}
	slices.SortFunc(out, func(a, b Message) int { return compareTS(a.TS, b.TS) })
	return out
}

func mayLook(ws *Workspace, u *User, ch *Channel) bool {
	if u.Deleted || u.Invited {
		return false
	}
	return ch.has(u.ID) || !ch.Private && !ch.IM && u.TeamID == ws.team.ID && !u.Restricted
}

// Say posts a message as this person.
func (p *Person) Say(channel, text string) (Message, error) { return p.say(channel, "", text) }

// Reply posts a message as this person in the thread of another.
func (p *Person) Reply(msg Message, text string) (Message, error) {
	ts := msg.TS
	if msg.IsReply() {
		ts = msg.ThreadTS
	}
	return p.say(msg.Channel, ts, text)
}

func (p *Person) say(channel, threadTS, text string) (Message, error) {
	ws := p.ws
	ws.mu.Lock()
	defer ws.mu.Unlock()
	u, ch, err := p.active(channel)
	if err != nil {
		return Message{}, fmt.Errorf("posting: %w", err)
	}
	m := &Message{Channel: ch.ID, User: u.ID, Team: u.TeamID, Text: blockkit.Escape(text)}
	if threadTS != "" {
		parent := ws.find(ch.ID, threadTS)
		if parent == nil {
			return Message{}, fmt.Errorf("posting: %w", ErrNoMessage)
		}
		ws.attach(m, parent)
	}
	ws.add(m)
	ws.bump()
	return ws.snapshot(m), nil
}

// Join makes the person a member of a channel; Leave takes them out. The rules of invitations are not simulated.
func (p *Person) Join(channel string) error { return p.membership(channel, true) }

// Leave takes the person out of a channel.
func (p *Person) Leave(channel string) error { return p.membership(channel, false) }

func (p *Person) membership(channel string, in bool) error {
	ws := p.ws
	ws.mu.Lock()
	defer ws.mu.Unlock()
	u, ch := ws.user(p.key), ws.channel(channel)
	switch {
	case u == nil:
		return fmt.Errorf("%s: %w", p.key, ErrNoUser)
	case ch == nil:
		return fmt.Errorf("%s: %w", channel, ErrNoChannel)
	case in && !ch.has(u.ID):
		ch.Members = append(slices.Clone(ch.Members), u.ID)
	case !in:
		ch.Members = slices.DeleteFunc(slices.Clone(ch.Members), func(m string) bool { return m == u.ID })
	}
	ws.bump()
	return nil
}

// OpenHome opens the app's Home (tab "home") or its messages (tab "messages"): the app gets app_home_opened.
func (p *Person) OpenHome(tab string) (Outcome, error) {
	ws := p.ws
	ws.mu.Lock()
	u := ws.user(p.key)
	if u == nil || u.Deleted || u.Invited || u.Bot || u.TeamID != ws.team.ID {
		ws.mu.Unlock()
		return Outcome{}, fmt.Errorf("opening the app's Home as %s: %w", p.key, ErrNotAllowed)
	}
	dm, err := ws.directMessage(u)
	if err != nil {
		ws.mu.Unlock()
		return Outcome{}, fmt.Errorf("opening the app's Home: %w", err)
	}
	event := map[string]any{"type": "app_home_opened", "user": u.ID, "channel": dm.ID, "tab": tab, "event_ts": ws.nextTS()}
	if id := ws.homes[u.ID]; id != "" && tab == "home" {
		event["view"] = ws.wireView(ws.views[id])
	}
	payload := ws.eventPayload(event)
	ws.mu.Unlock()
	return ws.sendEvent(payload), nil
}

func (ws *Workspace) eventPayload(event map[string]any) map[string]any {
	return map[string]any{
		"token": "deprecated", "team_id": ws.team.ID, "context_team_id": ws.team.ID, "context_enterprise_id": nil, "api_app_id": ws.app.ID,
		"type": "event_callback", "event_id": ws.nextID("Ev"), "event_time": ws.opts.Now().Unix(), "is_ext_shared_channel": false,
		"authorizations": []any{map[string]any{"enterprise_id": nil, "team_id": ws.team.ID, "user_id": ws.app.BotUserID, "is_bot": true, "is_enterprise_install": false}},
		"event":          event,
	}
}
