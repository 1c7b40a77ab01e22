package blockkit

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// checker walks a decoded document along the tables and collects problems.
type checker struct {
	surface  Surface
	problems []Problem
	blockIDs map[string]bool
	markdown int // characters in all markdown blocks so far
	tables   int
}

func (c *checker) report(path string, code Code, limit int, format string, args ...any) {
	msg := fmt.Sprintf(format, args...) + " [json-pointer:" + path + "]"
	c.problems = append(c.problems, Problem{Path: path, Code: code, Limit: limit, Message: msg})
}

// blocks checks the outer array and the rules that span blocks.
func (c *checker) blocks(path string, v any) {
	items, ok := v.([]any)
	if !ok {
		c.report(path, CodeWrongType, 0, "must provide an array")
		return
	}
	limit := MaxMessageBlocks
	if c.surface != Message {
		limit = MaxViewBlocks
	}
	if len(items) > limit {
		c.report(path, CodeTooMany, limit, "no more than %d items allowed", limit)
	}
	c.blockIDs = make(map[string]bool)
	for i, item := range items {
		at := path + "/" + strconv.Itoa(i)
		obj, ok := item.(map[string]any)
		if !ok {
			c.report(at, CodeWrongType, 0, "must provide an object")
			continue
		}
		c.object(at, obj, famBlock)
		c.acrossBlocks(at, obj)
	}
}

// acrossBlocks checks what a single block cannot show: ids used twice, the sum of markdown, a second table.
func (c *checker) acrossBlocks(path string, obj map[string]any) {
	if id, _ := obj["block_id"].(string); id != "" {
		if c.blockIDs[id] {
			c.report(path+"/block_id", CodeDuplicate, 0, "`block_id` %q already exists", id)
		}
		c.blockIDs[id] = true
	}
	c.actionIDs(path, obj)
	switch obj["type"] {
	case "markdown":
		s, _ := obj["text"].(string)
		n := Length(AsStored(s, false))
		if n <= MaxMarkdown && c.markdown+n > MaxMarkdown {
			c.report(path+"/text", CodeTooLong, MaxMarkdown, "must be less than %d characters in all markdown blocks together", MaxMarkdown+1)
		}
		c.markdown += n
	case "table":
		if c.tables++; c.tables > 1 {
			c.report(path, CodeTooMany, 1, "only one table allowed")
		}
	}
}

// actionIDs reports an action_id used twice within one block: Slack could not tell the two apart.
func (c *checker) actionIDs(path string, obj map[string]any) {
	elements, _ := obj["elements"].([]any)
	seen := make(map[string]bool)
	for i, e := range elements {
		el, _ := e.(map[string]any)
		id, _ := el["action_id"].(string)
		if id == "" {
			continue
		}
		if seen[id] {
			c.report(path+"/elements/"+strconv.Itoa(i)+"/action_id", CodeDuplicate, 0, "`action_id` %q already exists", id)
		}
		seen[id] = true
	}
}

// object checks one object against the shape its type has in a family.
func (c *checker) object(path string, obj map[string]any, fam family) {
	typ, given := obj["type"].(string)
	s, ok := shapeOf(fam, untyped)
	if !ok {
		if !given {
			c.report(path, CodeMissing, 0, "missing required field: type")
			return
		}
		if s, ok = shapeOf(fam, typ); !ok {
			c.report(path+"/type", CodeUnsupportedType, 0, "unsupported type: %s", typ)
			return
		}
	}
	if len(s.surfaces) > 0 && !slices.Contains(s.surfaces, c.surface) {
		c.report(path+"/type", CodeUnsupportedType, 0, "unsupported type: %s", typ)
		return
	}
	c.shape(path, obj, s)
}

// shape checks the fields of one object.
func (c *checker) shape(path string, obj map[string]any, s shape) {
	c.known(path, obj, s)
	for _, f := range s.fields {
		v, present := obj[f.name]
		switch {
		case present:
			c.value(path+"/"+f.name, v, f)
		case f.required:
			c.report(path, CodeMissing, 0, "missing required field: %s", f.name)
		}
	}
	if len(s.anyOf) > 0 && !slices.ContainsFunc(s.anyOf, func(name string) bool { return obj[name] != nil }) {
		c.report(path, CodeMissing, 0, "missing required field: %s", s.anyOf[0])
	}
}

