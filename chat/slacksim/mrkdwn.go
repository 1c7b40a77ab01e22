package slacksim

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"blastdoor/chat/blockkit"
)

// mrkdwn renders Slack's markup as plain lines: fenced code behind a thin bar and not wrapped, quotes behind a thick one,
// the marks of bold and italic taken away, and everything in <…> resolved.
func (r *renderer) mrkdwn(s string, width int) []string {
	var lines []string
	for i, part := range strings.Split(s, "```") {
		if i%2 == 1 {
			code := strings.Trim(blockkit.Unescape(r.resolve(part)), "\n")
			lines = append(lines, preformatted(code)...)
			continue
		}
		part = strings.Trim(part, "\n")
		if part == "" {
			continue
		}
		for line := range strings.SplitSeq(part, "\n") {
			quote, quoted := strings.CutPrefix(line, "&gt;")
			if !quoted {
				lines = append(lines, wrap(r.inline(line), width)...)
				continue
			}
			for _, l := range wrap(r.inline(strings.TrimPrefix(quote, " ")), width-2) {
				lines = append(lines, "┃ "+l)
			}
		}
	}
	return lines
}

func preformatted(code string) []string {
	var lines []string
	for line := range strings.SplitSeq(code, "\n") {
		lines = append(lines, "▏ "+line)
	}
	return lines
}

// inline renders one line of mrkdwn. What stands in backticks is left as it is.
func (r *renderer) inline(line string) string {
	parts := strings.Split(line, "`")
	for i, part := range parts {
		part = r.resolve(part)
		if i%2 == 0 || i == len(parts)-1 {
			part = emojis(unmark(part))
		}
		parts[i] = blockkit.Unescape(part)
	}
	return strings.Join(parts, "`")
}

var (
	boldPattern    = markPattern(`\*`)
	italicPattern  = markPattern(`_`)
	controlPattern = regexp.MustCompile(`<([^<>]*)>`)
	datePattern    = regexp.MustCompile(`\{[a-z_]+\}`)
)

// markPattern matches a phrase between two marks that stand at the edges of words.
func markPattern(mark string) *regexp.Regexp {
	return regexp.MustCompile(`(^|[\s(\["'~*_>–—-])` + mark + `([^\s` + mark + `]|[^\s` + mark + `][^` + mark + `]*[^\s` + mark + `])` + mark +
		`($|[\s)\]"'.,:;!?~*_<–—-])`)
}

// unmark takes away * and _ where Slack would read them as marks.
func unmark(s string) string {
	return italicPattern.ReplaceAllString(boldPattern.ReplaceAllString(s, "$1$2$3"), "$1$2$3")
}

// resolve replaces control sequences by what a reader sees. The result is still escaped.
func (r *renderer) resolve(s string) string {
	return controlPattern.ReplaceAllStringFunc(s, func(match string) string {
		body, label, hasLabel := strings.Cut(match[1:len(match)-1], "|")
		switch {
		case strings.HasPrefix(body, "@"), strings.HasPrefix(body, "#"):
			if name, ok := r.names[body[1:]]; ok {
				return name
			}
			if hasLabel {
				return body[:1] + label
			}
			return body
		case strings.HasPrefix(body, "!date^"):
			return r.date(strings.Split(body, "^"), label)
		case strings.HasPrefix(body, "!subteam^"):
			id := strings.TrimPrefix(body, "!subteam^")
			if name, ok := r.names[id]; ok {
				return name
			}
			return "@" + id
		case strings.HasPrefix(body, "!"):
			return "@" + body[1:]
		case hasLabel && label != body:
			return label + " (" + body + ")"
		}
		return strings.TrimPrefix(body, "mailto:")
	})
}

// date renders !date^unix^format^link; a time that cannot be read shows the fallback.
func (r *renderer) date(parts []string, fallback string) string {
	if len(parts) < 3 {
		return fallback
	}
	unix, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil {
		return fallback
	}
	return r.formatDate(time.Unix(unix, 0).UTC(), parts[2])
}

