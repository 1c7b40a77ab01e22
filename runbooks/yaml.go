package runbooks

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// Limits of a file. They are far above what a person writes, and low enough that
// a hostile file costs nothing.
const (
	maxFileSize = 256 << 10
	maxDepth    = 12
	maxEntries  = 1000 // of one mapping or list
	maxText     = 500  // characters of a description, a reason or a pattern
	maxParam    = 2000 // bytes of a parameter
)

// parse returns the root mapping of a YAML file, or nil with the problems added.
func (p *problems) parse(data []byte) *yaml.Node {
	if len(data) > maxFileSize {
		p.add(1, "the file is larger than 256 KiB", "split it, or keep data elsewhere")
		return nil
	}
	if !utf8.Valid(data) {
		p.add(1+bytes.Count(data[:invalidAt(data)], []byte("\n")), "the file is not UTF-8", "save it as UTF-8")
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		p.add(1, "the file is empty", "")
		return nil
	} else if err != nil {
		p.addSyntax(data, err)
		return nil
	}
	if err := dec.Decode(&second); err == nil {
		p.add(second.Line, "the file holds a second document", "one document per file, without ---")
		return nil
	} else if !errors.Is(err, io.EOF) {
		p.addSyntax(data, err)
		return nil
	}
	if !p.plain(&doc, 0) {
		return nil
	}
	return doc.Content[0]
}

func invalidAt(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size <= 1 {
			return i
		}
		i += size
	}
	return len(data)
}

var lineOfError = regexp.MustCompile(`^line (\d+): `)

// addSyntax puts the parser's error into words. The usual cause of its least
// helpful ones is a tab.
func (p *problems) addSyntax(data []byte, err error) {
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if m := lineOfError.FindStringSubmatch(msg); m != nil {
		line, _ = strconv.Atoi(m[1]) // digits only; out of range gives the largest int
		msg = msg[len(m[0]):]
	}
	if tab := tabNear(data, line); tab > 0 {
		p.add(tab, "a tab", "YAML wants spaces")
		return
	}
	p.add(line, "not YAML: "+msg, "")
}

// tabNear returns the first line next to the given one that is indented with a
// tab, or 0. The parser's line may be off by one.
func tabNear(data []byte, near int) int {
	n := 0
	for line := range bytes.Lines(data) {
		n++
		indent := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]
		if n >= near-1 && n <= near+1 && bytes.ContainsRune(indent, '\t') {
			return n
		}
	}
	return 0
}

// plain reports whether the tree is free of anchors, aliases, tags of its own,
// deep nesting and endless lists. Aliases are refused outright: a few lines of them can stand for
// more data than fits into memory, and nobody needs them in a runbook.
func (p *problems) plain(n *yaml.Node, depth int) bool {
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		p.add(n.Line, "anchors and aliases are not allowed", "write the value out")
		return false
	case n.Style&yaml.TaggedStyle != 0:
		p.add(n.Line, fmt.Sprintf("the tag %s is not allowed", n.Tag), "write the plain value")
		return false
	case depth > maxDepth:
		p.add(n.Line, fmt.Sprintf("nested more than %d levels deep", maxDepth), "")
		return false
	case len(n.Content) > 2*maxEntries || n.Kind == yaml.SequenceNode && len(n.Content) > maxEntries:
		p.add(n.Line, fmt.Sprintf("more than %d entries", maxEntries), "")
		return false
	}
	for _, child := range n.Content {
		if !p.plain(child, depth+1) {
			return false
		}
	}
	return true
}

// object is a mapping whose keys are all known and given once.
type object struct {
	p      *problems
	node   *yaml.Node
	values map[string]*yaml.Node
}

// object reads a mapping. Values under unknown or repeated keys are reported and
// left out. It returns false when n is not a mapping.
func (p *problems) object(n *yaml.Node, what string, known ...string) (object, bool) {
	o := object{p: p, node: n, values: map[string]*yaml.Node{}}
	entries, ok := p.entries(n, what)
	for _, e := range entries {
		if !slices.Contains(known, e.key) {
			p.add(e.line, fmt.Sprintf("%s has no key %q", what, e.key), p.suggest(e.key, known, "the keys are"))
			continue
		}
		o.values[e.key] = e.value
	}
	return o, ok
}

type entry struct {
	key   string
	line  int
	value *yaml.Node
}

// entries reads a mapping with free keys, in file order.
func (p *problems) entries(n *yaml.Node, what string) ([]entry, bool) {
	if n.Kind != yaml.MappingNode {
		p.add(n.Line, fmt.Sprintf("%s is %s", what, describe(n)), "it must hold keys and values, like `key: value`")
		return nil, false
	}
	var out []entry
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode {
			p.add(key.Line, fmt.Sprintf("a key of %s is not text", what), "")
			continue
		}
		if line, dup := first[key.Value]; dup {
			p.add(key.Line, fmt.Sprintf("%q is given twice, first in line %d", key.Value, line), "keep one of them")
			continue
		}
		first[key.Value] = key.Line
		out = append(out, entry{key.Value, key.Line, n.Content[i+1]})
	}
	return out, true
}

