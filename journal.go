package blastdoor

import (
	"encoding/json"
	"time"
)

// Statuses of a run as lists show them; an ended run shows its outcome.
const (
	RunActive  = "running"
	RunWaiting = "waiting" // for a second person
)

// ApprovalRow is the projection of one approval.
type ApprovalRow struct {
	ID         string
	RunID      string
	StepID     string
	PlanHash   string
	Status     ApprovalStatus
	ExpiresAt  time.Time
	ConsumedAt time.Time // zero: not consumed. Consumed at most once, ever.
}

// Projection is what lists and locks are read from. It is a pure function of the
// run, so that it can be rebuilt from the events and compared.
type Projection struct {
	Run       RunSummary
	Ended     bool
	WakeAt    time.Time // when the run has something to do next without a click; zero: at once or never
	Approvals []ApprovalRow
	// Flight is the live intent, if any: its targets are locked.
	Flight *Flight
}

// Document is a body stored once by its digest: a policy, a runbook.
type Document struct {
	Digest string
	Body   []byte // canonical JSON
}

// Commit is one transition: everything in it becomes durable at once, or nothing.
type Commit struct {
	RunID string
	// At is the length of history that the events were decided on.
	At         int
	Events     []Event
	Projection Projection
	Documents  []Document
	Deliveries []Delivery
	// Settles is the inbox row that this commit answers; empty: none. A row that
	// is settled already makes the whole commit a conflict.
	Settles string
}

// DeliveryKind says what kind of message is to be delivered.
type DeliveryKind string

const (
	RunCard    DeliveryKind = "run_card"     // one per run, updated in place
	DryRunCard DeliveryKind = "dry_run_card" // one per plan; with buttons while an approval is pending
	RadiusList DeliveryKind = "radius_list"  // the full list, in the thread of the run card
	NoticeMsg  DeliveryKind = "notice"       // to one person, rendered from Notice
	ReplyMsg   DeliveryKind = "reply"        // to one person, rendered already (Body)
	// OutcomeNote, in the thread of the run card, mentions the requester once the
	// run has ended in any other way than completed: an edited card notifies nobody.
	OutcomeNote DeliveryKind = "outcome_note"
)

// DeliveryKinds lists the whole closed set.
func DeliveryKinds() []DeliveryKind {
	return []DeliveryKind{RunCard, DryRunCard, RadiusList, NoticeMsg, ReplyMsg, OutcomeNote}
}

// Delivery is one message that must reach Slack. A row per logical message: a
// later commit that names the same ID asks for a refresh, and the newest wins.
type Delivery struct {
	ID      string // unique and derived, so that a repeated commit names the same message
	RunID   string
	Kind    DeliveryKind
	StepID  string // dry run card, radius list
	PlanNo  int    // which plan of the step, from 1
	Channel string
	User    string // set: only this person sees it
	Thread  string // delivery id of the message it hangs under; empty: top level
	// Want is the length of history that the message must show at least.
	Want        int
	Urgent      bool // approvals and final states go first
	Notice      *Notice
	Body        json.RawMessage // {"text": …, "blocks": […]}
	ResponseURL string          // where a private answer may go; secret-like, never logged
	CreatedAt   time.Time
}

// Notice is a private message whose words are chosen when it is delivered.
type Notice struct {
	Code   string `json:"code"` // a RefusalCode, or a Code
	RunID  string `json:"run,omitempty"`
	Detail string `json:"detail,omitempty"` // untrusted text
}

// OutboxRow is a delivery with what is known of its posting.
type OutboxRow struct {
	Delivery
	TS        string    // the message's address once known; empty: not posted as far as we know
	Sent      int       // the length of history that the posted message shows
	AttemptAt time.Time // when a post was begun whose outcome is not recorded; zero: none
	Attempts  int
	NotBefore time.Time // do not try before this instant
}

// InboxItem is one authenticated envelope, stored before it is acknowledged.
type InboxItem struct {
	ID         string // derived from Slack's own ids: the same request has the same ID
	Kind       string // slash_commands, interactive, events_api
	Payload    json.RawMessage
	ReceivedAt time.Time
}

// StartRequest asks for a run (or a preview) of a runbook.
type StartRequest struct {
	SourceID    string // Slack's own id: the same request gives the same run
	Runbook     string
	Inputs      map[string]string // as typed; converted by the runbook's input types
	BreakGlass  string            // the reason to act in spite of a freeze; empty: no such wish
	UserID      string
	TeamID      string
	Channel     string
	InboxID     string
	ResponseURL string
}

// CancelRequest asks to end a run that has no write in flight.
type CancelRequest struct {
	Channel     string // where the request was typed
	RunID       string
	UserID      string
	TeamID      string
	InboxID     string
	ResponseURL string
}

// StepPreview is one step of a preview: rehearsed and judged, nothing written.
type StepPreview struct {
	Step    Step    `json:"step"`
	Plan    Plan    `json:"plan"`
	Hash    string  `json:"hash"`
	Verdict Verdict `json:"verdict"`
}

// Preview is the answer of a plan: every step against the world of now. A later
// step's world may differ once an earlier one has run.
type Preview struct {
	Runbook string        `json:"runbook"`
	Policy  string        `json:"policy"`
	Steps   []StepPreview `json:"steps"`
}
