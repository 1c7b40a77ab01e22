package slacksim

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// wrap breaks text at spaces so that no line is wider than width, counted in characters. A word that is wider stays whole.
// Lines that are short enough are kept exactly.
func wrap(s string, width int) []string {
	var lines []string
	for line := range strings.SplitSeq(s, "\n") {
		for utf8.RuneCountInString(line) > width {
			cut := breakAt(line, width)
			if cut <= 0 {
				break
			}
			lines = append(lines, strings.TrimRight(line[:cut], " "))
			line = strings.TrimLeft(line[cut:], " ")
		}
		lines = append(lines, line)
	}
	return lines
}

// breakAt finds the byte offset of the last space within width characters, else of the first space after; 0 if none.
func breakAt(line string, width int) int {
	n, last := 0, 0
	for i, r := range line {
		if r == ' ' && strings.TrimSpace(line[:i]) != "" {
			if n > width && last > 0 {
				return last
			}
			last = i
			if n > width {
				return last
			}
		}
		n++
	}
	return last
}

// beside sets two blocks of lines in columns.
func beside(left, right []string, width int) []string {
	if len(right) == 0 {
		return left
	}
	var out []string
	for i := range max(len(left), len(right)) {
		var l, r string
		if i < len(left) {
			l = left[i]
		}
		if i < len(right) {
			r = right[i]
		}
		out = append(out, strings.TrimRight(pad(l, width)+"  "+r, " "))
	}
	return out
}

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}

func longest(lines []string) int {
	n := 0
	for _, l := range lines {
		n = max(n, utf8.RuneCountInString(l))
	}
	return n
}

var emojiPattern = regexp.MustCompile(`:[a-z0-9_+-]+:`)

// emojis replaces the :names: it knows by their characters.
func emojis(s string) string {
	return emojiPattern.ReplaceAllStringFunc(s, func(match string) string {
		return emoji(strings.Trim(match, ":"))
	})
}

// emoji is the character of a name, or :name: when it is not one of the few that tools use.
func emoji(name string) string {
	known := map[string]string{
		"white_check_mark": "✅", "heavy_check_mark": "✔", "ballot_box_with_check": "☑", "x": "❌", "no_entry": "⛔", "no_entry_sign": "🚫",
		"warning": "⚠", "rotating_light": "🚨", "lock": "🔒", "closed_lock_with_key": "🔐", "unlock": "🔓", "key": "🔑", "shield": "🛡",
		"eyes": "👀", "hourglass": "⌛", "hourglass_flowing_sand": "⏳", "stopwatch": "⏱", "alarm_clock": "⏰", "clock1": "🕐",
		"rocket": "🚀", "gear": "⚙", "hammer_and_wrench": "🛠", "wrench": "🔧", "mag": "🔍", "bulb": "💡", "memo": "📝", "clipboard": "📋",
		"page_facing_up": "📄", "link": "🔗", "door": "🚪", "boom": "💥", "fire": "🔥", "skull": "💀", "zap": "⚡", "bell": "🔔",
		"arrow_right": "➡", "arrow_down": "⬇", "arrow_up": "⬆", "leftwards_arrow_with_hook": "↩", "rewind": "⏪", "black_circle": "⚫",
		"red_circle": "🔴", "large_green_circle": "🟢", "large_yellow_circle": "🟡", "large_orange_circle": "🟠", "large_blue_circle": "🔵",
		"white_circle": "⚪", "thumbsup": "👍", "+1": "👍", "thumbsdown": "👎", "-1": "👎", "wave": "👋", "tada": "🎉", "octagonal_sign": "🛑",
		"information_source": "ℹ", "question": "❓", "heavy_minus_sign": "➖", "black_square_for_stop": "⏹", "double_vertical_bar": "⏸", "arrow_forward": "▶",
	}
	if s, ok := known[name]; ok {
		return s
	}
	return ":" + name + ":"
}