func (o object) has(key string) bool { return o.values[key] != nil }

// line returns the line of a value, or of the whole mapping when it is absent.
func (o object) line(key string) int {
	if n := o.values[key]; n != nil {
		return n.Line
	}
	return o.node.Line
}

// require reports the keys that are missing; example is what one would write.
func (o object) require(what, key, example string) bool {
	if o.has(key) {
		return true
	}
	o.p.add(o.node.Line, fmt.Sprintf("%s has no %s", what, key), fmt.Sprintf("add `%s: %s`", key, example))
	return false
}

// text returns the text under key; "" when it is absent or not text.
func (o object) text(key string) string {
	n := o.values[key]
	if n == nil {
		return ""
	}
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		o.p.add(n.Line, fmt.Sprintf("%s is %s", key, describe(n)), "it must be text; put it in quotes")
		return ""
	}
	return n.Value
}

// prose is text of a length that fits into a message.
func (o object) prose(key string) string {
	s := strings.TrimSpace(o.text(key))
	if utf8.RuneCountInString(s) > maxText {
		o.p.add(o.line(key), fmt.Sprintf("%s is longer than %d characters", key, maxText), "")
	}
	return s
}

// matching is text of one form; example is a value that would do.
func (o object) matching(key string, form *regexp.Regexp, example string) string {
	n := o.values[key]
	s := o.text(key)
	if n != nil && n.Tag == "!!str" && !form.MatchString(s) {
		o.p.add(n.Line, fmt.Sprintf("%s %s does not have the form %s", key, quoted(s), form), "for instance "+example)
		return ""
	}
	return s
}

// integer returns the whole number under key.
func (o object) integer(key string) (int, bool) {
	n := o.values[key]
	if n == nil {
		return 0, false
	}
	v, ok := wholeNumber(n)
	if !ok {
		o.p.add(n.Line, fmt.Sprintf("%s is %s", key, describe(n)), "it must be a whole number")
	}
	return v, ok
}

func (o object) boolean(key string) bool {
	n := o.values[key]
	if n == nil {
		return false
	}
	if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" {
		o.p.add(n.Line, fmt.Sprintf("%s is %s", key, describe(n)), "it must be true or false")
		return false
	}
	return strings.EqualFold(n.Value, "true")
}

// items returns the values of a list; a missing list has none.
func (o object) items(key string) []*yaml.Node {
	n := o.values[key]
	if n == nil {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		o.p.add(n.Line, fmt.Sprintf("%s is %s", key, describe(n)), "it must be a list, like `[a, b]`")
		return nil
	}
	return n.Content
}

// texts returns a list of texts, each of which must have the form and be given once.
func (o object) texts(key string, form *regexp.Regexp, example string) []string {
	var out []string
	for _, n := range o.items(key) {
		switch {
		case n.Kind != yaml.ScalarNode || n.Tag != "!!str":
			o.p.add(n.Line, fmt.Sprintf("%s holds %s", key, describe(n)), "it must hold texts; put them in quotes")
		case !form.MatchString(n.Value):
			o.p.add(n.Line, fmt.Sprintf("%s holds %s, which does not have the form %s", key, quoted(n.Value), form), "for instance "+example)
		case slices.Contains(out, n.Value):
			o.p.add(n.Line, fmt.Sprintf("%s holds %s twice", key, quoted(n.Value)), "keep one of them")
		default:
			out = append(out, n.Value)
		}
	}
	return out
}

// maxWhole is the largest whole number that every JSON reader holds exactly.
const maxWhole = 1<<53 - 1

// wholeNumber reads plain decimal: YAML would take 010 for eight.
func wholeNumber(n *yaml.Node) (int, bool) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" {
		return 0, false
	}
	return decimal(n.Value)
}

func decimal(s string) (int, bool) {
	v, err := strconv.Atoi(s)
	if err != nil || strconv.Itoa(v) != s || v > maxWhole || v < -maxWhole {
		return 0, false
	}
	return v, true
}

// describe says what a node is, for a sentence.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!null":
		return "empty"
	case n.Tag == "!!str":
		return "the text " + quoted(n.Value)
	default:
		return quoted(n.Value)
	}
}

// quoted quotes a value that people typed, cut to what fits into a sentence.
func quoted(s string) string {
	const longest = 60
	if runes := []rune(s); len(runes) > longest {
		return fmt.Sprintf("%q… (%d characters)", string(runes[:longest]), len(runes))
	}
	return strconv.Quote(s)
}