// known reports fields the shape does not have, in a stable order.
func (c *checker) known(path string, obj map[string]any, s shape) {
	var extra []string
	for name := range obj {
		if name != "type" && !slices.ContainsFunc(s.fields, func(f field) bool { return f.name == name }) {
			extra = append(extra, name)
		}
	}
	slices.Sort(extra)
	for _, name := range extra {
		c.report(path, CodeUnknownField, 0, "invalid additional property: %s", name)
	}
}

func (c *checker) value(path string, v any, f field) {
	switch f.kind {
	case kindText:
		c.text(path, v, f)
	case kindProse, kindMrkdwn, kindToken:
		c.str(path, v, f)
	case kindEnum:
		if s, ok := v.(string); !ok || !slices.Contains(f.values, s) {
			c.report(path, CodeInvalidValue, 0, "must be a valid enum value")
		}
	case kindBool:
		if _, ok := v.(bool); !ok {
			c.report(path, CodeWrongType, 0, "must provide a boolean")
		}
	case kindInt:
		c.integer(path, v, f)
	case kindObject:
		if obj, ok := c.asObject(path, v); ok {
			c.object(path, obj, f.of)
		}
	case kindList:
		c.list(path, v, f)
	case kindStrings:
		c.strings(path, v)
	case kindRows:
		c.rows(path, v, f)
	case kindBlocks:
		c.blocks(path, v)
	case kindAny:
	}
}

func (c *checker) asObject(path string, v any) (map[string]any, bool) {
	obj, ok := v.(map[string]any)
	if !ok {
		c.report(path, CodeWrongType, 0, "must provide an object")
	}
	return obj, ok
}

func (c *checker) text(path string, v any, f field) {
	obj, ok := c.asObject(path, v)
	if !ok {
		return
	}
	typ, _ := obj["type"].(string)
	s, ok := textShape(typ, f.max)
	if !ok || f.plain && typ != "plain_text" {
		c.report(path+"/type", CodeUnsupportedType, 0, "unsupported type: %s", typ)
		return
	}
	c.shape(path, obj, s)
}

func (c *checker) str(path string, v any, f field) {
	s, ok := v.(string)
	if !ok {
		c.report(path, CodeWrongType, 0, "must provide a string")
		return
	}
	if f.kind != kindToken {
		s = AsStored(s, f.kind == kindMrkdwn)
	}
	c.length(path, Length(s), f)
}

func (c *checker) length(path string, n int, f field) {
	if n < f.min {
		c.report(path, CodeTooShort, f.min, "must be more than %d characters", f.min-1)
	}
	if f.max > 0 && n > f.max {
		c.report(path, CodeTooLong, f.max, "must be less than %d characters", f.max+1)
	}
}

func (c *checker) integer(path string, v any, f field) {
	num, ok := v.(json.Number)
	if !ok {
		c.report(path, CodeWrongType, 0, "must provide an integer")
		return
	}
	n, err := num.Int64()
	if err != nil {
		c.report(path, CodeWrongType, 0, "must provide an integer")
		return
	}
	if n < int64(f.min) || f.max > 0 && n > int64(f.max) {
		c.report(path, CodeInvalidValue, f.max, "must be a value in the allowed range")
	}
}

func (c *checker) list(path string, v any, f field) {
	items, ok := c.items(path, v, f)
	if !ok {
		return
	}
	for i, item := range items {
		at := path + "/" + strconv.Itoa(i)
		if obj, ok := c.asObject(at, item); ok {
			c.object(at, obj, f.of)
		}
	}
}

// items checks that a value is an array of an allowed size.
func (c *checker) items(path string, v any, f field) ([]any, bool) {
	items, ok := v.([]any)
	if !ok {
		c.report(path, CodeWrongType, 0, "must provide an array")
		return nil, false
	}
	if len(items) < f.min {
		c.report(path, CodeTooFew, f.min, "no less than %d items allowed", f.min)
	}
	if f.max > 0 && len(items) > f.max {
		c.report(path, CodeTooMany, f.max, "no more than %d items allowed", f.max)
	}
	return items, true
}

func (c *checker) strings(path string, v any) {
	items, ok := v.([]any)
	if !ok {
		c.report(path, CodeWrongType, 0, "must provide an array")
		return
	}
	for i, item := range items {
		if _, ok := item.(string); !ok {
			c.report(path+"/"+strconv.Itoa(i), CodeWrongType, 0, "must provide a string")
		}
	}
}

func (c *checker) rows(path string, v any, f field) {
	items, ok := c.items(path, v, f)
	if !ok {
		return
	}
	cells := listField("", f.of, 1, maxColumns)
	for i, row := range items {
		c.list(path+"/"+strconv.Itoa(i), row, cells)
	}
}
