package blastdoor

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// Change is one thing that a write would change, as the rehearsal saw it.
type Change struct {
	Target string `json:"target"`
	Field  string `json:"field"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// FieldReplicas is the field name under which every environment reports a change
// of the number of replicas; the verifier reads scale-to-zero from it.
const FieldReplicas = "replicas"

// Rehearsal is what an environment's dry run answers. A rehearsal changes nothing.
type Rehearsal struct {
	Targets []string // services and hosts that the write touches, sorted
	Changes []Change // at least one
	// Versions are the versions that the write is conditional on, by target.
	Versions map[string]string
	// Graph is the dependency graph seen by the same rehearsal; it is shared and immutable.
	Graph *Graph
	// GraphAsOf is when the graph was last known to be true.
	GraphAsOf time.Time
}

// Check is the metric that must hold after a write.
type Check struct {
	Metric string        `json:"metric"`
	Target string        `json:"target"`
	Expect string        `json:"expect"`
	Within time.Duration `json:"within"`
	Settle time.Duration `json:"settle"`
}

// Rollback is the declared way back, part of the plan and so of its hash.
type Rollback struct {
	Action string `json:"action"`
	Params Params `json:"params"`
}

// Plan is a sealed proposal: what exactly would be done, to what, who would feel
// it, and the versions it is conditional on. Everything in it is covered by Hash;
// nothing that changes from one rehearsal of the same world to the next is in it.
type Plan struct {
	RunID    string            `json:"run"`
	StepID   string            `json:"step"`
	Action   string            `json:"action"`
	Kind     ActionKind        `json:"kind"`
	Params   Params            `json:"params"`
	Targets  []string          `json:"targets"`
	Changes  []Change          `json:"changes"`
	Radius   Radius            `json:"radius"`
	Versions map[string]string `json:"versions"`
	Check    *Check            `json:"check,omitempty"`
	Rollback *Rollback         `json:"rollback,omitempty"`
	// Fault is why the proposal could not be sealed (unknown_action,
	// params_invalid, dry_run_failed). A plan with a fault is always denied.
	Fault *Reason `json:"fault,omitempty"`
}

// Hash is the plan's identity: an approval holds for exactly one hash.
func (p Plan) Hash() (string, error) { return Digest(p) }

// Locks returns the names that no other run may write while this plan's write is
// in flight: the services it touches directly and the hosts it names.
func (p Plan) Locks() []string {
	seen := make(map[string]bool, len(p.Targets)+len(p.Radius.Direct))
	var out []string
	for _, list := range [][]string{p.Targets, p.Radius.Direct} {
		for _, name := range list {
			if !seen[name] {
				seen[name] = true
				out = append(out, name)
			}
		}
	}
	return out
}

// IdempotencyKey derives the key under which a write is made. The same run, step
// and plan always give the same key, so that a retry after a crash is the same write.
func IdempotencyKey(runID, stepID, planHash string) string {
	sum := sha256.Sum256([]byte("blastdoor-key-v1\x00" + runID + "\x00" + stepID + "\x00" + planHash))
	return "bd1-" + hex.EncodeToString(sum[:20])
}

// Outcome is what an environment knows about a key. Unknown is the zero value.
type Outcome int

const (
	// OutcomeUnknown: the environment cannot tell. It never guesses.
	OutcomeUnknown Outcome = iota
	// OutcomeApplied: the ledger holds the effect.
	OutcomeApplied
	// OutcomeNotApplied: the write has not happened so far. Together with the
	// expected versions a second Apply under the same key is safe.
	OutcomeNotApplied
)

func (o Outcome) String() string {
	switch o {
	case OutcomeApplied:
		return "applied"
	case OutcomeNotApplied:
		return "not_applied"
	default:
		return "unknown"
	}
}

// Receipt is the environment's own record of an effect.
type Receipt struct {
	Key     string    `json:"key"`
	Effect  string    `json:"effect"` // the environment's id of the ledger row
	At      time.Time `json:"at"`
	Summary string    `json:"summary"` // one sentence for people
	// Replayed: the effect had happened before, under this key.
	Replayed bool `json:"replayed,omitempty"`
}

// Observation is the answer of a read.
type Observation struct {
	Summary string `json:"summary"` // a few lines for people, untrusted text
	Data    any    `json:"data,omitempty"`
}
