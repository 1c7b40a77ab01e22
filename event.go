package blastdoor

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"
)

// EventKind names a transition; a closed set (DESIGN section 3).
type EventKind string

const (
	RunRequestedKind      EventKind = "run_requested"
	StepProposedKind      EventKind = "step_proposed"
	PlanMadeKind          EventKind = "plan_made"
	VerdictGivenKind      EventKind = "verdict_given"
	ApprovalRequestedKind EventKind = "approval_requested"
	ApprovalGrantedKind   EventKind = "approval_granted"
	ApprovalDeclinedKind  EventKind = "approval_declined"
	ApprovalRefusedKind   EventKind = "approval_refused"
	PlanDriftedKind       EventKind = "plan_drifted"
	ReverifyDeniedKind    EventKind = "reverify_denied"
	ApplyIntendedKind     EventKind = "apply_intended"
	AppliedKind           EventKind = "applied"
	ApplyFailedKind       EventKind = "apply_failed"
	ApplyUnknownKind      EventKind = "apply_unknown"
	ApplyAbandonedKind    EventKind = "apply_abandoned"
	ObservedKind          EventKind = "observed"
	ObserveFailedKind     EventKind = "observe_failed"
	CheckPassedKind       EventKind = "check_passed"
	CheckFailedKind       EventKind = "check_failed"
	CheckInconclusiveKind EventKind = "check_inconclusive"
	RollbackIntendedKind  EventKind = "rollback_intended"
	RolledBackKind        EventKind = "rolled_back"
	RollbackFailedKind    EventKind = "rollback_failed"
	EscalatedKind         EventKind = "escalated"
	RunEndedKind          EventKind = "run_ended"
)

// EventKinds lists the whole closed set.
func EventKinds() []EventKind {
	out := make([]EventKind, 0, len(bodies()))
	for _, b := range bodies() {
		out = append(out, b.Kind())
	}
	return out
}

// Body is what an event says beyond its place in the history. The set of bodies
// is closed: one struct per EventKind, in this file.
type Body interface{ Kind() EventKind }