// formatDate fills in Slack's date tokens, in UTC.
// Source: https://docs.slack.dev/messaging/formatting-message-text#date-formatting
func (r *renderer) formatDate(t time.Time, format string) string {
	return datePattern.ReplaceAllStringFunc(format, func(token string) string {
		name := strings.Trim(token, "{}")
		if day := r.nearDay(t); day != "" && strings.HasSuffix(name, "_pretty") {
			return day
		}
		switch strings.TrimSuffix(name, "_pretty") {
		case "date_num":
			return t.Format("2006-01-02")
		case "date_slash":
			return t.Format("01/02/2006")
		case "date":
			return t.Format("January 2, 2006")
		case "date_short":
			return t.Format("Jan 2, 2006")
		case "date_long":
			return t.Format("Monday, January 2, 2006")
		case "time":
			return t.Format("15:04 UTC")
		case "time_secs":
			return t.Format("15:04:05 UTC")
		case "ago":
			return r.ago(t)
		}
		return token
	})
}

func (r *renderer) nearDay(t time.Time) string {
	day := func(t time.Time) int64 { return t.Unix() / 86400 }
	switch day(t) - day(r.at) {
	case 0:
		return "today"
	case 1:
		return "tomorrow"
	case -1:
		return "yesterday"
	}
	return ""
}

func (r *renderer) ago(t time.Time) string {
	d := t.Sub(r.at).Round(time.Minute)
	if d < 0 {
		return fmt.Sprintf("%d minutes ago", -d/time.Minute)
	}
	return fmt.Sprintf("in %d minutes", d/time.Minute)
}

// richText renders the parts of a rich text block.
func (r *renderer) richText(b node) []string {
	var lines []string
	for _, part := range b.children("elements") {
		switch part.str("type") {
		case "rich_text_preformatted":
			lines = append(lines, preformatted(strings.TrimRight(r.richElements(part), "\n"))...)
		case "rich_text_quote":
			for _, l := range wrap(r.richElements(part), renderWidth-2) {
				lines = append(lines, "┃ "+l)
			}
		case "rich_text_list":
			lines = append(lines, r.richList(part)...)
		default:
			lines = append(lines, wrap(strings.TrimRight(r.richElements(part), "\n"), renderWidth)...)
		}
	}
	return lines
}

func (r *renderer) richList(part node) []string {
	var lines []string
	indent := strings.Repeat("  ", int(part.number("indent")))
	for i, item := range part.children("elements") {
		mark := "• "
		if part.str("style") == "ordered" {
			mark = fmt.Sprintf("%d. ", int(part.number("offset"))+i+1)
		}
		for j, l := range wrap(r.richElements(item), renderWidth-len(indent)-len(mark)) {
			if j > 0 {
				mark = strings.Repeat(" ", len([]rune(mark)))
			}
			lines = append(lines, indent+mark+l)
		}
	}
	return lines
}

// richElements renders inline elements. Their text is literal: nothing in it is a mark or a control sequence.
func (r *renderer) richElements(part node) string {
	var b strings.Builder
	for _, el := range part.children("elements") {
		switch el.str("type") {
		case "text":
			b.WriteString(blockkit.Unescape(el.str("text")))
		case "link":
			label := blockkit.Unescape(el.str("text"))
			if label == "" || label == el.str("url") {
				b.WriteString(el.str("url"))
				continue
			}
			b.WriteString(label + " (" + el.str("url") + ")")
		case "user":
			b.WriteString(r.name(el.str("user_id")))
		case "usergroup":
			b.WriteString(r.name(el.str("usergroup_id")))
		case "channel":
			b.WriteString(r.name(el.str("channel_id")))
		case "emoji":
			b.WriteString(emoji(el.str("name")))
		case "date":
			b.WriteString(r.formatDate(time.Unix(el.number("timestamp"), 0).UTC(), el.str("format")))
		case "broadcast":
			b.WriteString("@" + el.str("range"))
		case "color":
			b.WriteString(el.str("value"))
		}
	}
	return b.String()
}
