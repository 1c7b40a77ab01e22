package slacksim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"blastdoor/chat/blockkit"
)

// renderWidth is how many columns the text of a message takes in a terminal.
const renderWidth = 76

// PlainText renders a message the way a person reads it, for a terminal: who and when on the first line, then the blocks
// behind a bar, buttons as [Approve], mentions and dates resolved. A dotted bar marks what only one person sees. Times
// are UTC. Only blocks count when there are any: text is then the fallback for notifications, as in Slack.
func PlainText(m Message) string {
	r := &renderer{names: m.names, at: time.UnixMicro(microsOf(m.TS)).UTC()}
	lines := r.body(m)
	bar := "│ "
	if m.EphemeralTo != "" {
		bar = "┊ "
	}
	indent := ""
	if m.IsReply() {
		indent = "    "
	}
	var b strings.Builder
	b.WriteString(indent + r.heading(m) + "\n")
	for _, line := range lines {
		b.WriteString(strings.TrimRight(indent+bar+line, " ") + "\n")
	}
	return strings.Map(harmless, b.String())
}

// harmless replaces control characters: what a message says must not steer the terminal it is printed on.
func harmless(r rune) rune {
	if r != '\n' && unicode.IsControl(r) {
		return utf8.RuneError
	}
	return r
}

// renderer carries what is needed to resolve ids and dates.
type renderer struct {
	names map[string]string
	at    time.Time // when the message was posted; dates are relative to it
}

func (r *renderer) heading(m Message) string {
	parts := []string{strings.TrimPrefix(r.name(m.User), "@")}
	if m.BotID != "" {
		parts[0] += " (app)"
	}
	parts = append(parts, r.at.Format("15:04"))
	if m.IsReply() {
		parts = append(parts, "in thread")
	}
	if m.EphemeralTo != "" {
		parts = append(parts, "only visible to "+r.name(m.EphemeralTo))
	}
	if m.Edited != nil {
		parts = append(parts, "edited")
	}
	return strings.Join(parts, " · ")
}

func (r *renderer) body(m Message) []string {
	var lines []string
	blocks := decodeBlocks(m.Blocks)
	if len(blocks) == 0 && m.Text != "" {
		lines = r.mrkdwn(m.Text, renderWidth)
	}
	for i, b := range blocks {
		typ := b.str("type")
		if i > 0 && spaced(blocks[i-1].str("type"), typ) {
			lines = append(lines, "")
		}
		lines = append(lines, r.block(typ, b)...)
	}
	for _, f := range m.Files {
		lines = append(lines, fmt.Sprintf("📎 %s (%d bytes)", f.Title, len(f.Content)))
	}
	var reactions []string
	for _, re := range m.Reactions {
		reactions = append(reactions, fmt.Sprintf("%s %d", emoji(re.Name), len(re.Users)))
	}
	if len(reactions) > 0 {
		lines = append(lines, strings.Join(reactions, "  "))
	}
	return lines
}

// spaced says whether a blank line sets a block apart from the one before it.
func spaced(before, typ string) bool {
	return before != "header" && before != "divider" && typ != "divider" && typ != "context"
}

func (r *renderer) block(typ string, b node) []string {
	switch typ {
	case "header":
		title := wrap(r.text(b.child("text")), renderWidth)
		return append(title, strings.Repeat("═", min(renderWidth, longest(title))))
	case "section":
		return r.section(b)
	case "context":
		return r.context(b)
	case "actions", "context_actions":
		return wrap(r.controls(b.children("elements")), renderWidth)
	case "divider":
		return []string{strings.Repeat("─", renderWidth)}
	case "markdown":
		return wrap(blockkit.Unescape(b.str("text")), renderWidth)
	case "rich_text":
		return r.richText(b)
	case "table":
		return r.table(b)
	case "image", "video":
		return []string{fmt.Sprintf("[%s: %s]", typ, blockkit.Unescape(b.str("alt_text")))}
	case "input":
		return []string{r.text(b.child("label")) + ": [" + b.child("element").str("type") + "]"}
	}
	return []string{"[" + typ + "]"}
}

