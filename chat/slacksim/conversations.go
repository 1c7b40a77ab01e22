package slacksim

import (
	"slices"
	"strconv"
	"strings"
)

// scopeFor is the scope that reading a channel needs: channels:history for a public one, groups:read for a private one…
func (ws *Workspace) scopeFor(ch *Channel, what string) error {
	switch {
	case ch.IM:
		return ws.needScope("im:" + what)
	case ch.Private:
		return ws.needScope("groups:" + what)
	}
	return ws.needScope("channels:" + what)
}

// readable finds a channel whose messages the bot may read.
func (ws *Workspace) readable(key string) (*Channel, error) {
	ch, err := ws.visible(key)
	if err != nil {
		return nil, err
	}
	if err := ws.scopeFor(ch, "history"); err != nil {
		return nil, err
	}
	if !ch.has(ws.app.BotUserID) {
		return nil, refuse("not_in_channel")
	}
	return ch, nil
}

func (ws *Workspace) conversationInfo(c *call) (map[string]any, error) {
	ch, err := ws.visible(c.args["channel"])
	if err != nil {
		return nil, err
	}
	if err := ws.scopeFor(ch, "read"); err != nil {
		return nil, err
	}
	out := ws.wireChannel(ch)
	if c.args.flag("include_num_members") {
		out["num_members"] = len(ch.Members)
	}
	return map[string]any{"channel": out}, nil
}

func (ws *Workspace) wireChannel(ch *Channel) map[string]any {
	out := map[string]any{
		"id": ch.ID, "is_channel": !ch.Private && !ch.IM, "is_group": ch.Private && !ch.IM, "is_im": ch.IM, "is_mpim": false,
		"is_private": ch.Private || ch.IM, "is_archived": ch.Archived, "is_member": ch.has(ws.app.BotUserID),
		"is_shared": ch.ExtShared || ch.OrgShared, "is_ext_shared": ch.ExtShared, "is_org_shared": ch.OrgShared,
		"is_pending_ext_shared": ch.PendingExtShared, "is_general": ch.Name == "general", "context_team_id": ws.team.ID,
	}
	if ch.IM {
		out["user"] = ws.otherThanBot(ch)
		return out
	}
	out["name"], out["name_normalized"] = ch.Name, ch.Name
	return out
}

func (ws *Workspace) otherThanBot(ch *Channel) string {
	for _, m := range ch.Members {
		if m != ws.app.BotUserID {
			return m
		}
	}
	return ""
}

// conversationHistory lists top-level messages, newest first. Metadata is left out unless asked for.
func (ws *Workspace) conversationHistory(c *call) (map[string]any, error) {
	ch, err := ws.readable(c.args["channel"])
	if err != nil {
		return nil, err
	}
	limit, err := c.args.number("limit", 100, 1, 999)
	if err != nil {
		return nil, err
	}
	var found []*Message
	for _, m := range slices.Backward(ws.messages[ch.ID]) {
		if !m.IsReply() && ws.indexed(m) && inRange(m.TS, c.args) {
			found = append(found, m)
		}
	}
	return ws.page(found, limit, c.args)
}

// conversationReplies lists a thread, its parent first, oldest first.
func (ws *Workspace) conversationReplies(c *call) (map[string]any, error) {
	ch, err := ws.readable(c.args["channel"])
	if err != nil {
		return nil, err
	}
	limit, err := c.args.number("limit", 1000, 1, 1000)
	if err != nil {
		return nil, err
	}
	parent, err := ws.threadParent(ch, c.args["ts"])
	if err != nil || parent == nil {
		return nil, refuse("thread_not_found")
	}
	found := []*Message{parent}
	for _, m := range ws.messages[ch.ID] {
		if m.IsReply() && m.ThreadTS == parent.TS && ws.indexed(m) && inRange(m.TS, c.args) {
			found = append(found, m)
		}
	}
	return ws.page(found, limit, c.args)
}

// indexed says whether a message can be found by reading history yet: Slack's index may lag behind posting.
func (ws *Workspace) indexed(m *Message) bool {
	lag := ws.historyLag
	return lag == 0 || m.TS <= formatTS(ws.opts.Now().Add(-lag).UnixMicro())
}

// inRange applies oldest, latest and inclusive. Timestamps compare as text once they have the same form.
func inRange(ts string, a args) bool {
	inclusive := a.flag("inclusive")
	within := func(bound string, sign int) bool {
		if bound == "" || bound == "0" {
			return true
		}
		d := compareTS(ts, bound) * sign
		return d > 0 || d == 0 && inclusive
	}
	return within(a["oldest"], 1) && within(a["latest"], -1)
}

func compareTS(a, b string) int {
	return int(sign(microsOf(a) - microsOf(b)))
}

func sign(n int64) int64 {
	switch {
	case n > 0:
		return 1
	case n < 0:
		return -1
	}
	return 0
}

// microsOf reads a timestamp with up to six digits after the point.
func microsOf(ts string) int64 {
	sec, frac, _ := strings.Cut(ts, ".")
	s, _ := strconv.ParseInt(sec, 10, 64)
	us, _ := strconv.ParseInt((frac + "000000")[:6], 10, 64)
	return s*1e6 + us
}

