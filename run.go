package blastdoor

import "time"

// RunOutcome is how a run ended (DESIGN section 3, row 12).
type RunOutcome string

const (
	RunCompleted  RunOutcome = "completed"
	RunDenied     RunOutcome = "denied"
	RunFailed     RunOutcome = "failed"
	RunDeclined   RunOutcome = "declined"
	RunExpired    RunOutcome = "expired"
	RunCancelled  RunOutcome = "cancelled"
	RunRolledBack RunOutcome = "rolled_back"
	RunInDoubt    RunOutcome = "in_doubt"
)

// RunOutcomes lists the whole closed set.
func RunOutcomes() []RunOutcome {
	return []RunOutcome{RunCompleted, RunDenied, RunFailed, RunDeclined, RunExpired, RunCancelled, RunRolledBack, RunInDoubt}
}

// StepStatus is where a step stands; a closed set. A new status forces a decision
// in the engine's golden matrix.
type StepStatus string

const (
	StatusPending    StepStatus = "pending"    // nothing has happened
	StatusProposed   StepStatus = "proposed"   // a proposal is stored, to be rehearsed
	StatusPlanned    StepStatus = "planned"    // a sealed plan is stored, to be judged
	StatusAllowed    StepStatus = "allowed"    // may go on without a second person
	StatusAsking     StepStatus = "asking"     // a second person must be asked
	StatusWaiting    StepStatus = "waiting"    // a second person has been asked
	StatusApproved   StepStatus = "approved"   // the quorum is reached
	StatusIntended   StepStatus = "intended"   // the write may be happening
	StatusDoubtful   StepStatus = "doubtful"   // the write's outcome is unknown so far
	StatusChecking   StepStatus = "checking"   // written; the metric is being watched
	StatusUndoing    StepStatus = "undoing"    // the check failed; a rollback is due
	StatusReverting  StepStatus = "reverting"  // the rollback may be happening
	StatusEscalating StepStatus = "escalating" // a human must be paged
	StatusDone       StepStatus = "done"
	StatusDenied     StepStatus = "denied"
	StatusFailed     StepStatus = "failed"
	StatusDeclined   StepStatus = "declined"
	StatusExpired    StepStatus = "expired"
	StatusCancelled  StepStatus = "cancelled"
	StatusRolledBack StepStatus = "rolled_back"
	StatusInDoubt    StepStatus = "in_doubt"
	StatusSkipped    StepStatus = "skipped" // the run ended before it
)

// StepStatuses lists the whole closed set.
func StepStatuses() []StepStatus {
	return []StepStatus{StatusPending, StatusProposed, StatusPlanned, StatusAllowed, StatusAsking, StatusWaiting,
		StatusApproved, StatusIntended, StatusDoubtful, StatusChecking, StatusUndoing, StatusReverting, StatusEscalating,
		StatusDone, StatusDenied, StatusFailed, StatusDeclined, StatusExpired, StatusCancelled, StatusRolledBack,
		StatusInDoubt, StatusSkipped}
}

// Intent is a journalled promise to write, and what is known of its outcome.
type Intent struct {
	Key        string    `json:"key"`
	PlanHash   string    `json:"plan_hash"`
	At         time.Time `json:"at"`
	FreshUntil time.Time `json:"fresh_until"`
	Locks      []string  `json:"locks"`
	Doubts     int       `json:"doubts"` // how often the outcome was unknown
	RetryAt    time.Time `json:"retry_at,omitzero"`
}

// StepState is one step of a run, folded from its events.
type StepState struct {
	Step      Step       `json:"step"`
	Status    StepStatus `json:"status"`
	Proposal  *Proposal  `json:"proposal,omitempty"`
	Plan      *Plan      `json:"plan,omitempty"`
	PlanHash  string     `json:"plan_hash,omitempty"`
	GraphAsOf time.Time  `json:"graph_as_of,omitzero"`
	Plans     int        `json:"plans"` // how many plans were made; the newest counts
	Verdict   *Verdict   `json:"verdict,omitempty"`
	Approval  *Approval  `json:"approval,omitempty"`
	Intent    *Intent    `json:"intent,omitempty"`
	Receipt   *Receipt   `json:"receipt,omitempty"`
	Undone    bool       `json:"undone,omitempty"` // the declared rollback happened
	Output    string     `json:"output,omitempty"` // of a read; untrusted text
	Detail    string     `json:"detail,omitempty"` // why it ended as it did, or drifted
	Since     time.Time  `json:"since,omitzero"`   // of Status
}

// Run is one execution of one runbook: a fold over its events.
type Run struct {
	ID            string      `json:"id"`
	Runbook       string      `json:"runbook"`
	RunbookDigest string      `json:"runbook_digest"`
	PolicyDigest  string      `json:"policy_digest"`
	Inputs        Params      `json:"inputs,omitempty"`
	Requester     Principal   `json:"requester"`
	Channel       string      `json:"channel"`
	BreakGlass    string      `json:"break_glass,omitempty"` // the reason to act in spite of a freeze
	RequestedAt   time.Time   `json:"requested_at"`
	UpdatedAt     time.Time   `json:"updated_at"`
	Steps         []StepState `json:"steps"`
	Outcome       RunOutcome  `json:"outcome,omitempty"` // empty while it is alive
	Detail        string      `json:"detail,omitempty"`
	EndedBy       *Principal  `json:"ended_by,omitempty"`
	// Refusals counts clicks that did not count.
	Refusals int `json:"refusals,omitempty"`
	// Writes counts intents: what the write limit of the policy counts.
	Writes int `json:"writes"`
	// Len is the number of events folded in: the sequence number of the last one.
	Len int `json:"len"`
}

// Ended reports whether the run has ended.
func (r *Run) Ended() bool { return r.Outcome != "" }

// StepByID returns the step, or nil.
func (r *Run) StepByID(id string) *StepState {
	for i := range r.Steps {
		if r.Steps[i].Step.ID == id {
			return &r.Steps[i]
		}
	}
	return nil
}

// StepByApproval returns the step whose newest question has this id, or nil.
func (r *Run) StepByApproval(id string) *StepState {
	for i := range r.Steps {
		if a := r.Steps[i].Approval; a != nil && a.ID == id {
			return &r.Steps[i]
		}
	}
	return nil
}

// Current returns the first step that is not done, or nil. Steps are in
// execution order, so everything it depends on is done.
func (r *Run) Current() *StepState {
	for i := range r.Steps {
		if r.Steps[i].Status != StatusDone {
			return &r.Steps[i]
		}
	}
	return nil
}

// RunSummary is one row of a list of runs.
type RunSummary struct {
	ID        string    `json:"id"`
	Runbook   string    `json:"runbook"`
	Requester string    `json:"requester"` // user id
	Channel   string    `json:"channel"`
	Status    string    `json:"status"` // Projection.Status
	UpdatedAt time.Time `json:"updated_at"`
	Len       int       `json:"len"`
}