type (
	// RunRequested opens a run. Steps are resolved: no ${{ inputs.x }} is left.
	RunRequested struct {
		SourceID      string    `json:"source"` // Slack's own id of the request
		Runbook       string    `json:"runbook"`
		RunbookDigest string    `json:"runbook_digest"`
		PolicyDigest  string    `json:"policy_digest"` // the document that is pinned
		Inputs        Params    `json:"inputs,omitempty"`
		Steps         []Step    `json:"steps"` // in execution order
		Requester     Principal `json:"requester"`
		Channel       string    `json:"channel"`
		BreakGlass    string    `json:"break_glass,omitempty"` // the reason given, untrusted text
	}
	StepProposed struct {
		Proposal Proposal `json:"proposal"`
	}
	PlanMade struct {
		Plan Plan   `json:"plan"`
		Hash string `json:"hash"`
		// GraphAsOf is outside the plan, whose hash must not move with the clock.
		GraphAsOf time.Time `json:"graph_as_of,omitzero"`
	}
	VerdictGiven struct {
		PlanHash      string        `json:"plan_hash"`
		PolicyDigest  string        `json:"policy_digest"`
		Circumstances Circumstances `json:"circumstances"`
		Verdict       Verdict       `json:"verdict"`
	}
	ApprovalRequested struct {
		Approval Approval `json:"approval"`
	}
	ApprovalGranted struct {
		ApprovalID string    `json:"approval"`
		PlanHash   string    `json:"plan_hash"`
		By         Principal `json:"by"`
	}
	ApprovalDeclined struct {
		ApprovalID string    `json:"approval"`
		By         Principal `json:"by"`
		Comment    string    `json:"comment,omitempty"`
	}
	ApprovalRefused struct {
		ApprovalID string      `json:"approval"` // as the click claimed, cut to 100 bytes
		By         Principal   `json:"by"`
		Code       RefusalCode `json:"code"`
	}
	// PlanDrifted says that the world or the rules changed since the plan was made.
	// The approval is void and the step is planned again.
	PlanDrifted struct {
		OldHash string `json:"old_hash"`
		NewHash string `json:"new_hash,omitempty"`
		Detail  string `json:"detail"`
	}
	ReverifyDenied struct {
		PlanHash      string        `json:"plan_hash"`
		PolicyDigest  string        `json:"policy_digest"` // of now
		Circumstances Circumstances `json:"circumstances"`
		Verdict       Verdict       `json:"verdict"`
	}
	// ApplyIntended is the commit point: from here on the write may happen.
	ApplyIntended struct {
		PlanHash string `json:"plan_hash"`
		Key      string `json:"key"`
		// ApprovalID is consumed by this event; empty where the verdict was allow.
		ApprovalID    string        `json:"approval,omitempty"`
		PolicyDigest  string        `json:"policy_digest"` // of now
		Circumstances Circumstances `json:"circumstances"`
		Verdict       Verdict       `json:"verdict"` // of the re-verification
		// FreshUntil bounds how late the write may still be made after a crash.
		FreshUntil time.Time `json:"fresh_until"`
		Locks      []string  `json:"locks"`
	}
	Applied struct {
		Receipt Receipt `json:"receipt"`
	}
	// ApplyFailed says that for certain nothing was written.
	ApplyFailed struct {
		Code   Code   `json:"code"`
		Detail string `json:"detail"`
	}
	// ApplyUnknown says that the write may or may not have happened; the key is looked up
	// again not before RetryAt.
	ApplyUnknown struct {
		Detail  string    `json:"detail"`
		RetryAt time.Time `json:"retry_at"`
	}
	// ApplyAbandoned says that the intended write has not happened, as the
	// environment knows, and must not happen any more.
	ApplyAbandoned struct {
		Detail  string   `json:"detail"`
		Verdict *Verdict `json:"verdict,omitempty"`
	}
	Observed struct {
		Summary string `json:"summary"`
	}
	ObserveFailed struct {
		Detail string `json:"detail"`
	}
	CheckPassed struct {
		Before float64 `json:"before"`
		After  float64 `json:"after"`
	}
	CheckFailed struct {
		Before float64 `json:"before"`
		After  float64 `json:"after"`
	}
	CheckInconclusive struct {
		Detail string `json:"detail"`
	}
	RollbackIntended struct {
		PlanHash string `json:"plan_hash"`
		Key      string `json:"key"`
	}
	RolledBack struct {
		Receipt Receipt `json:"receipt"`
	}
	RollbackFailed struct {
		Detail string `json:"detail"`
	}
	Escalated struct {
		Detail string `json:"detail"`
	}
	RunEnded struct {
		Outcome RunOutcome `json:"outcome"`
		Detail  string     `json:"detail,omitempty"`
		By      *Principal `json:"by,omitempty"` // cancelled or declined by
	}
)

func (*RunRequested) Kind() EventKind      { return RunRequestedKind }
func (*StepProposed) Kind() EventKind      { return StepProposedKind }
func (*PlanMade) Kind() EventKind          { return PlanMadeKind }
func (*VerdictGiven) Kind() EventKind      { return VerdictGivenKind }
func (*ApprovalRequested) Kind() EventKind { return ApprovalRequestedKind }
func (*ApprovalGranted) Kind() EventKind   { return ApprovalGrantedKind }
func (*ApprovalDeclined) Kind() EventKind  { return ApprovalDeclinedKind }
func (*ApprovalRefused) Kind() EventKind   { return ApprovalRefusedKind }
func (*PlanDrifted) Kind() EventKind       { return PlanDriftedKind }
func (*ReverifyDenied) Kind() EventKind    { return ReverifyDeniedKind }
func (*ApplyIntended) Kind() EventKind     { return ApplyIntendedKind }
func (*Applied) Kind() EventKind           { return AppliedKind }
func (*ApplyFailed) Kind() EventKind       { return ApplyFailedKind }
func (*ApplyUnknown) Kind() EventKind      { return ApplyUnknownKind }
func (*ApplyAbandoned) Kind() EventKind    { return ApplyAbandonedKind }
func (*Observed) Kind() EventKind          { return ObservedKind }
func (*ObserveFailed) Kind() EventKind     { return ObserveFailedKind }
func (*CheckPassed) Kind() EventKind       { return CheckPassedKind }
func (*CheckFailed) Kind() EventKind       { return CheckFailedKind }
func (*CheckInconclusive) Kind() EventKind { return CheckInconclusiveKind }
func (*RollbackIntended) Kind() EventKind  { return RollbackIntendedKind }
func (*RolledBack) Kind() EventKind        { return RolledBackKind }
func (*RollbackFailed) Kind() EventKind    { return RollbackFailedKind }
func (*Escalated) Kind() EventKind         { return EscalatedKind }
func (*RunEnded) Kind() EventKind          { return RunEndedKind }