func (r *renderer) section(b node) []string {
	var lines []string
	if t := b.child("text"); t != nil {
		lines = r.textLines(t, renderWidth)
	}
	fields := b.children("fields")
	const half = renderWidth/2 - 1
	for i := 0; i < len(fields); i += 2 {
		left := r.textLines(fields[i], half)
		var right []string
		if i+1 < len(fields) {
			right = r.textLines(fields[i+1], half)
		}
		if len(lines) > 0 {
			lines = append(lines, "")
		}
		lines = append(lines, beside(left, right, half)...)
	}
	if el := b.child("accessory"); el != nil {
		lines = append(lines, r.controls([]node{el}))
	}
	return lines
}

func (r *renderer) context(b node) []string {
	var parts []string
	for _, el := range b.children("elements") {
		if el.str("type") == "image" {
			parts = append(parts, "["+blockkit.Unescape(el.str("alt_text"))+"]")
			continue
		}
		parts = append(parts, strings.Join(r.textLines(el, 10*renderWidth), "\n"))
	}
	lines := wrap(strings.Join(parts, "  "), renderWidth-2)
	for i := range lines {
		lines[i] = "· " + lines[i]
	}
	return lines
}

func (r *renderer) controls(list []node) string {
	var parts []string
	for _, el := range list {
		label := r.text(el.child("text"))
		switch typ := el.str("type"); {
		case typ == "overflow":
			label = "…"
		case typ == "image":
			label = "image: " + blockkit.Unescape(el.str("alt_text"))
		case label == "":
			label = strings.TrimSpace(r.text(el.child("placeholder")) + " ▾")
		}
		parts = append(parts, "["+label+"]")
	}
	return strings.Join(parts, "  ")
}

// text is the one-line form of a text object.
func (r *renderer) text(t node) string {
	return strings.Join(r.textLines(t, 100*renderWidth), " ")
}

// textLines renders a text object: plain text as it is, mrkdwn with its marks.
func (r *renderer) textLines(t node, width int) []string {
	s := t.str("text")
	if t.str("type") == "mrkdwn" {
		return r.mrkdwn(s, width)
	}
	if s == "" {
		return nil
	}
	if on, given := t["emoji"].(bool); on || !given {
		s = emojis(s)
	}
	return wrap(blockkit.Unescape(s), width)
}

func (r *renderer) name(id string) string {
	if n, ok := r.names[id]; ok {
		return n
	}
	return id
}

func (r *renderer) table(b node) []string {
	var rows [][]string
	var widths []int
	list, _ := b["rows"].([]any)
	for _, item := range list {
		cells, _ := item.([]any)
		var row []string
		for i, cell := range cells {
			text := r.cell(cell)
			row = append(row, text)
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(text))
		}
		rows = append(rows, row)
	}
	var lines []string
	for i, row := range rows {
		var cells []string
		for j, text := range row {
			cells = append(cells, pad(text, widths[j]))
		}
		lines = append(lines, strings.Join(cells, " │ "))
		if i == 0 {
			lines = append(lines, rule(widths))
		}
	}
	return lines
}

func rule(widths []int) string {
	var parts []string
	for _, w := range widths {
		parts = append(parts, strings.Repeat("─", w))
	}
	return strings.Join(parts, "─┼─")
}

func (r *renderer) cell(v any) string {
	obj, _ := v.(map[string]any)
	c := node(obj)
	switch c.str("type") {
	case "rich_text":
		return strings.Join(r.richText(c), " ")
	case "raw_number":
		return fmt.Sprint(c["value"])
	}
	return blockkit.Unescape(c.str("text"))
}

// node is a decoded JSON object with forgiving access; a nil node has nothing in it.
type node map[string]any

func decodeBlocks(raw json.RawMessage) []node {
	var list []node
	if len(raw) == 0 {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if dec.Decode(&list) != nil {
		return nil
	}
	return list
}

func (n node) str(key string) string { s, _ := n[key].(string); return s }

func (n node) child(key string) node {
	obj, _ := n[key].(map[string]any)
	return obj
}

func (n node) children(key string) []node {
	list, _ := n[key].([]any)
	var out []node
	for _, item := range list {
		if obj, ok := item.(map[string]any); ok {
			out = append(out, obj)
		}
	}
	return out
}

func (n node) number(key string) int64 {
	num, ok := n[key].(json.Number)
	if !ok {
		return 0
	}
	i, _ := num.Int64()
	return i
}
