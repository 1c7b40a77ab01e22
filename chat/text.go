package chat

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"blastdoor/chat/blockkit"
)

// markup is mrkdwn that is safe to send. Constants convert to it by themselves;
// anything else has to pass through untrusted, mention, moment or say, so that a
// name or a parameter cannot become a mention, a link or a line of its own
// without the compiler noticing.
type markup string

// wordJoiner is an invisible character that keeps two others from forming a
// mrkdwn sequence.
const wordJoiner = "\u2060"

// say formats like fmt.Sprintf and neutralises every argument that is not markup
// or a number.
func say(format markup, args ...any) markup {
	safe := make([]any, len(args))
	for i, arg := range args {
		switch v := arg.(type) {
		case markup, int:
			safe[i] = v
		default:
			safe[i] = untrusted(fmt.Sprint(v))
		}
	}
	return markup(fmt.Sprintf(string(format), safe...))
}

// together joins markup.
func together(parts []markup, sep markup) markup {
	var b strings.Builder
	for i, p := range parts {
		if i > 0 {
			b.WriteString(string(sep))
		}
		b.WriteString(string(p))
	}
	return markup(b.String())
}

// untrusted makes foreign text literal in mrkdwn: cleaned, & < > escaped, and the
// characters that cannot be escaped (* _ ~ ` : @ #) kept from pairing up.
// Source: https://docs.slack.dev/messaging/formatting-message-text
func untrusted(s string) markup {
	s = clean(s)
	if !strings.ContainsAny(s, "&<>*_~`:@#") {
		return markup(s)
	}
	var b strings.Builder
	b.Grow(2 * len(s))
	runes := []rune(s)
	for i, r := range runes {
		switch {
		case r == '&':
			b.WriteString("&amp;")
		case r == '<':
			b.WriteString("&lt;")
		case r == '>':
			b.WriteString("&gt;")
		case strings.ContainsRune("*_~`:@#", r) && pairs(runes, i):
			b.WriteString(wordJoiner + string(r) + wordJoiner)
		default:
			b.WriteRune(r)
		}
	}
	return markup(b.String())
}

// pairs reports whether the character at i could begin or end a mrkdwn sequence.
// An underscore inside a word and a colon before a space cannot, and stay as they
// are, so that names can still be copied.
func pairs(runes []rune, i int) bool {
	wordAt := func(j int) bool {
		return j >= 0 && j < len(runes) && (unicode.IsLetter(runes[j]) || unicode.IsDigit(runes[j]))
	}
	switch runes[i] {
	case '_':
		return !wordAt(i-1) || !wordAt(i+1)
	case ':':
		return i+1 < len(runes) && runes[i+1] != ' '
	}
	return true
}

// clean makes foreign text a single visible line: line breaks become ⏎, other
// white space becomes a plain space, and characters that hide, reverse or control
// text are removed.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\v' || r == '\f' || r == '\u0085' || r == '\u2028' || r == '\u2029':
			return '⏎'
		case r == '\r':
			return -1
		case hidden(r):
			return -1
		case unicode.IsSpace(r):
			return ' '
		default:
			return r
		}
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// hidden reports whether a character can change how its neighbours read without
// being seen: controls, bidirectional overrides and isolates, zero-width
// characters, tags, variation selectors and fillers.
func hidden(r rune) bool {
	switch {
	case r == '\t':
		return false
	case unicode.Is(unicode.Cc, r), unicode.Is(unicode.Cf, r):
		return true
	case r == '\u034F' || r == '\u115F' || r == '\u1160' || r == '\u3164' || r == '\uFFA0' || r == '\u2800':
		return true
	default:
		return unicode.Is(unicode.Variation_Selector, r)
	}
}

// cut shortens text to at most n characters and says how much there was.
func cut(s string, n int) string {
	total := utf8.RuneCountInString(s)
	if total <= n {
		return s
	}
	runes := []rune(s)
	return string(runes[:n]) + "… (" + strconv.Itoa(total) + " characters)"
}

// clip shortens text so that its escaped length, in UTF-16 units, is at most room.
func clip(s string, room int) string {
	if escapedLength(s) <= room {
		return s
	}
	used := 0
	for i, r := range s {
		n := escapedLength(string(r))
		if used+n > room-1 {
			return s[:i] + "…"
		}
		used += n
	}
	return s
}

func escapedLength(s string) int { return blockkit.Length(blockkit.AsStored(s, false)) }

// slackID reports whether s has the form of Slack's ids: capitals and digits.
func slackID(s string) bool {
	return len(s) > 1 && len(s) <= 31 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == ""
}

// mention names a person by id. Slack shows the name of its own account; a
// display name that its owner chose never enters a card.
func mention(userID string) markup {
	if !slackID(userID) {
		return untrusted(cut(userID, 40))
	}
	return markup("<@" + userID + ">")
}

// groupRef names a user group by id; its members are notified when the message is
// posted.
func groupRef(id string) markup {
	if !slackID(id) {
		return untrusted(cut(id, 40))
	}
	return markup("<!subteam^" + id + ">")
}

// channelRef names a channel by id.
func channelRef(id string) markup {
	if !slackID(id) {
		return untrusted(cut(id, 40))
	}
	return markup("<#" + id + ">")
}

// moment shows an instant in the reader's own time zone, with UTC as fallback.
// Source: https://docs.slack.dev/messaging/formatting-message-text#date-formatting
func moment(t time.Time) markup {
	if t.IsZero() {
		return "an unknown time"
	}
	return markup("<!date^" + strconv.FormatInt(t.Unix(), 10) + "^{date_short_pretty} at {time}|" +
		t.UTC().Format("2006-01-02 15:04 UTC") + ">")
}

// code shows a short machine word, an id or a digest, in a code span.
func code(s string) markup {
	s = strings.ReplaceAll(cut(clean(s), 120), "`", "'")
	if s == "" {
		return "—"
	}
	return markup("`" + blockkit.Escape(s) + "`")
}

// count says "1 service" or "8 services".
func count(n int, one, many markup) markup {
	if n == 1 {
		return "1 " + one
	}
	return markup(thousands(n)) + " " + many
}

func thousands(n int) string {
	s := strconv.Itoa(n)
	if n < 0 {
		return s
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// names lists names up to a number and a length, then says how many are left.
func names(list []string, most, room int) markup {
	var out markup
	for i, name := range list {
		next := untrusted(cut(name, 63))
		if i > 0 {
			next = ", " + next
		}
		if i == most || i > 0 && blockkit.Length(string(out+next)) > room {
			return out + markup(" and "+thousands(len(list)-i)+" more")
		}
		out += next
	}
	return out
}

// short is the readable beginning of a digest: "sha256:3f2a9c…" becomes "3f2a9c41".
func short(digest string) string {
	digest = strings.TrimPrefix(digest, "sha256:")
	if len(digest) > 8 {
		return digest[:8]
	}
	return digest
}
