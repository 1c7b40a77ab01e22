package blastdoor

import "time"

// Decision is the verifier's answer. The zero value denies.
type Decision string

const (
	Deny          Decision = "deny"
	NeedsApproval Decision = "needs_approval"
	Allow         Decision = "allow"
)

// ReasonCode says why; a closed set (DESIGN section 4).
type ReasonCode string

const (
	UnknownAction       ReasonCode = "unknown_action"
	ActionNotOnMenu     ReasonCode = "action_not_on_menu"
	ActionForbidden     ReasonCode = "action_forbidden"
	ParamsInvalid       ReasonCode = "params_invalid"
	DryRunFailed        ReasonCode = "dry_run_failed"
	ChangeFreeze        ReasonCode = "change_freeze"
	BreakGlass          ReasonCode = "break_glass" // asks: a freeze is broken by those who may
	MaxWritesExceeded   ReasonCode = "max_writes_exceeded"
	BlastRadiusExceeded ReasonCode = "blast_radius_exceeded"
	DownstreamExceeded  ReasonCode = "downstream_exceeded"
	ScaleToZero         ReasonCode = "scale_to_zero"
	ProtectedResource   ReasonCode = "protected_resource"
	RadiusOverlap       ReasonCode = "radius_overlap"
	ChannelNotAllowed   ReasonCode = "channel_not_allowed"
	RequesterNotAllowed ReasonCode = "requester_not_allowed"

	BlastRadiusOverThreshold ReasonCode = "blast_radius_over_threshold"
	TierRequiresApproval     ReasonCode = "tier_requires_approval"
	LowConfidence            ReasonCode = "low_confidence"
	GraphIncomplete          ReasonCode = "graph_incomplete"
	GraphStale               ReasonCode = "graph_stale"

	WithinPolicy ReasonCode = "within_policy"
)

// ReasonCodes lists the whole closed set, in the order of evaluation.
func ReasonCodes() []ReasonCode {
	return []ReasonCode{UnknownAction, ParamsInvalid, DryRunFailed, ActionNotOnMenu, ActionForbidden,
		ChannelNotAllowed, RequesterNotAllowed, ChangeFreeze, BreakGlass, MaxWritesExceeded,
		BlastRadiusExceeded, BlastRadiusOverThreshold, DownstreamExceeded, ProtectedResource, ScaleToZero,
		RadiusOverlap, TierRequiresApproval, LowConfidence, GraphIncomplete, GraphStale, WithinPolicy}
}

// Reason is one reason of a verdict: a code for machines and a sentence for people.
type Reason struct {
	Code ReasonCode `json:"code"`
	// Effect is what this reason alone would decide.
	Effect Decision `json:"effect"`
	Text   string   `json:"text"`
}

// Verdict is the decision with every reason that applied. Reasons must not be
// modified: an allow shares one static slice.
type Verdict struct {
	Decision Decision `json:"decision"`
	Reasons  []Reason `json:"reasons"`
}

// Has reports whether the verdict carries code.
func (v Verdict) Has(code ReasonCode) bool {
	for _, r := range v.Reasons {
		if r.Code == code {
			return true
		}
	}
	return false
}

// Flight is a write in flight: an intent without an outcome.
type Flight struct {
	RunID    string   `json:"run"`
	StepID   string   `json:"step"`
	Targets  []string `json:"targets"`  // locked names
	Affected []string `json:"affected"` // direct and dependents
}

// Circumstances are everything besides plan and policy that a verdict depends on.
// They are stored with the verdict, so that it can be computed again.
type Circumstances struct {
	Now             time.Time `json:"now"`
	WritesSoFar     int       `json:"writes_so_far"`
	InFlight        []Flight  `json:"in_flight,omitempty"` // of other runs
	Requester       Principal `json:"requester"`
	RequesterGroups []string  `json:"requester_groups,omitempty"`
	Channel         string    `json:"channel"`
	Runbook         string    `json:"runbook"`
	Confidence      float64   `json:"confidence"`
	GraphAsOf       time.Time `json:"graph_as_of"`
	// BreakGlass is the requester's reason to act in spite of a freeze; empty: none.
	BreakGlass string `json:"break_glass,omitempty"`
	// Planned: a planner proposed it, not a runbook that people wrote. A planner
	// never breaks glass.
	Planned bool `json:"planned,omitempty"`
}
