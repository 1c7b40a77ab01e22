package slacksim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"blastdoor/chat/blockkit"
)

// Message is a message as Slack stores it: text and blocks are HTML-escaped. Values handed out are copies.
type Message struct {
	Channel     string // id
	TS          string // unique within the channel; seconds and microseconds
	ThreadTS    string // the parent's TS, in a reply and in a parent with replies
	User        string
	BotID       string
	AppID       string
	Team        string
	Text        string
	Blocks      json.RawMessage // a JSON array, or nil
	Metadata    *Metadata
	Edited      *Edit
	Reactions   []Reaction
	Files       []File
	EphemeralTo string // the one user who sees it; empty for everyone
	Tombstone   bool   // deleted, but kept because it has replies

	names map[string]string // display names by id, for PlainText
	rev   int               // Workspace.rev at the last change
}

// Metadata is the hidden part of a message that apps may read back.
type Metadata struct {
	EventType    string          `json:"event_type"`
	EventPayload json.RawMessage `json:"event_payload"`
}

// Edit says who changed a message's text last, and when.
type Edit struct {
	User string `json:"user"`
	TS   string `json:"ts"`
}

// Reaction is an emoji under a message.
type Reaction struct {
	Name  string
	Users []string
}

// IsReply says whether the message stands in a thread below its parent.
func (m Message) IsReply() bool { return m.ThreadTS != "" && m.ThreadTS != m.TS }

// Button is something to click in a message.
type Button struct {
	BlockID, ActionID, Text, Value, Style, URL string
}

// Buttons lists the buttons of a message in order.
func (m Message) Buttons() []Button {
	var out []Button
	for _, el := range elements(m.Blocks) {
		if el.obj["type"] != "button" {
			continue
		}
		str := func(name string) string { s, _ := el.obj[name].(string); return s }
		label, _ := el.obj["text"].(map[string]any)
		text, _ := label["text"].(string)
		out = append(out, Button{BlockID: el.blockID, ActionID: str("action_id"), Text: blockkit.Unescape(text),
			Value: str("value"), Style: str("style"), URL: str("url")})
	}
	return out
}

// HasButton says whether the message has a button with this action id.
func (m Message) HasButton(actionID string) bool {
	return slices.ContainsFunc(m.Buttons(), func(b Button) bool { return b.ActionID == actionID })
}

// snapshot copies a message so that the copy does not change any more.
func (ws *Workspace) snapshot(m *Message) Message {
	out := *m
	out.names = ws.names
	out.Files = slices.Clone(m.Files)
	out.Reactions = make([]Reaction, 0, len(m.Reactions))
	for _, r := range m.Reactions {
		out.Reactions = append(out.Reactions, Reaction{Name: r.Name, Users: slices.Clone(r.Users)})
	}
	return out
}

// wire is a message in the form the Web API and interaction payloads use.
func (ws *Workspace) wire(m *Message, withMetadata bool) map[string]any {
	out := map[string]any{"type": "message", "ts": m.TS, "user": m.User, "team": m.Team, "text": m.Text}
	set := func(key, value string) {
		if value != "" {
			out[key] = value
		}
	}
	set("bot_id", m.BotID)
	set("app_id", m.AppID)
	set("thread_ts", m.ThreadTS)
	if m.Tombstone {
		out["subtype"] = "tombstone"
	}
	if len(m.Blocks) > 0 {
		out["blocks"] = m.Blocks
	}
	if m.Metadata != nil && withMetadata {
		out["metadata"] = m.Metadata
	}
	if m.Edited != nil {
		out["edited"] = m.Edited
	}
	if len(m.Files) > 0 {
		files := make([]map[string]any, 0, len(m.Files))
		for _, f := range m.Files {
			files = append(files, f.wire())
		}
		out["files"] = files
	}
	if len(m.Reactions) > 0 {
		list := make([]map[string]any, 0, len(m.Reactions))
		for _, r := range m.Reactions {
			list = append(list, map[string]any{"name": r.Name, "users": slices.Clone(r.Users), "count": len(r.Users)})
		}
		out["reactions"] = list
	}
	if n := ws.replyCount(m); n > 0 {
		out["reply_count"] = n
	}
	return out
}

