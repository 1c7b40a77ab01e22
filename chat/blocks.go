package chat

import (
	"bytes"
	"encoding/json"
	"fmt"

	"blastdoor/chat/blockkit"
)

// Message is what is sent to Slack: the fallback text of notifications and screen
// readers, and the blocks that people see.
type Message struct {
	Text   string          `json:"text"`
	Blocks json.RawMessage `json:"blocks,omitempty"`
}

// block is one Block Kit object. A map encodes with sorted keys, so the same card
// is the same bytes.
type block map[string]any

// Lengths kept below Slack's limits (3000 and 150), because Slack does not say in
// which unit it counts.
const (
	sectionRoom = 2900
	headerRoom  = 140
)

func mrkdwn(text markup) block {
	return block{"type": "mrkdwn", "text": string(text), "verbatim": true}
}

// plain is text in which nothing is interpreted, emoji names included.
func plain(text string) block {
	if text == "" {
		text = "—" // Slack refuses an empty text
	}
	return block{"type": "plain_text", "text": text, "emoji": false}
}

func header(text string) block {
	return block{"type": "header", "text": plain(clip(clean(text), headerRoom))}
}

func section(text markup) block { return block{"type": "section", "text": mrkdwn(text)} }

func divider() block { return block{"type": "divider"} }

// small is a line of small print.
func small(lines ...markup) block {
	elements := make([]block, len(lines))
	for i, line := range lines {
		elements[i] = mrkdwn(line)
	}
	return block{"type": "context", "elements": elements}
}

// sections packs lines into as few sections as fit; a line is never split, and one
// that cannot fit alone is cut by its author.
func sections(lines []markup) []block {
	var out []block
	var text markup
	for _, line := range lines {
		joined := line
		if text != "" {
			joined = text + "\n" + line
		}
		if text != "" && blockkit.Length(string(joined)) > sectionRoom {
			out = append(out, section(text))
			joined = line
		}
		text = joined
	}
	if text != "" {
		out = append(out, section(text))
	}
	return out
}

// verbatim shows lines of foreign text in a fixed-width box in which nothing is
// interpreted. Every line is cleaned first, so that no line can be forged.
func verbatim(lines []string) block {
	var b bytes.Buffer
	for i, line := range lines {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(clean(line))
	}
	text := b.String()
	if text == "" {
		text = " "
	}
	return block{"type": "rich_text", "elements": []block{{"type": "rich_text_preformatted",
		"elements": []block{{"type": "text", "text": text}}}}}
}

// fit returns as many lines as have room, and a last one that counts the rest.
func fit(lines []string, most, room int) []string {
	used := 0
	for i, line := range lines {
		used += escapedLength(clean(line)) + 1
		if i == most || used > room {
			return append(append([]string(nil), lines[:i]...), fmt.Sprintf("… and %s more", thousands(len(lines)-i)))
		}
	}
	return lines
}

// compose makes a message and checks it against Slack's limits. The error names
// every place that Slack would refuse.
func compose(text markup, blocks []block) (Message, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(blocks); err != nil {
		return Message{}, fmt.Errorf("encoding blocks: %w", err)
	}
	m := Message{Text: string(text), Blocks: bytes.TrimSpace(buf.Bytes())}
	return m, m.check()
}

// check reports what Slack would refuse. chat.update refuses texts above 4,000
// characters that chat.postMessage would take, so the smaller limit holds for all.
func (m Message) check() error {
	if m.Text == "" {
		return fmt.Errorf("checking message: no text")
	}
	if n := blockkit.Length(blockkit.AsStored(m.Text, true)); n > 4000 {
		return fmt.Errorf("checking message: text of %d characters, 4000 allowed", n)
	}
	if len(m.Blocks) == 0 {
		return nil
	}
	if problems := blockkit.Check(m.Blocks, blockkit.Message); len(problems) > 0 {
		return fmt.Errorf("checking message: %d problems, first: %s", len(problems), problems[0])
	}
	return nil
}

// plainly is the smallest valid message: one sentence. It is what is sent when a
// richer one does not pass its check.
func plainly(text markup) Message {
	if blockkit.Length(string(text)) > sectionRoom {
		text = "This message is too long to be shown here."
	}
	m, err := compose(text, []block{section(text)})
	if err != nil {
		return Message{Text: "Blast Door could not render this message."}
	}
	return m
}
