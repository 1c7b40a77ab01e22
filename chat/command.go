package chat

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"blastdoor"
)

// Limits of a typed command. A value that is longer is a mistake, not a value.
const (
	maxCommandValue = 1000 // characters
	maxCommandArgs  = 50
)

// command is what a person typed after /runbook, understood.
type command struct {
	Verb   string // one of verbs
	Name   string // of the runbook, or the id of the run
	Inputs map[string]string
	// BreakGlass is the reason to act in spite of a freeze; empty: none was given.
	BreakGlass string
}

// usage of each sub-command, in the order of the help text.
type usage struct{ verb, form, says string }

func usages() []usage {
	return []usage{
		{"help", "help", "shows this"},
		{"list", "list", "lists the runbooks and what they ask for"},
		{"plan", "plan NAME [key=value …]", "rehearses a runbook and shows the verdict; nothing is written"},
		{"run", "run NAME [key=value …]", "runs a runbook; a second person is asked where the policy says so"},
		{"status", "status [RUN]", "shows the latest runs of this channel, or everything about one run"},
		{"cancel", "cancel RUN", "ends a run that has no write in flight"},
	}
}

func usageError(want, format string, args ...any) error {
	return &blastdoor.Error{Code: blastdoor.ErrUsage, Msg: fmt.Sprintf(format, args...), Want: want}
}

// parseCommand understands the text of a slash command. It never runs anything
// through a shell: quotes only group words, and every other character is data.
// Errors are ErrUsage with what would be right.
func parseCommand(text string) (command, error) {
	words, err := split(normalise(text))
	if err != nil {
		return command{}, err
	}
	if len(words) == 0 {
		return command{Verb: "help"}, nil
	}
	verb := strings.ToLower(words[0].text)
	rest := words[1:]
	switch verb {
	case "help", "list", "-h", "--help":
		if verb != "list" {
			verb = "help"
		}
		if len(rest) > 0 && verb == "list" {
			return command{}, usageError("use `list` alone", "`list` takes nothing, got %q", cut(rest[0].text, 40))
		}
		return command{Verb: verb}, nil
	case "plan", "run":
		return parseRunbook(verb, rest)
	case "status", "cancel":
		return parseRunID(verb, rest)
	}
	return command{}, unknownVerb(words[0].text)
}

func unknownVerb(word string) error {
	var verbs []string
	for _, u := range usages() {
		verbs = append(verbs, u.verb)
	}
	if near := nearest(strings.ToLower(word), verbs); near != "" {
		return usageError("did you mean `"+near+"`?", "there is no command %q", cut(word, 40))
	}
	return usageError("commands are "+strings.Join(verbs, ", "), "there is no command %q", cut(word, 40))
}

func parseRunbook(verb string, words []word) (command, error) {
	form := verb + " NAME [key=value …]"
	if len(words) == 0 {
		return command{}, usageError("use `"+form+"`; `list` shows the names", "which runbook?")
	}
	if words[0].key != "" {
		return command{}, usageError("use `"+form+"`", "the name of the runbook comes first, got %q", cut(words[0].String(), 40))
	}
	if len(words)-1 > maxCommandArgs {
		return command{}, usageError(fmt.Sprintf("at most %d inputs", maxCommandArgs), "%d inputs are too many", len(words)-1)
	}
	cmd := command{Verb: verb, Name: words[0].text, Inputs: map[string]string{}}
	for _, w := range words {
		if n := utf8.RuneCountInString(w.text); n > maxCommandValue {
			return command{}, usageError(fmt.Sprintf("at most %s characters", thousands(maxCommandValue)),
				"a value of %s characters is too long: %q", thousands(n), string([]rune(w.text)[:20])+"…")
		}
	}
	for _, w := range words[1:] {
		if w.key == "" {
			return command{}, usageError("use `"+form+"`; put quotes around a value with spaces",
				"expected key=value, got %q", cut(w.text, 40))
		}
		if _, twice := cmd.Inputs[w.key]; twice {
			return command{}, usageError("give each input once", "input %q is given twice", cut(w.key, 40))
		}
		cmd.Inputs[w.key] = w.text
	}
	return breakGlass(cmd)
}

// breakGlass takes the wish to act in spite of a freeze out of the inputs. A wish
// without a reason is an error, not a wish.
func breakGlass(cmd command) (command, error) {
	reason, wished := cmd.Inputs[blastdoor.BreakGlassKey]
	if !wished {
		return cmd, nil
	}
	delete(cmd.Inputs, blastdoor.BreakGlassKey)
	if cmd.BreakGlass = strings.TrimSpace(reason); utf8.RuneCountInString(cmd.BreakGlass) < 10 {
		return command{}, usageError(`say why in a sentence: `+blastdoor.BreakGlassKey+`="the database is on fire"`,
			"breaking the glass needs a reason of at least 10 characters")
	}
	return cmd, nil
}

