package runbooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"blastdoor"
)

// schemas holds the compiled parameter schemas of an environment's actions.
type schemas struct {
	actions []blastdoor.Action
	names   []string
	byName  map[string]compiled
}

type compiled struct {
	source map[string]any
	schema *jsonschema.Schema
}

func compileAll(actions []blastdoor.Action) (*schemas, error) {
	s := &schemas{actions: actions, byName: make(map[string]compiled, len(actions))}
	for _, a := range actions {
		schema, err := compile(a)
		if err != nil {
			return nil, err
		}
		s.names = append(s.names, a.Name)
		s.byName[a.Name] = compiled{a.Schema, schema}
	}
	slices.Sort(s.names)
	return s, nil
}

// nowhere refuses to load anything: a schema must be whole in itself.
type nowhere struct{}

func (nowhere) Load(url string) (any, error) {
	return nil, fmt.Errorf("a schema must not refer to %s", url)
}

func compile(a blastdoor.Action) (*jsonschema.Schema, error) {
	doc, err := asJSON(a.Schema)
	if err != nil {
		return nil, fmt.Errorf("reading the schema of %s: %w", a.Name, err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(nowhere{})
	const url = "mem:///params"
	if err := c.AddResource(url, doc); err != nil {
		return nil, fmt.Errorf("reading the schema of %s: %w", a.Name, err)
	}
	schema, err := c.Compile(url)
	if err != nil {
		return nil, fmt.Errorf("compiling the schema of %s: %w", a.Name, err)
	}
	return schema, nil
}

// asJSON brings a value into the types that the schema library knows.
func asJSON(v any) (any, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(data))
}

// validate checks parameters against the action's schema; ErrParamsInvalid.
func (s *schemas) validate(a blastdoor.Action, params blastdoor.Params) error {
	faults, err := s.faults(a, params)
	if err != nil {
		return &blastdoor.Error{Code: blastdoor.ErrParamsInvalid, Msg: a.Name + " cannot be checked", Err: err}
	}
	if len(faults) == 0 {
		return nil
	}
	var texts []string
	for _, f := range faults {
		texts = append(texts, f.text)
	}
	return &blastdoor.Error{Code: blastdoor.ErrParamsInvalid,
		Msg: a.Name + ": " + strings.Join(slices.Compact(texts), "; "), Want: takes(a)}
}

// fault is one thing that is wrong with the parameters.
type fault struct {
	param string // whose value is wrong; empty when it is about which there are
	at    string // the parameter to point at, if any
	text  string
}

func (s *schemas) faults(a blastdoor.Action, params blastdoor.Params) ([]fault, error) {
	schema := s.byName[a.Name].schema
	if schema == nil || !reflect.DeepEqual(s.byName[a.Name].source, a.Schema) {
		var err error
		if schema, err = compile(a); err != nil {
			return nil, err
		}
	}
	if params == nil {
		params = blastdoor.Params{}
	}
	doc, err := asJSON(params)
	if err != nil {
		return nil, err
	}
	invalid, ok := errors.AsType[*jsonschema.ValidationError](schema.Validate(doc))
	if !ok {
		return nil, nil
	}
	return leaves(invalid, params, nil), nil
}

// leaves flattens the library's tree of causes into an order that does not change.
func leaves(e *jsonschema.ValidationError, params blastdoor.Params, out []fault) []fault {
	for _, cause := range e.Causes {
		out = leaves(cause, params, out)
	}
	if len(e.Causes) == 0 {
		out = append(out, faultOf(e, params))
	}
	slices.SortFunc(out, func(a, b fault) int {
		return strings.Compare(a.param+"\x00"+a.text, b.param+"\x00"+b.text)
	})
	return out
}

func faultOf(e *jsonschema.ValidationError, params blastdoor.Params) fault {
	if len(e.InstanceLocation) > 0 {
		name := e.InstanceLocation[0]
		return fault{param: name, at: name, text: sentence(e.ErrorKind, name, value(params[name]))}
	}
	f := fault{text: sentence(e.ErrorKind, "the list of parameters", "")}
	if extra, ok := e.ErrorKind.(*kind.AdditionalProperties); ok {
		f.at = slices.Min(extra.Properties)
	}
	return f
}

func value(v any) string {
	if s, ok := v.(string); ok {
		return quoted(s)
	}
	return fmt.Sprint(v)
}

// sentence puts what the schema objects to into words.
func sentence(k jsonschema.ErrorKind, name, got string) string {
	switch k := k.(type) {
	case *kind.Required:
		if len(k.Missing) == 1 {
			return k.Missing[0] + " is missing"
		}
		return strings.Join(slices.Sorted(slices.Values(k.Missing)), " and ") + " are missing"
	case *kind.AdditionalProperties:
		return "there is no parameter " + strings.Join(slices.Sorted(slices.Values(k.Properties)), " or ")
	case *kind.Type:
		return fmt.Sprintf("%s must be of type %s, not %s", name, strings.Join(k.Want, " or "), got)
	case *kind.Pattern:
		return fmt.Sprintf("%s must have the form %s, not %s", name, k.Want, got)
	case *kind.Minimum:
		return fmt.Sprintf("%s must be at least %s, not %s", name, number(k.Want), got)
	case *kind.Maximum:
		return fmt.Sprintf("%s must be at most %s, not %s", name, number(k.Want), got)
	case *kind.Enum:
		return fmt.Sprintf("%s must be one of %s, not %s", name, list(k.Want), got)
	default:
		return fmt.Sprintf("%s does not satisfy %s of the action's schema", name, strings.Join(k.KeywordPath(), "/"))
	}
}

func number(r *big.Rat) string {
	return strings.TrimSuffix(strings.TrimRight(r.FloatString(6), "0"), ".")
}

func list(values []any) string {
	var out []string
	for _, v := range values {
		out = append(out, value(v))
	}
	return strings.Join(out, ", ")
}

// takes says which parameters an action has, as far as its schema is a plain one.
func takes(a blastdoor.Action) string {
	properties, _ := a.Schema["properties"].(map[string]any)
	if len(properties) == 0 {
		return a.Name + " takes no parameters"
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		p, _ := properties[name].(map[string]any)
		words := name
		if t, ok := p["type"].(string); ok {
			words += " (" + t
			if low, high := p["minimum"], p["maximum"]; low != nil && high != nil {
				words += fmt.Sprintf(", %v to %v", low, high)
			}
			words += ")"
		}
		all = append(all, words)
	}
	return a.Name + " takes " + strings.Join(all, ", ")
}
