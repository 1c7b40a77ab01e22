package runbooks

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"gopkg.in/yaml.v3"

	"blastdoor"
)

const (
	maxSteps  = 100
	maxInputs = 50
)

// The forms of names. Slack shows them, people type them, and none of them can
// be mistaken for an option, a path or markup.
var (
	stepID      = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)
	inputName   = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,39}$`)
	runbookName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)
	anyText     = regexp.MustCompile(`^[^\pC]{1,200}$`)
)

// LoadRunbook reads a runbook and holds it against the actions that the
// environment has. It returns every problem it finds, in the order of their
// lines, with codes of blastdoor.LoadErrors; the runbook is good only when there
// is none. Steps are returned in an order that respects depends_on. Parameters
// are validated as far as they do not depend on an input that a person gives.
func LoadRunbook(file string, data []byte, actions []blastdoor.Action) (blastdoor.Runbook, []*blastdoor.Error) {
	s, err := compileAll(actions)
	if err != nil {
		return blastdoor.Runbook{}, []*blastdoor.Error{{Code: blastdoor.ErrParamsInvalid, Where: file,
			Msg: "the environment's actions cannot be read", Err: err}}
	}
	return s.load(file, data)
}

func (s *schemas) load(file string, data []byte) (blastdoor.Runbook, []*blastdoor.Error) {
	p := &problems{file: file, code: blastdoor.ErrInvalidRunbook}
	rb := blastdoor.Runbook{File: file}
	root := p.parse(data)
	if root == nil {
		return rb, p.errors()
	}
	o, ok := p.object(root, "a runbook", "name", "description", "inputs", "steps")
	if !ok {
		return rb, p.errors()
	}
	if o.require("the runbook", "name", "restart-web") {
		rb.Name = o.matching("name", runbookName, "restart-web")
	}
	rb.Description = o.prose("description")
	rb.Inputs = p.inputs(o.values["inputs"])
	if o.require("the runbook", "steps", "[{id: list, action: list_services}]") {
		l := stepLoader{problems: p, schemas: s, inputs: rb.Inputs, declared: declared(o.values["inputs"])}
		rb.Steps = l.steps(o)
	}
	if len(p.list) > 0 {
		rb.Steps = nil // half a runbook must not be run
	}
	return rb, p.errors()
}

// declared returns the names of the inputs as written, also of those that are wrong.
func declared(n *yaml.Node) (names []string) {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		names = append(names, n.Content[i].Value)
	}
	return names
}

type stepLoader struct {
	*problems
	schemas  *schemas
	inputs   []blastdoor.Input // those that are right
	declared []string          // all of them
}

func (l *stepLoader) steps(o object) []blastdoor.Step {
	nodes := o.items("steps")
	switch {
	case len(nodes) == 0 && o.values["steps"].Kind == yaml.SequenceNode:
		l.add(o.line("steps"), "the runbook has no steps", "add one, like `- {id: restart, action: restart_service}`")
	case len(nodes) > maxSteps:
		l.add(o.line("steps"), fmt.Sprintf("%d steps", len(nodes)), fmt.Sprintf("at most %d", maxSteps))
		return nil
	}
	var steps []blastdoor.Step
	lines := map[string]int{}
	for i, n := range nodes {
		step, ok := l.one(i, n)
		if !ok {
			continue
		}
		if line, dup := lines[step.ID]; dup {
			l.step = step.ID
			l.addAs(blastdoor.ErrDuplicateID, step.Line, fmt.Sprintf("the id %q is taken by the step in line %d", step.ID, line), "give it another id")
			l.step = ""
			continue
		}
		lines[step.ID] = step.Line
		steps = append(steps, step)
	}
	return l.ordered(steps, nodes)
}

// ordered checks the dependencies and puts the steps in their order.
func (l *stepLoader) ordered(steps []blastdoor.Step, nodes []*yaml.Node) []blastdoor.Step {
	var ids []string
	for _, s := range steps {
		ids = append(ids, s.ID)
	}
	for _, s := range steps {
		l.step = s.ID
		for _, dep := range s.DependsOn {
			// A step that was left out for another problem is not blamed here.
			if !slices.Contains(ids, dep) && len(steps) == len(nodes) {
				l.addAs(blastdoor.ErrUnknownDependency, s.Line, fmt.Sprintf("it depends on %q, which is no step", dep),
					cmp.Or(l.suggest(dep, without(ids, s.ID), "the steps are"), "take it away"))
			}
		}
	}
	l.step = ""
	sorted, cycle := order(steps)
	if cycle != "" {
		l.addAs(blastdoor.ErrCycle, steps[0].Line, "the steps wait for each other: "+cycle, "take one depends_on away")
	}
	return sorted
}

func without(list []string, s string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(x string) bool { return x == s })
}

// one reads one step. It returns false when the step has no usable id.
func (l *stepLoader) one(i int, n *yaml.Node) (blastdoor.Step, bool) {
	l.step = fmt.Sprintf("no. %d", i+1)
	defer func() { l.step = "" }()
	o, ok := l.object(n, "a step", "id", "action", "params", "depends_on", "description")
	if !ok || !o.require("the step", "id", "restart") {
		return blastdoor.Step{}, false
	}
	step := blastdoor.Step{ID: o.matching("id", stepID, "restart-web"), Line: n.Line}
	if step.ID == "" {
		return step, false
	}
	l.step = step.ID
	step.Description = o.prose("description")
	step.DependsOn = o.texts("depends_on", stepID, "restart-web")
	before := len(l.list)
	if o.has("params") {
		step.Params = l.params(o.values["params"])
	}
	sound := len(l.list) == before
	if o.require("the step", "action", "restart_service") {
		step.Action = o.text("action")
		l.action(o, step, sound)
	}
	return step, true
}

func (l *stepLoader) params(n *yaml.Node) blastdoor.Params {
	entries, _ := l.entries(n, "params")
	out := blastdoor.Params{}
	for _, e := range entries {
		v, ok := scalar(e.value)
		if !ok {
			l.addAs(blastdoor.ErrParamsInvalid, e.line, fmt.Sprintf("%s is %s", e.key, describe(e.value)),
				"a parameter is text, a number, true or false")
			continue
		}
		s, text := v.(string)
		if len(s) > maxParam {
			l.addAs(blastdoor.ErrParamsInvalid, e.line, fmt.Sprintf("%s is longer than %d bytes", e.key, maxParam), "")
			continue
		}
		if out[e.key] = v; text {
			l.references(e.value.Line, s)
		}
	}
	return out
}

// references checks what a text refers to.
func (l *stepLoader) references(line int, s string) {
	names, err := placeholders(s)
	if err != nil {
		l.addAs(blastdoor.ErrParamsInvalid, line, err.Error(), "write ${{ inputs.NAME }}")
	}
	for _, name := range names {
		if !slices.Contains(l.declared, name) {
			l.addAs(blastdoor.ErrUnknownInput, line, fmt.Sprintf("there is no input %q", name),
				cmp.Or(l.suggest(name, l.declared, "the inputs are"), "declare it under inputs"))
		}
	}
}

// action checks that the action exists and that the parameters, if they could be
// read, satisfy it.
func (l *stepLoader) action(o object, step blastdoor.Step, sound bool) {
	i := slices.IndexFunc(l.schemas.actions, func(a blastdoor.Action) bool { return a.Name == step.Action })
	if i < 0 {
		if step.Action != "" {
			l.addAs(blastdoor.ErrUnknownAction, o.line("action"), fmt.Sprintf("there is no action %s", quoted(step.Action)),
				l.suggest(step.Action, l.schemas.names, "the actions are"))
		}
		return
	}
	if !sound {
		return
	}
	params, open := l.known(step.Params)
	faults, err := l.schemas.faults(l.schemas.actions[i], params)
	if err != nil {
		l.addAs(blastdoor.ErrParamsInvalid, o.line("params"), "the parameters cannot be checked: "+err.Error(), "")
		return
	}
	for _, f := range faults {
		if !open[f.param] {
			l.addAs(blastdoor.ErrParamsInvalid, paramLine(o, f.at), f.text, takes(l.schemas.actions[i]))
		}
	}
}

// known fills in the defaults. Parameters that depend on an input without one are
// open: they are checked when a person has given it.
func (l *stepLoader) known(params blastdoor.Params) (blastdoor.Params, map[string]bool) {
	defaults := blastdoor.Params{}
	for _, in := range l.inputs {
		if in.Default != nil {
			defaults[in.Name] = in.Default
		}
	}
	out, open := maps.Clone(params), map[string]bool{}
	for name, v := range params {
		if s, text := v.(string); text {
			value, err := fill(s, defaults)
			if err != nil {
				open[name] = true
				continue
			}
			out[name] = value
		}
	}
	return out, open
}

func paramLine(o object, name string) int {
	n := o.values["params"]
	if n == nil {
		return o.node.Line
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i].Line
		}
	}
	return n.Line
}
