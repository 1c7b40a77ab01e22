package simenv

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"blastdoor"
)

//go:embed worlds/default.yaml
var defaultWorld []byte

// DefaultWorld returns the world that ships with the program: eleven services on
// six hosts.
func DefaultWorld() (World, error) { return ParseWorld("worlds/default.yaml", defaultWorld) }

// ParseWorld reads a world from YAML, strictly: an unknown key, a second document
// or a service without name, host or replicas is an error. The error joins one
// *blastdoor.Error per problem; each names file and line and says what would be right.
func ParseWorld(file string, data []byte) (World, error) {
	var w World
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	switch err := dec.Decode(&w); {
	case errors.Is(err, io.EOF):
		return World{}, problem{code: blastdoor.ErrParamsInvalid, msg: "the file is empty",
			want: "hosts and services"}.at(file)
	case err != nil:
		return World{}, decodeErrors(file, err)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return World{}, problem{code: blastdoor.ErrParamsInvalid, msg: "there is more than one document",
			want: "one world per file"}.at(file)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return World{}, decodeErrors(file, err)
	}
	var errs []error
	for _, p := range append(missingKeys(&doc, len(w.Services)), w.problems()...) {
		errs = append(errs, p.at(fmt.Sprintf("%s:%d", file, lineOf(&doc, p.steps))))
	}
	if len(errs) > 0 {
		return World{}, errors.Join(errs...)
	}
	return w, nil
}

// UnmarshalYAML accepts `db` and `{name: db, kind: calls}`.
func (d *Dependency) UnmarshalYAML(node *yaml.Node) error {
	switch node.Kind {
	case yaml.ScalarNode:
		*d = Dependency{Name: node.Value, Kind: blastdoor.Calls}
		return nil
	case yaml.MappingNode:
		return d.fromMapping(node)
	default:
		return typeError(node.Line, "a dependency is a name, or a mapping of name and kind")
	}
}

func (d *Dependency) fromMapping(node *yaml.Node) error {
	*d = Dependency{Kind: blastdoor.Calls}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		switch key.Value {
		case "name":
			d.Name = value.Value
		case "kind":
			d.Kind = blastdoor.EdgeKind(value.Value)
		default:
			return typeError(key.Line, fmt.Sprintf("field %s not found in type dependency", key.Value))
		}
	}
	return nil
}

// typeError speaks the decoder's own dialect, so that it joins this error with
// the others that it found.
func typeError(line int, msg string) error {
	return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: %s", line, msg)}}
}

var (
	lineMessage  = regexp.MustCompile(`(?s)^(?:yaml: )?line (\d+): (.*)$`)
	unknownField = regexp.MustCompile(`^field (.+) not found in type (?:simenv\.)?(\w+)$`)
)

// decodeErrors gives the decoder's messages a file, a line and a way out.
func decodeErrors(file string, err error) error {
	messages := []string{err.Error()}
	if typed, ok := errors.AsType[*yaml.TypeError](err); ok {
		messages = typed.Errors
	}
	var errs []error
	for _, message := range messages {
		where := file
		if m := lineMessage.FindStringSubmatch(message); m != nil {
			where, message = file+":"+m[1], m[2]
		}
		p := problem{code: blastdoor.ErrParamsInvalid, msg: message, want: "YAML as in worlds/default.yaml"}
		if m := unknownField.FindStringSubmatch(message); m != nil {
			p.msg, p.want = fmt.Sprintf("unknown key %q", m[1]), "one of "+strings.Join(knownKeys(m[2]), ", ")
		}
		errs = append(errs, p.at(where))
	}
	return errors.Join(errs...)
}

func knownKeys(typeName string) []string {
	switch typeName {
	case "World":
		return []string{"hosts", "services"}
	case "Service":
		return []string{"name", "replicas", "protected", "host", "depends_on", "version", "previous_version", "metrics"}
	default:
		return []string{"name", "kind"}
	}
}

// missingKeys finds services without a key that has no sensible default: the
// decoder cannot tell a missing number from a zero.
func missingKeys(doc *yaml.Node, services int) []problem {
	var found []problem
	for i := range services {
		node, _ := follow(doc, []any{"services", i})
		for _, key := range []string{"name", "host", "replicas"} {
			if _, ok := follow(node, []any{key}); !ok {
				found = append(found, problem{steps: []any{"services", i}, code: blastdoor.ErrParamsInvalid,
					msg: "service " + strconv.Itoa(i+1) + " has no " + key, want: "add `" + key + ":`"})
			}
		}
	}
	return found
}

// lineOf returns the line of a place, or of the nearest thing around it.
func lineOf(doc *yaml.Node, steps []any) int {
	node, _ := follow(doc, steps)
	return max(node.Line, 1)
}

// follow walks from node along keys and indexes, as far as it gets, and reports
// whether it got to the end.
func follow(node *yaml.Node, steps []any) (*yaml.Node, bool) {
	if node.Kind == yaml.DocumentNode {
		node = node.Content[0]
	}
	for _, step := range steps {
		if node.Kind == yaml.AliasNode {
			node = node.Alias
		}
		next := -1 // nowhere
		switch step := step.(type) {
		case int:
			next = step
		case string:
			next = valueIndex(node, step)
		}
		if next < 0 || next >= len(node.Content) {
			return node, false
		}
		node = node.Content[next]
	}
	return node, true
}

// valueIndex finds the value of a key in a mapping, whose content is key, value,
// key, value; -1 when there is none.
func valueIndex(mapping *yaml.Node, key string) int {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return i + 1
		}
	}
	return -1
}