func parseRunID(verb string, words []word) (command, error) {
	switch {
	case len(words) == 0 && verb == "status":
		return command{Verb: verb}, nil
	case len(words) == 0:
		return command{}, usageError("use `cancel RUN`; `status` shows the ids", "which run?")
	case len(words) > 1:
		return command{}, usageError("use `"+verb+" RUN`", "one run at a time, got %q as well", cut(words[1].String(), 40))
	}
	id := strings.Trim(words[0].String(), "`")
	if len(id) > 80 || strings.ContainsFunc(id, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.", r)
	}) || id == "" {
		return command{}, usageError("`status` shows the ids", "%q is not the id of a run", cut(id, 40))
	}
	return command{Verb: verb, Name: id}, nil
}

// word is one word of a command, or one key=value.
type word struct{ key, text string }

func (w word) String() string {
	if w.key == "" {
		return w.text
	}
	return w.key + "=" + w.text
}

// normalise undoes what keyboards and chat clients do to typed text: curly quotes,
// long dashes, special spaces, line breaks, and characters that cannot be seen.
// What is executed is therefore exactly what a card shows.
func normalise(text string) string {
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(text, "\uFFFD") {
		switch {
		case strings.ContainsRune("“”„‟«»＂", r):
			b.WriteByte('"')
		case strings.ContainsRune("‘’‚‛＇", r):
			b.WriteByte('\'')
		case r == '—' || r == '―':
			b.WriteString("--")
		case r == '–' || r == '‐' || r == '‑' || r == '−':
			b.WriteByte('-')
		case r == '＝':
			b.WriteByte('=')
		case unicode.IsSpace(r):
			b.WriteByte(' ')
		case !hidden(r):
			b.WriteRune(r)
		}
	}
	return b.String()
}

// split cuts text into words at spaces. A quote opens at the start of a word or of
// a value and closes at the next quote of its kind; inside double quotes, \" and
// \\ stand for themselves.
func split(text string) ([]word, error) {
	var words []word
	for rest := strings.TrimLeft(text, " "); rest != ""; rest = strings.TrimLeft(rest, " ") {
		var w word
		if key, after, ok := cutKey(rest); ok {
			w.key, rest = key, after
		}
		value, after, err := cutValue(rest)
		if err != nil {
			return nil, err
		}
		w.text, rest = value, after
		words = append(words, w)
	}
	return words, nil
}

// cutKey takes "key=" (or "--key=") off the front.
func cutKey(text string) (key, rest string, ok bool) {
	end := strings.IndexAny(text, "= \"'")
	if end < 1 || text[end] != '=' {
		return "", text, false
	}
	key = strings.TrimLeft(text[:end], "-")
	if key == "" || len(key) > 64 || strings.ContainsFunc(key, func(r rune) bool {
		return r != '_' && r != '-' && (r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r))
	}) {
		return "", text, false
	}
	return key, text[end+1:], true
}

// cutValue takes one value, quoted or up to the next space, off the front.
func cutValue(text string) (value, rest string, err error) {
	if text == "" || text[0] != '"' && text[0] != '\'' {
		end := strings.IndexByte(text, ' ')
		if end < 0 {
			end = len(text)
		}
		return text[:end], text[end:], nil
	}
	quote := text[0]
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch {
		case quote == '"' && text[i] == '\\' && i+1 < len(text) && (text[i+1] == '"' || text[i+1] == '\\'):
			i++
			b.WriteByte(text[i])
		case text[i] == quote && (i+1 == len(text) || text[i+1] == ' '):
			return b.String(), text[i+1:], nil
		case text[i] == quote:
			return "", "", usageError("put a space after the closing quote", "text follows a closing quote: %q", cut(text[i:], 40))
		default:
			b.WriteByte(text[i])
		}
	}
	return "", "", usageError("close it with the same quote", "a quote is not closed: %q", cut(text, 40))
}

// nearest returns the candidate within two edits of word, or "".
func nearest(word string, candidates []string) string {
	best, bestAt := "", 3
	for _, c := range candidates {
		if d := edits(word, c); d < bestAt && d < len(c) {
			best, bestAt = c, d
		}
	}
	return best
}

// edits is the Levenshtein distance; words longer than 64 bytes are never near.
func edits(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// inputLines shows inputs one a line, sorted by name.
func inputLines(inputs map[string]any) []string {
	lines := make([]string, 0, len(inputs))
	for _, key := range slices.Sorted(maps.Keys(inputs)) {
		lines = append(lines, cut(key, 64)+" = "+cut(fmt.Sprint(inputs[key]), 200))
	}
	return lines
}
