package slacksim

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"blastdoor/chat/blockkit"
)

// Lengths of a message's text, in characters as stored.
// Sources: https://docs.slack.dev/reference/methods/chat.postMessage and chat.update.
const (
	maxPostText      = 40000 // longer text is cut
	maxUpdateText    = 4000  // longer text is msg_too_long
	maxEphemeralText = 4000
	maxMetadata      = 8000 // bytes of event_payload; Slack does not state the figure
)

// content is what a caller wants to show: checked and in stored form.
type content struct {
	text     string
	hasText  bool
	blocks   json.RawMessage // nil when there are none
	metadata *Metadata
	hasMeta  bool
}

// readContent checks text, blocks and metadata of a call.
func (ws *Workspace) readContent(a args) (content, error) {
	var c content
	var err error
	if c.text, c.hasText = a["text"]; c.hasText {
		c.text = blockkit.AsStored(c.text, true)
	}
	if c.blocks, err = ws.readBlocks(a["blocks"]); err != nil {
		return c, err
	}
	if raw := a["attachments"]; raw != "" && raw != "null" && raw != "[]" {
		return c, refuse("invalid_attachments") // not simulated: better refused than silently lost
	}
	if raw, ok := a["metadata"]; ok && raw != "" {
		c.hasMeta = true
		c.metadata, err = readMetadata(raw)
	}
	return c, err
}

func (c content) empty() bool { return c.text == "" && c.blocks == nil }

func (ws *Workspace) readBlocks(raw string) (json.RawMessage, error) {
	if raw == "" || raw == "null" {
		return nil, nil
	}
	if problems := blockkit.Check(json.RawMessage(raw), blockkit.Message); len(problems) > 0 {
		return nil, invalidBlocks("invalid_blocks", problems)
	}
	if strings.TrimSpace(raw) == "[]" {
		return nil, nil
	}
	return ws.storeBlocks(json.RawMessage(raw))
}

// invalidBlocks is a refusal with the list of problems in both places where Slack puts it.
func invalidBlocks(code string, problems []blockkit.Problem) error {
	if problems[0].Code == blockkit.CodeMalformed {
		code = "invalid_blocks_format"
	}
	errs := make([]string, 0, len(problems))
	messages := make([]string, 0, len(problems))
	for _, p := range problems {
		errs = append(errs, p.Message)
		messages = append(messages, "[ERROR] "+p.Message)
	}
	return &apiError{code: code, extra: map[string]any{"errors": errs, "response_metadata": map[string]any{"messages": messages}}}
}

// readMetadata returns nil for {}, which means "remove it" in an update.
func readMetadata(raw string) (*Metadata, error) {
	var m Metadata
	if err := json.Unmarshal([]byte(raw), &m); err != nil {
		return nil, refuse("invalid_metadata_format")
	}
	switch {
	case m.EventType == "":
		return nil, nil
	case len(m.EventType) > 255:
		return nil, refuse("invalid_metadata_schema")
	case len(m.EventPayload) > maxMetadata:
		return nil, refuse("metadata_too_large")
	case len(m.EventPayload) == 0 || m.EventPayload[0] != '{':
		return nil, refuse("invalid_metadata_schema")
	}
	return &m, nil
}

// writable finds a channel the bot may post to.
func (ws *Workspace) writable(key string) (*Channel, error) {
	ch, err := ws.visible(key)
	switch {
	case err != nil:
		return nil, err
	case ch.Archived:
		return nil, refuse("is_archived")
	case !ch.has(ws.app.BotUserID) && ws.needScope("chat:write.public") != nil:
		return nil, refuse("not_in_channel")
	}
	return ch, nil
}

// visible finds a channel the bot may know of: a private one only from the inside.
func (ws *Workspace) visible(key string) (*Channel, error) {
	ch := ws.channel(key)
	if key == "" || ch == nil || ch.Private && !ch.has(ws.app.BotUserID) {
		return nil, refuse("channel_not_found")
	}
	return ch, nil
}

func (ws *Workspace) postMessage(c *call) (map[string]any, error) {
	ch, err := ws.postTarget(c.args["channel"])
	if err != nil {
		return nil, err
	}
	body, err := ws.readContent(c.args)
	if err != nil {
		return nil, err
	}
	if body.empty() {
		return nil, refuse("no_text")
	}
	body.text = truncate(body.text, maxPostText)
	parent, err := ws.threadParent(ch, c.args["thread_ts"])
	if err != nil {
		return nil, err
	}
	m := ws.botMessage(ch.ID, body)
	ws.attach(m, parent)
	ws.add(m)
	return map[string]any{"channel": ch.ID, "ts": m.TS, "message": ws.wire(m, true)}, nil
}

// postTarget is a channel, or the direct message with a user when their id is given.
func (ws *Workspace) postTarget(key string) (*Channel, error) {
	if u := ws.user(key); u != nil && u.ID == key {
		return ws.directMessage(u)
	}
	return ws.writable(key)
}

// threadParent finds the message a reply hangs under. The timestamp of a reply stands for its own parent.
func (ws *Workspace) threadParent(ch *Channel, ts string) (*Message, error) {
	if ts == "" {
		return nil, nil
	}
	m := ws.find(ch.ID, ts)
	if m != nil && m.IsReply() {
		m = ws.find(ch.ID, m.ThreadTS)
	}
	if m == nil {
		return nil, refuse("thread_not_found")
	}
	return m, nil
}

