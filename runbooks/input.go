package runbooks

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"blastdoor"
)

// defaultMaxLength is how many characters a string input holds unless the runbook says.
const defaultMaxLength = 200

var inputTypes = []string{string(blastdoor.StringInput), string(blastdoor.IntegerInput),
	string(blastdoor.BooleanInput), string(blastdoor.EnumInput)}

// keysOfType are the keys that an input may have besides type, description and default.
var keysOfType = map[blastdoor.InputType][]string{
	blastdoor.StringInput:  {"pattern", "max_length"},
	blastdoor.IntegerInput: {"min", "max"},
	blastdoor.EnumInput:    {"options"},
}

// inputs reads the declared inputs, in file order.
func (p *problems) inputs(n *yaml.Node) []blastdoor.Input {
	if n == nil {
		return nil
	}
	entries, _ := p.entries(n, "inputs")
	if len(entries) > maxInputs {
		p.add(n.Line, fmt.Sprintf("%d inputs", len(entries)), fmt.Sprintf("at most %d", maxInputs))
		return nil
	}
	var out []blastdoor.Input
	for _, e := range entries {
		if e.key == blastdoor.BreakGlassKey {
			p.add(e.line, fmt.Sprintf("an input cannot be named %s: it is how a freeze is broken", e.key), "choose another name")
			continue
		}
		if !inputName.MatchString(e.key) {
			p.add(e.line, fmt.Sprintf("input name %s does not have the form %s", quoted(e.key), inputName), "for instance host")
			continue
		}
		if in, ok := p.input(e.key, e.value); ok {
			out = append(out, in)
		}
	}
	return out
}

func (p *problems) input(name string, n *yaml.Node) (blastdoor.Input, bool) {
	what := "input " + name
	o, ok := p.object(n, what, "type", "description", "default", "options", "min", "max", "pattern", "max_length")
	if !ok || !o.require(what, "type", "string") {
		return blastdoor.Input{}, false
	}
	in := blastdoor.Input{Name: name, Type: blastdoor.InputType(o.text("type")), Description: o.prose("description")}
	if !slices.Contains(inputTypes, string(in.Type)) {
		p.add(o.line("type"), fmt.Sprintf("%s has type %s", what, quoted(string(in.Type))),
			p.suggest(string(in.Type), inputTypes, "the types are"))
		return in, false
	}
	before := len(p.list)
	for _, key := range []string{"options", "min", "max", "pattern", "max_length"} {
		if o.has(key) && !slices.Contains(keysOfType[in.Type], key) {
			p.add(o.line(key), fmt.Sprintf("%s is of type %s, which has no %s", what, in.Type, key), "take it away")
		}
	}
	o.bounds(&in)
	if len(p.list) > before {
		return in, false
	}
	o.setDefault(&in)
	return in, len(p.list) == before
}

// bounds reads what limits the values of an input.
func (o object) bounds(in *blastdoor.Input) {
	if v, ok := o.integer("min"); ok {
		in.Min = &v
	}
	if v, ok := o.integer("max"); ok {
		in.Max = &v
	}
	if in.Min != nil && in.Max != nil && *in.Min > *in.Max {
		o.p.add(o.line("max"), fmt.Sprintf("max %d is below min %d", *in.Max, *in.Min), "")
	}
	in.Options = o.texts("options", anyText, "small")
	if in.Type == blastdoor.EnumInput && len(in.Options) == 0 {
		o.p.add(o.line("options"), fmt.Sprintf("input %s has no options", in.Name), "add `options: [small, large]`")
	}
	if v, ok := o.integer("max_length"); ok {
		if in.MaxLength = v; v < 1 || v > maxText {
			o.p.add(o.line("max_length"), fmt.Sprintf("max_length is %d", v), fmt.Sprintf("it must be 1 to %d", maxText))
		}
	}
	if in.Pattern = o.prose("pattern"); in.Pattern != "" {
		if _, err := whole(in.Pattern); err != nil {
			o.p.add(o.line("pattern"), "pattern is not a regular expression: "+err.Error(), "see the syntax of RE2")
		}
	}
}

// whole compiles a pattern that must match all of a value. The pattern must stand
// by itself too: one with a stray parenthesis could free itself from the anchors.
func whole(pattern string) (*regexp.Regexp, error) {
	if _, err := regexp.Compile(pattern); err != nil {
		return nil, err
	}
	return regexp.Compile(`\A(?:` + pattern + `)\z`)
}

