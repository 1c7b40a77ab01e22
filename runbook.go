package blastdoor

// ActionKind says whether an action can change anything. It comes from the
// environment's own table, never from a runbook or a planner.
type ActionKind string

const (
	Read  ActionKind = "read"
	Write ActionKind = "write"
)

// Action is one named, typed thing that an environment can do.
type Action struct {
	Name        string     `json:"name"`
	Kind        ActionKind `json:"kind"`
	Description string     `json:"description"`
	// Schema is a JSON Schema (draft 2020-12) that the parameters must satisfy,
	// as decoded JSON; it is data, so that each environment brings its own.
	Schema map[string]any `json:"schema"`
}

// Params are an action's parameters or a run's inputs: JSON scalars by name.
// Numbers may be int or float64 (after a trip through JSON); both hash alike.
type Params map[string]any

// InputType is the type of a runbook's input.
type InputType string

const (
	StringInput  InputType = "string"
	IntegerInput InputType = "integer"
	BooleanInput InputType = "boolean"
	EnumInput    InputType = "enum"
)

// Input is one typed input of a runbook.
type Input struct {
	Name        string    `json:"name"`
	Type        InputType `json:"type"`
	Description string    `json:"description,omitempty"`
	Default     any       `json:"default,omitempty"` // nil: the input is required
	Options     []string  `json:"options,omitempty"` // enum
	Min         *int      `json:"min,omitempty"`     // integer, inclusive
	Max         *int      `json:"max,omitempty"`     // integer, inclusive
	Pattern     string    `json:"pattern,omitempty"` // string: RE2, must match the whole value
	MaxLength   int       `json:"max_length,omitempty"`
}

// Step is one step of a runbook. In Params a string may be or hold ${{ inputs.x }}
// until Resolve has replaced it.
type Step struct {
	ID          string   `json:"id"`
	Action      string   `json:"action"`
	Params      Params   `json:"params,omitempty"`
	DependsOn   []string `json:"depends_on,omitempty"`
	Description string   `json:"description,omitempty"`
	Line        int      `json:"-"` // in the file, 1-based
}

// Runbook is a procedure that people wrote: typed inputs and steps in an order
// that respects depends_on.
type Runbook struct {
	Name        string  `json:"name"`
	Description string  `json:"description,omitempty"`
	Inputs      []Input `json:"inputs,omitempty"`
	Steps       []Step  `json:"steps"`
	File        string  `json:"-"`
}

// RunbookPlanner is the name under which steps are proposed as people wrote them.
const RunbookPlanner = "runbook"

// Proposal is what a planner asks for. It is data: the verifier decides.
type Proposal struct {
	StepID        string  `json:"step"`
	Action        string  `json:"action"`
	Params        Params  `json:"params,omitempty"`
	Justification string  `json:"justification,omitempty"`
	Confidence    float64 `json:"confidence"` // 0 to 1; people's runbooks propose with 1
	Planner       string  `json:"planner"`
	// Raw is the planner's answer verbatim, empty for a runbook.
	Raw string `json:"raw,omitempty"`
}