// page cuts a list of messages at the limit; the cursor is the offset of the next page.
func (ws *Workspace) page(found []*Message, limit int, a args) (map[string]any, error) {
	start, next, err := window(len(found), limit, a["cursor"])
	if err != nil {
		return nil, err
	}
	out := make([]map[string]any, 0, limit)
	for _, m := range found[start:min(start+limit, len(found))] {
		out = append(out, ws.wire(m, a.flag("include_all_metadata")))
	}
	return map[string]any{"messages": out, "has_more": next != "", "response_metadata": map[string]any{"next_cursor": next}}, nil
}

// window finds where a page starts and the cursor of the page after it; the cursor is empty on the last page.
func window(total, limit int, cursor string) (start int, next string, err error) {
	if cursor != "" {
		offset, ok := strings.CutPrefix(cursor, "offset:")
		start, err = strconv.Atoi(offset)
		if err != nil || !ok || start < 0 || start > total {
			return 0, "", refuse("invalid_cursor")
		}
	}
	if start+limit < total {
		next = "offset:" + strconv.Itoa(start+limit)
	}
	return start, next, nil
}

func (ws *Workspace) conversationMembers(c *call) (map[string]any, error) {
	ch, err := ws.visible(c.args["channel"])
	if err != nil {
		return nil, err
	}
	if err := ws.scopeFor(ch, "read"); err != nil {
		return nil, err
	}
	limit, err := c.args.number("limit", 100, 1, 999)
	if err != nil {
		return nil, err
	}
	start, next, err := window(len(ch.Members), limit, c.args["cursor"])
	if err != nil {
		return nil, err
	}
	members := slices.Clone(ch.Members[start:min(start+limit, len(ch.Members))])
	return map[string]any{"members": members, "response_metadata": map[string]any{"next_cursor": next}}, nil
}

func (ws *Workspace) conversationList(c *call) (map[string]any, error) {
	if err := ws.needScope("channels:read", "groups:read"); err != nil {
		return nil, err
	}
	limit, err := c.args.number("limit", 100, 1, 999)
	if err != nil {
		return nil, err
	}
	types := c.args["types"]
	if types == "" {
		types = "public_channel"
	}
	var found []*Channel
	for _, ch := range ws.channels {
		kind := "public_channel"
		if ch.Private {
			kind = "private_channel"
		}
		if ch.IM {
			kind = "im"
		}
		hidden := (ch.Private || ch.IM) && !ch.has(ws.app.BotUserID) || ch.Archived && c.args.flag("exclude_archived")
		if !hidden && slices.Contains(strings.Split(types, ","), kind) {
			found = append(found, ch)
		}
	}
	start, next, err := window(len(found), limit, c.args["cursor"])
	if err != nil {
		return nil, err
	}
	out := make([]map[string]any, 0, len(found))
	for _, ch := range found[start:min(start+limit, len(found))] {
		out = append(out, ws.wireChannel(ch))
	}
	return map[string]any{"channels": out, "response_metadata": map[string]any{"next_cursor": next}}, nil
}

// conversationOpen opens the direct message with one user, or names a channel that is open already.
func (ws *Workspace) conversationOpen(c *call) (map[string]any, error) {
	if id := c.args["channel"]; id != "" {
		ch, err := ws.visible(id)
		if err != nil {
			return nil, err
		}
		return map[string]any{"channel": ws.openedChannel(ch, c.args)}, nil
	}
	ids := strings.Split(c.args["users"], ",")
	if c.args["users"] == "" {
		return nil, refuse("users_list_not_supplied")
	}
	if len(ids) > 1 {
		if err := ws.needScope("mpim:write"); err != nil {
			return nil, err
		}
		return nil, refuse("method_not_supported_for_channel_type") // messages to a group are not simulated
	}
	u := ws.user(ids[0])
	if u == nil || u.ID != ids[0] {
		return nil, refuse("user_not_found")
	}
	ch, err := ws.directMessage(u)
	if err != nil {
		return nil, err
	}
	return map[string]any{"channel": ws.openedChannel(ch, c.args)}, nil
}

func (ws *Workspace) openedChannel(ch *Channel, a args) map[string]any {
	if a.flag("return_im") {
		return ws.wireChannel(ch)
	}
	return map[string]any{"id": ch.ID}
}

// directMessage finds or opens the direct message between the bot and a user.
func (ws *Workspace) directMessage(u *User) (*Channel, error) {
	if u.Deleted || u.Invited {
		return nil, refuse("user_disabled")
	}
	if u.Bot || u.ID == Slackbot {
		return nil, refuse("cannot_dm_bot")
	}
	for _, ch := range ws.channels {
		if ch.IM && ch.has(u.ID) {
			return ch, nil
		}
	}
	ch := &Channel{ID: ws.nextID("D"), Name: "directmessage", IM: true, Members: []string{u.ID, ws.app.BotUserID}}
	ws.channels = append(ws.channels, ch)
	return ch, nil
}