// setDefault reads the default and holds it against the bounds.
func (o object) setDefault(in *blastdoor.Input) {
	n := o.values["default"]
	if n == nil {
		return
	}
	var err error
	switch v, ok := scalar(n); {
	case !ok:
		err = fmt.Errorf("it is %s", describe(n))
	case in.Type == blastdoor.IntegerInput:
		if i, whole := v.(int); whole {
			in.Default, err = i, checkInteger(in, i)
		} else {
			err = fmt.Errorf("it is %s, not a whole number", describe(n))
		}
	case in.Type == blastdoor.BooleanInput:
		if b, truth := v.(bool); truth {
			in.Default = b
		} else {
			err = fmt.Errorf("it is %s, neither true nor false", describe(n))
		}
	default:
		if s, text := v.(string); text {
			in.Default, err = s, checkText(in, s)
		} else {
			err = fmt.Errorf("it is %s, not text; put it in quotes", describe(n))
		}
	}
	if err != nil {
		o.p.add(n.Line, fmt.Sprintf("the default of input %s does not fit: %v", in.Name, err), "it must be "+kindOf(*in))
	}
}

// scalar decodes a plain value: text, a whole number, a number, or a truth value.
func scalar(n *yaml.Node) (any, bool) {
	if n.Kind != yaml.ScalarNode {
		return nil, false
	}
	switch n.Tag {
	case "!!str":
		return n.Value, true
	case "!!int":
		v, ok := decimal(n.Value)
		return v, ok
	case "!!bool":
		return strings.EqualFold(n.Value, "true"), true
	case "!!float":
		v, err := strconv.ParseFloat(n.Value, 64)
		return v, err == nil && v-v == 0 // neither infinite nor NaN: JSON has no such numbers
	default:
		return nil, false
	}
}

// convert turns what a person typed into a value of the input's type.
func convert(in *blastdoor.Input, typed string) (any, error) {
	switch in.Type {
	case blastdoor.IntegerInput:
		v, ok := decimal(typed)
		if !ok {
			return nil, fmt.Errorf("%s is not a whole number", quoted(typed))
		}
		return v, checkInteger(in, v)
	case blastdoor.BooleanInput:
		switch strings.ToLower(typed) {
		case "true":
			return true, nil
		case "false":
			return false, nil
		}
		return nil, fmt.Errorf("%s is neither true nor false", quoted(typed))
	case blastdoor.StringInput, blastdoor.EnumInput:
		return typed, checkText(in, typed)
	default:
		return nil, fmt.Errorf("it has the unknown type %q", in.Type)
	}
}

func checkInteger(in *blastdoor.Input, v int) error {
	if in.Min != nil && v < *in.Min {
		return fmt.Errorf("%d is below %d", v, *in.Min)
	}
	if in.Max != nil && v > *in.Max {
		return fmt.Errorf("%d is above %d", v, *in.Max)
	}
	return nil
}

func checkText(in *blastdoor.Input, s string) error {
	if in.Type == blastdoor.EnumInput {
		if slices.Contains(in.Options, s) {
			return nil
		}
		if hint := didYouMean(s, in.Options); hint != "" {
			return fmt.Errorf("%s is not an option; %s", quoted(s), hint)
		}
		return fmt.Errorf("%s is not an option", quoted(s))
	}
	longest := cmp.Or(in.MaxLength, defaultMaxLength)
	if n := utf8.RuneCountInString(s); n > longest {
		return fmt.Errorf("%s is longer than %d characters", quoted(s), longest)
	}
	if !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
		return fmt.Errorf("%s holds characters that cannot be printed", quoted(s))
	}
	if in.Pattern == "" {
		return nil
	}
	form, err := whole(in.Pattern)
	if err != nil {
		return fmt.Errorf("the pattern %s does not compile", quoted(in.Pattern))
	}
	if !form.MatchString(s) {
		return fmt.Errorf("%s does not have the form %s", quoted(s), in.Pattern)
	}
	return nil
}

// kindOf says in words what an input takes.
func kindOf(in blastdoor.Input) string {
	switch in.Type {
	case blastdoor.IntegerInput:
		return wholeNumberWords(in.Min, in.Max)
	case blastdoor.BooleanInput:
		return "true or false"
	case blastdoor.EnumInput:
		return strings.Join(in.Options, " or ")
	default:
		if in.Pattern != "" {
			return "text of the form " + in.Pattern
		}
		return fmt.Sprintf("text of at most %d characters", cmp.Or(in.MaxLength, defaultMaxLength))
	}
}

func wholeNumberWords(low, high *int) string {
	switch {
	case low != nil && high != nil:
		return fmt.Sprintf("a whole number from %d to %d", *low, *high)
	case low != nil:
		return fmt.Sprintf("a whole number from %d up", *low)
	case high != nil:
		return fmt.Sprintf("a whole number up to %d", *high)
	default:
		return "a whole number"
	}
}

// Usage says which inputs a runbook takes: "host (text of the form …, required),
// replicas (a whole number from 1 to 9, default 2)"; "no inputs" when there are none.
func Usage(rb blastdoor.Runbook) string {
	var all []string
	for _, in := range rb.Inputs {
		need := "required"
		if in.Default != nil {
			need = fmt.Sprintf("default %v", in.Default)
		}
		all = append(all, fmt.Sprintf("%s (%s, %s)", in.Name, kindOf(in), need))
	}
	if all == nil {
		return "no inputs"
	}
	return strings.Join(all, ", ")
}
