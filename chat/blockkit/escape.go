package blockkit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Escape makes text literal in mrkdwn: & < > become entities and nothing else changes, as Slack's page on formatting
// text asks. Every control sequence (mention, link, date) needs a literal <, so none survives. Call it once, on raw
// text: an entity in the input is text too, and is shown as typed.
// Source: https://docs.slack.dev/messaging/formatting-message-text
func Escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}

// AsStored is the form in which Slack keeps text and echoes it: raw & < > become entities, entities stay as they are,
// and in mrkdwn a control sequence such as <@U1>, <!date^…> or <https://x|label> stays too. Applying it twice changes
// nothing.
func AsStored(s string, mrkdwn bool) string {
	if !strings.ContainsAny(s, "&<>") {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	for i := 0; i < len(s); {
		n := 1
		switch s[i] {
		case '&':
			if n = entity(s[i:]); n == 0 {
				b.WriteString("&amp;")
				i++
				continue
			}
		case '<':
			if n = controlSequence(s[i:]); n == 0 || !mrkdwn {
				b.WriteString("&lt;")
				i++
				continue
			}
		case '>':
			b.WriteString("&gt;")
			i++
			continue
		}
		b.WriteString(s[i : i+n])
		i += n
	}
	return b.String()
}

// Unescape turns the three entities back into characters.
func Unescape(s string) string {
	return strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(s)
}

// Length is the number of UTF-16 code units of a string.
func Length(s string) int {
	n := 0
	for _, r := range s {
		n++
		if r > 0xFFFF {
			n++
		}
	}
	return n
}

// entity is the length of the entity at the start of s, or 0.
func entity(s string) int {
	for _, e := range [...]string{"&amp;", "&lt;", "&gt;"} {
		if strings.HasPrefix(s, e) {
			return len(e)
		}
	}
	return 0
}

// controlSequence is the length of the <…> sequence at the start of s, or 0 when the < is just a character.
func controlSequence(s string) int {
	end := strings.IndexByte(s, '>')
	if end < 2 || strings.ContainsAny(s[1:end], "<\n") {
		return 0
	}
	switch s[1] {
	case '@', '#', '!':
		return end + 1
	}
	for _, scheme := range [...]string{"http://", "https://", "mailto:", "tel:", "slack://"} {
		if strings.HasPrefix(s[1:], scheme) {
			return end + 1
		}
	}
	return 0
}

// StoredBlocks returns blocks with every text as Slack keeps it (see AsStored). Values that programs read, such as a
// button's value, are left alone.
func StoredBlocks(blocks json.RawMessage) (json.RawMessage, error) {
	v, err := decode(blocks)
	if err != nil {
		return nil, fmt.Errorf("storing blocks: %w", err)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false) // the text is escaped already; \u003c would only hide it
	if err := enc.Encode(stored(v)); err != nil {
		return nil, fmt.Errorf("storing blocks: %w", err)
	}
	return bytes.TrimRight(out.Bytes(), "\n"), nil
}

func stored(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = stored(v[i])
		}
	case map[string]any:
		mrkdwn := v["type"] == "mrkdwn"
		for name, item := range v {
			s, isString := item.(string)
			switch {
			case isString && (name == "text" || name == "alt_text"):
				v[name] = AsStored(s, mrkdwn)
			case !isString:
				v[name] = stored(item)
			}
		}
	}
	return v
}
