package blastdoor

import "time"

// RefusalCode says why a click did not count; a closed set (DESIGN section 5).
type RefusalCode string

const (
	RefusedSelfApproval       RefusalCode = "self_approval"
	RefusedNotAnApprover      RefusalCode = "not_an_approver"
	RefusedGuest              RefusalCode = "guest"
	RefusedExternalUser       RefusalCode = "external_user"
	RefusedInactiveUser       RefusalCode = "inactive_user"
	RefusedBotUser            RefusalCode = "bot_user"
	RefusedUnverifiedIdentity RefusalCode = "unverified_identity"
	RefusedExpired            RefusalCode = "expired"
	RefusedNotPending         RefusalCode = "not_pending"
	RefusedAlreadyCounted     RefusalCode = "already_counted"
	RefusedPlanMismatch       RefusalCode = "plan_mismatch"
	RefusedStaleCard          RefusalCode = "stale_card"
)

// RefusalCodes lists the whole closed set.
func RefusalCodes() []RefusalCode {
	return []RefusalCode{RefusedSelfApproval, RefusedNotAnApprover, RefusedGuest, RefusedExternalUser,
		RefusedInactiveUser, RefusedBotUser, RefusedUnverifiedIdentity, RefusedExpired,
		RefusedNotPending, RefusedAlreadyCounted, RefusedPlanMismatch, RefusedStaleCard}
}

// ApprovalStatus is the life of one question to a second person.
type ApprovalStatus string

const (
	PendingApproval  ApprovalStatus = "pending"
	GrantedApproval  ApprovalStatus = "granted"  // the quorum is reached, not used yet
	ConsumedApproval ApprovalStatus = "consumed" // used by exactly one intent
	DeclinedApproval ApprovalStatus = "declined"
	ExpiredApproval  ApprovalStatus = "expired"
	VoidApproval     ApprovalStatus = "void" // the plan drifted, or the run ended otherwise
)

// ApprovalStatuses lists the whole closed set.
func ApprovalStatuses() []ApprovalStatus {
	return []ApprovalStatus{PendingApproval, GrantedApproval, ConsumedApproval, DeclinedApproval, ExpiredApproval, VoidApproval}
}

// Vote is one person's counted click.
type Vote struct {
	By Principal `json:"by"`
	At time.Time `json:"at"`
}

// Approval is one question to a second person about one plan hash.
type Approval struct {
	ID          string         `json:"id"`
	StepID      string         `json:"step"`
	PlanHash    string         `json:"plan_hash"`
	DeliveryID  string         `json:"delivery"` // the message whose buttons count
	RequestedAt time.Time      `json:"requested_at"`
	ExpiresAt   time.Time      `json:"expires_at"` // from this instant on it is expired
	Quorum      int            `json:"quorum"`
	Approvers   Approvers      `json:"approvers"` // as pinned; the stricter of pinned and current counts
	Status      ApprovalStatus `json:"status"`
	Votes       []Vote         `json:"votes,omitempty"`
	DeclinedBy  *Vote          `json:"declined_by,omitempty"`
	ConsumedAt  time.Time      `json:"consumed_at,omitzero"`
}

// MessageRef is the address of a message in Slack.
type MessageRef struct {
	Channel string `json:"channel"`
	TS      string `json:"ts"`
}

// Click is a press of Approve or Decline, with identity from the authenticated payload.
type Click struct {
	RunID      string
	ApprovalID string
	PlanHash   string
	Approve    bool // false: decline
	UserID     string
	TeamID     string
	Message    MessageRef // the message that was clicked
	// InboxID is the stored envelope that this click came in; it is settled in
	// the same transaction as the decision.
	InboxID     string
	ResponseURL string
}
