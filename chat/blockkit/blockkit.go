// Package blockkit checks Block Kit JSON against the limits Slack documents, so that a message is refused here, with a
// pointer to the place, rather than by Slack in the middle of a run. The limits are data (tables.go) and one small
// walker reads them (check.go). It must not know who sends the blocks, what they mean, or any Slack client.
//
// Sources: https://docs.slack.dev/reference/block-kit and its pages on blocks, elements and composition objects.
package blockkit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// Surface is where blocks are shown; the number of blocks and the types allowed differ.
type Surface int

// The surfaces Slack has.
const (
	Message Surface = iota
	Modal
	Home
)

// Code names a kind of problem. The set is closed.
type Code string

// Every code that Check and CheckView can report.
const (
	CodeMalformed       Code = "malformed"        // not JSON, or not of the outer form Slack expects
	CodeWrongType       Code = "wrong_type"       // a string where an object belongs, and the like
	CodeMissing         Code = "missing"          // a required field is absent
	CodeUnknownField    Code = "unknown_field"    // a field Slack does not know; Slack refuses these
	CodeUnsupportedType Code = "unsupported_type" // an unknown "type", or one not allowed in this place
	CodeInvalidValue    Code = "invalid_value"    // a value outside its enumeration or range
	CodeTooShort        Code = "too_short"        // empty text
	CodeTooLong         Code = "too_long"         // more characters than allowed
	CodeTooFew          Code = "too_few"          // fewer items than needed
	CodeTooMany         Code = "too_many"         // more items than allowed
	CodeDuplicate       Code = "duplicate"        // block_id or action_id used twice
)

// Problem is one place where blocks break a rule.
type Problem struct {
	Path    string // JSON pointer from the request, e.g. /blocks/0/text/text
	Code    Code
	Limit   int    // the limit that was passed, in characters or items; 0 when the code has none
	Message string // in the shape Slack uses, e.g. "must be less than 3001 characters [json-pointer:/blocks/0/text/text]"
}

func (p Problem) String() string { return p.Message }

// MaxMessageBlocks and MaxViewBlocks are the numbers of blocks allowed in a message, and in a modal or Home tab.
const (
	MaxMessageBlocks = 50
	MaxViewBlocks    = 100
	// MaxMarkdown is how many characters all markdown blocks of one message may hold together.
	MaxMarkdown = 12000
)

// Check reports every rule that a JSON array of blocks breaks on a surface, in document order; nil means that Slack
// should accept it. Lengths are UTF-16 code units of the text as Slack stores it (see AsStored): Slack does not say
// which unit it counts in, and this is the strictest.
func Check(blocks json.RawMessage, surface Surface) []Problem {
	c := &checker{surface: surface}
	path := "/blocks"
	if surface != Message {
		path = "/view/blocks"
	}
	v, err := decode(blocks)
	if err != nil {
		c.report(path, CodeMalformed, 0, "must be valid JSON")
		return c.problems
	}
	c.blocks(path, v)
	return c.problems
}

// CheckView reports every rule that a view (a modal or a Home tab) breaks, its blocks included.
func CheckView(view json.RawMessage) []Problem {
	c := &checker{surface: Modal}
	v, err := decode(view)
	if err != nil {
		c.report("/view", CodeMalformed, 0, "must be valid JSON")
		return c.problems
	}
	obj, ok := v.(map[string]any)
	if !ok {
		c.report("/view", CodeWrongType, 0, "must provide an object")
		return c.problems
	}
	if obj["type"] == "home" {
		c.surface = Home
	}
	c.object("/view", obj, famView)
	if c.surface == Modal && obj["submit"] == nil && hasInput(obj["blocks"]) {
		c.report("/view", CodeMissing, 0, "missing required field: submit")
	}
	return c.problems
}

// decode parses exactly one JSON value and keeps numbers as written.
func decode(raw []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("decoding: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("decoding: data after the value")
	}
	return v, nil
}

func hasInput(blocks any) bool {
	list, _ := blocks.([]any)
	for _, b := range list {
		if obj, ok := b.(map[string]any); ok && obj["type"] == "input" {
			return true
		}
	}
	return false
}