func (ws *Workspace) replyCount(parent *Message) int {
	n := 0
	for _, m := range ws.messages[parent.Channel] {
		if m.IsReply() && m.ThreadTS == parent.TS {
			n++
		}
	}
	return n
}

// find returns the stored message with a timestamp, or nil.
func (ws *Workspace) find(channel, ts string) *Message {
	for _, m := range ws.messages[channel] {
		if m.TS == ts {
			return m
		}
	}
	return nil
}

// touch notes that a message changed.
func (ws *Workspace) touch(m *Message) {
	ws.rev++
	m.rev = ws.rev
}

// attach makes m a reply to parent, if there is one.
func (ws *Workspace) attach(m, parent *Message) {
	if parent == nil {
		return
	}
	if parent.ThreadTS == "" {
		parent.ThreadTS = parent.TS
		ws.touch(parent)
	}
	m.ThreadTS = parent.TS
}

// add gives a message its timestamp and files it.
func (ws *Workspace) add(m *Message) *Message {
	m.TS = ws.nextTS()
	ws.touch(m)
	if m.EphemeralTo != "" {
		ws.ephemerals = append(ws.ephemerals, m)
	} else {
		ws.messages[m.Channel] = append(ws.messages[m.Channel], m)
	}
	return m
}

// botMessage is a message by the app, not yet filed.
func (ws *Workspace) botMessage(channel string, c content) *Message {
	return &Message{Channel: channel, User: ws.app.BotUserID, BotID: ws.app.BotID, AppID: ws.app.ID, Team: ws.team.ID,
		Text: c.text, Blocks: c.blocks, Metadata: c.metadata}
}

// storeBlocks escapes blocks and gives every block and element the ids that Slack makes up when they are left out.
func (ws *Workspace) storeBlocks(raw json.RawMessage) (json.RawMessage, error) {
	escaped, err := blockkit.StoredBlocks(raw)
	if err != nil {
		return nil, err
	}
	var blocks []map[string]any
	dec := json.NewDecoder(bytes.NewReader(escaped))
	dec.UseNumber()
	if err := dec.Decode(&blocks); err != nil {
		return nil, fmt.Errorf("storing blocks: %w", err)
	}
	for _, b := range blocks {
		if id, _ := b["block_id"].(string); id == "" {
			b["block_id"] = ws.nextID("blk")
		}
		for _, el := range blockElements(b) {
			if id, _ := el["action_id"].(string); id == "" && el["type"] != "image" && el["type"] != "mrkdwn" && el["type"] != "plain_text" {
				el["action_id"] = ws.nextID("act")
			}
		}
	}
	return marshal(blocks)
}

// marshal encodes without turning & < > into \u escapes: the text is Slack's, not a web page's.
func marshal(v any) (json.RawMessage, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	return bytes.TrimRight(out.Bytes(), "\n"), nil
}

// element is an interactive element and the block it stands in.
type element struct {
	blockID string
	obj     map[string]any
}

// elements lists the elements of actions blocks and the accessories of sections, in order.
func elements(blocks json.RawMessage) []element {
	var list []map[string]any
	if len(blocks) == 0 || json.Unmarshal(blocks, &list) != nil {
		return nil
	}
	var out []element
	for _, b := range list {
		id, _ := b["block_id"].(string)
		for _, el := range blockElements(b) {
			out = append(out, element{blockID: id, obj: el})
		}
	}
	return out
}

func blockElements(block map[string]any) []map[string]any {
	var out []map[string]any
	switch block["type"] {
	case "actions", "context_actions":
		list, _ := block["elements"].([]any)
		for _, item := range list {
			if el, ok := item.(map[string]any); ok {
				out = append(out, el)
			}
		}
	case "section", "input":
		for _, key := range []string{"accessory", "element"} {
			if el, ok := block[key].(map[string]any); ok {
				out = append(out, el)
			}
		}
	}
	return out
}