// bodies is one fresh value of every body, in the order of the closed set.
func bodies() []Body {
	return []Body{&RunRequested{}, &StepProposed{}, &PlanMade{}, &VerdictGiven{}, &ApprovalRequested{},
		&ApprovalGranted{}, &ApprovalDeclined{}, &ApprovalRefused{}, &PlanDrifted{}, &ReverifyDenied{},
		&ApplyIntended{}, &Applied{}, &ApplyFailed{}, &ApplyUnknown{}, &ApplyAbandoned{}, &Observed{},
		&ObserveFailed{}, &CheckPassed{}, &CheckFailed{}, &CheckInconclusive{}, &RollbackIntended{},
		&RolledBack{}, &RollbackFailed{}, &Escalated{}, &RunEnded{}}
}

// NewBody returns a zero body of the kind, to decode into; false for a kind
// outside the closed set.
func NewBody(kind EventKind) (Body, bool) {
	for _, b := range bodies() {
		if b.Kind() == kind {
			return b, true
		}
	}
	return nil, false
}

// Event is one transition of one run. Seq counts from 1 without gaps. Step is the
// step it is about; empty for what concerns the whole run.
type Event struct {
	RunID string
	Seq   int
	At    time.Time
	Step  string
	Body  Body
}

// eventWire is the canonical form of an event; V is the version of the form.
type eventWire struct {
	V    int             `json:"v"`
	Run  string          `json:"run"`
	Seq  int             `json:"seq"`
	At   time.Time       `json:"at"`
	Step string          `json:"step,omitempty"`
	Kind EventKind       `json:"kind"`
	Body json.RawMessage `json:"body"`
}

// Canonical returns the bytes that are stored and hashed.
func (e Event) Canonical() ([]byte, error) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e.Body); err != nil {
		return nil, fmt.Errorf("encoding event %s/%d: %w", e.RunID, e.Seq, err)
	}
	return CanonicalJSON(eventWire{V: 1, Run: e.RunID, Seq: e.Seq, At: e.At.UTC().Round(0),
		Step: e.Step, Kind: e.Body.Kind(), Body: body.Bytes()})
}

// ParseEvent decodes canonical bytes. An unknown kind, version or field is an
// error: a history that is not understood whole must not be acted on.
func ParseEvent(data []byte) (Event, error) {
	var w eventWire
	if err := strictJSON(data, &w); err != nil {
		return Event{}, fmt.Errorf("parsing event: %w", err)
	}
	if w.V != 1 {
		return Event{}, Errorf(ErrIntegrity, "event %s/%d has format version %d, this program knows 1", w.Run, w.Seq, w.V)
	}
	body, ok := NewBody(w.Kind)
	if !ok {
		return Event{}, Errorf(ErrIntegrity, "event %s/%d has unknown kind %q", w.Run, w.Seq, w.Kind)
	}
	if err := strictJSON(w.Body, body); err != nil {
		return Event{}, fmt.Errorf("parsing event %s/%d (%s): %w", w.Run, w.Seq, w.Kind, err)
	}
	return Event{RunID: w.Run, Seq: w.Seq, At: w.At, Step: w.Step, Body: body}, nil
}

func strictJSON(data []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	return dec.Decode(into)
}

// Genesis is the chain hash before the first event of a run.
func Genesis() [32]byte { return [32]byte{} }

// ChainHash links an event's canonical bytes to everything before it in its run:
// SHA-256(previous chain hash || canonical bytes).
func ChainHash(prev [32]byte, canonical []byte) [32]byte {
	h := sha256.New()
	h.Write(prev[:])
	h.Write(canonical)
	return [32]byte(h.Sum(nil))
}