// updateMessage follows chat.update: text without blocks removes the blocks, metadata stays unless given, only the app's
// own messages, and "edited" is set only when the text changes.
// Source: https://docs.slack.dev/reference/methods/chat.update
func (ws *Workspace) updateMessage(c *call) (map[string]any, error) {
	ch, err := ws.writable(c.args["channel"])
	if err != nil {
		return nil, err
	}
	m, err := ws.own(ch, c.args["ts"], "cant_update_message")
	if err != nil {
		return nil, err
	}
	body, err := ws.readContent(c.args)
	switch {
	case err != nil:
		return nil, err
	case body.empty():
		return nil, refuse("no_text")
	case blockkit.Length(body.text) > maxUpdateText:
		return nil, refuse("msg_too_long")
	case onlyRichText(m.Blocks) && body.blocks != nil && !hasBlock(body.blocks, "rich_text"):
		return nil, refuse("block_mismatch")
	}
	if body.text != m.Text {
		m.Edited = &Edit{User: ws.app.BotUserID, TS: ws.nextTS()}
	}
	m.Text, m.Blocks = body.text, body.blocks
	if body.hasMeta {
		m.Metadata = body.metadata
	}
	ws.touch(m)
	return map[string]any{"channel": ch.ID, "ts": m.TS, "text": m.Text, "message": ws.wire(m, true)}, nil
}

// own finds a message that the app itself posted.
func (ws *Workspace) own(ch *Channel, ts, refusal string) (*Message, error) {
	m := ws.find(ch.ID, ts)
	switch {
	case m == nil || m.Tombstone:
		return nil, refuse("message_not_found")
	case m.BotID != ws.app.BotID:
		return nil, refuse(refusal)
	}
	return m, nil
}

func (ws *Workspace) deleteMessage(c *call) (map[string]any, error) {
	ch, err := ws.writable(c.args["channel"])
	if err != nil {
		return nil, err
	}
	m, err := ws.own(ch, c.args["ts"], "cant_delete_message")
	if err != nil {
		return nil, err
	}
	ws.remove(m)
	return map[string]any{"channel": ch.ID, "ts": m.TS}, nil
}

// remove deletes a message; a parent with replies leaves a tombstone that holds its thread together.
func (ws *Workspace) remove(m *Message) {
	if ws.replyCount(m) > 0 {
		*m = Message{Channel: m.Channel, TS: m.TS, ThreadTS: m.ThreadTS, User: Slackbot, Team: m.Team, Text: "This message was deleted.", Tombstone: true}
		ws.touch(m)
		return
	}
	kept := ws.messages[m.Channel][:0:0]
	for _, other := range ws.messages[m.Channel] {
		if other != m {
			kept = append(kept, other)
		}
	}
	ws.messages[m.Channel] = kept
}

// postEphemeral shows a message to one active member of the channel. It is in no history and cannot be updated.
func (ws *Workspace) postEphemeral(c *call) (map[string]any, error) {
	ch, err := ws.writable(c.args["channel"])
	if err != nil {
		return nil, err
	}
	body, err := ws.readContent(c.args)
	if err != nil {
		return nil, err
	}
	u := ws.user(c.args["user"])
	switch {
	case u == nil || u.ID != c.args["user"]:
		return nil, refuse("user_not_found")
	case u.Deleted || u.Invited || !ch.has(u.ID):
		return nil, refuse("user_not_in_channel")
	case body.empty():
		return nil, refuse("no_text")
	case blockkit.Length(body.text) > maxEphemeralText:
		return nil, refuse("msg_too_long")
	}
	m := ws.botMessage(ch.ID, body)
	m.EphemeralTo = u.ID
	m.ThreadTS = c.args["thread_ts"]
	ws.add(m)
	return map[string]any{"message_ts": m.TS}, nil
}

func (ws *Workspace) getPermalink(c *call) (map[string]any, error) {
	ch, err := ws.visible(c.args["channel"])
	if err != nil {
		return nil, err
	}
	m := ws.find(ch.ID, c.args["message_ts"])
	if m == nil {
		return nil, refuse("message_not_found")
	}
	return map[string]any{"channel": ch.ID, "permalink": ws.permalink(m)}, nil
}

func (ws *Workspace) permalink(m *Message) string {
	link := fmt.Sprintf("%sarchives/%s/p%s", ws.workspaceURL(), m.Channel, strings.ReplaceAll(m.TS, ".", ""))
	if m.IsReply() {
		link += "?" + url.Values{"thread_ts": {m.ThreadTS}, "cid": {m.Channel}}.Encode()
	}
	return link
}

// truncate cuts text to a number of UTF-16 units without splitting a character.
func truncate(s string, limit int) string {
	n := 0
	for i, r := range s {
		if n += blockkit.Length(string(r)); n > limit {
			return s[:i]
		}
	}
	return s
}

// onlyRichText says whether a message is of the kind people write: nothing but rich text. Slack refuses to turn such a
// message into another kind; that it allows the change in mixed messages is an assumption.
func onlyRichText(blocks json.RawMessage) bool {
	types := blockTypes(blocks)
	for _, t := range types {
		if t != "rich_text" {
			return false
		}
	}
	return len(types) > 0
}

func hasBlock(blocks json.RawMessage, typ string) bool {
	for _, t := range blockTypes(blocks) {
		if t == typ {
			return true
		}
	}
	return false
}

func blockTypes(blocks json.RawMessage) []string {
	var list []struct {
		Type string `json:"type"`
	}
	if len(blocks) == 0 || json.Unmarshal(blocks, &list) != nil {
		return nil
	}
	out := make([]string, 0, len(list))
	for _, b := range list {
		out = append(out, b.Type)
	}
	return out
}
