package verifier

import (
	"slices"
	"time"

	"blastdoor"
)

// ApproverInput is everything that decides whether a click counts, all of it read
// in the same transaction as the decision.
type ApproverInput struct {
	// Approval is the current one of the step, nil when there is none. Its
	// Approvers are the pinned rule.
	Approval *blastdoor.Approval
	// Current is the rule of the policy of now; the clicker must satisfy both.
	Current       blastdoor.Approvers
	Requester     blastdoor.Principal
	Clicker       blastdoor.Principal
	ClickerGroups []string // looked up fresh
	// Stored is where the approval's own message was posted, Clicked where the click came from.
	Stored  blastdoor.MessageRef
	Clicked blastdoor.MessageRef
	// ApprovalID and PlanHash are what the clicked button carries.
	ApprovalID string
	PlanHash   string
	Now        time.Time
}

// Refusal is why a click did not count. Its text is for the clicker alone.
type Refusal struct {
	Code blastdoor.RefusalCode
	Text string
}

func (r *Refusal) Error() string { return string(r.Code) + ": " + r.Text }

// approverCheck returns a text when it refuses.
type approverCheck struct {
	code  blastdoor.RefusalCode
	check func(in *ApproverInput) string
}

// approverChecks are in the order in which a click is refused. Who the clicker is
// comes first, then what they may do, and only then the state of the approval: a
// stranger learns nothing about a run, and a colleague learns the first thing
// that they would have to change.
var approverChecks = [...]approverCheck{
	{blastdoor.RefusedUnverifiedIdentity, unverified},
	{blastdoor.RefusedBotUser, when(func(p *blastdoor.Principal) bool { return p.Bot }, "a bot cannot approve")},
	{blastdoor.RefusedExternalUser, when(func(p *blastdoor.Principal) bool { return p.External },
		"people from another workspace cannot approve")},
	{blastdoor.RefusedInactiveUser, when(func(p *blastdoor.Principal) bool { return p.Inactive },
		"an account that is not active cannot approve")},
	{blastdoor.RefusedGuest, when(func(p *blastdoor.Principal) bool { return p.Guest }, "guests cannot approve")},
	{blastdoor.RefusedSelfApproval, selfApproval},
	{blastdoor.RefusedNotAnApprover, notAnApprover},
	{blastdoor.RefusedStaleCard, staleCard},
	{blastdoor.RefusedPlanMismatch, planMismatch},
	{blastdoor.RefusedNotPending, notPending},
	{blastdoor.RefusedExpired, expired},
	{blastdoor.RefusedAlreadyCounted, alreadyCounted},
}

// CheckApprover returns nil when the click counts, else a *Refusal with the first
// code that applies, in this order: unverified_identity, bot_user, external_user,
// inactive_user, guest, self_approval, not_an_approver, stale_card, plan_mismatch,
// not_pending, expired, already_counted.
func CheckApprover(in ApproverInput) error { return refuse(&in, approverChecks[:]) }

func refuse(in *ApproverInput, checks []approverCheck) error {
	for i := range checks {
		if text := checks[i].check(in); text != "" {
			return &Refusal{Code: checks[i].code, Text: text}
		}
	}
	return nil
}

func when(refused func(*blastdoor.Principal) bool, text string) func(*ApproverInput) string {
	return func(in *ApproverInput) string {
		if refused(&in.Clicker) {
			return text
		}
		return ""
	}
}

func unverified(in *ApproverInput) string {
	if c := &in.Clicker; !c.Verified || c.UserID == "" || c.TeamID == "" {
		return "Slack did not confirm who you are"
	}
	return ""
}

func selfApproval(in *ApproverInput) string {
	if in.Requester.UserID == "" {
		return "it is not known who asked for this, so it could be you"
	}
	if in.Clicker.Same(in.Requester) {
		return "you asked for this yourself; a second person must decide"
	}
	return ""
}

func notAnApprover(in *ApproverInput) string {
	if in.Approval != nil && !mayApprove(in.Approval.Approvers, in) {
		return "you are not among the approvers of this action"
	}
	if !mayApprove(in.Current, in) {
		return "you are not among the approvers of this action under the policy of now"
	}
	return ""
}

// mayApprove: an empty list is nobody.
func mayApprove(who blastdoor.Approvers, in *ApproverInput) bool {
	return slices.Contains(who.Users, in.Clicker.UserID) || shareName(who.Groups, in.ClickerGroups)
}

func staleCard(in *ApproverInput) string {
	switch a := in.Approval; {
	case a == nil || a.ID == "" || a.ID != in.ApprovalID:
		return "this button belongs to a question that is not open"
	case in.Stored.Channel == "" || in.Stored.TS == "" || in.Stored != in.Clicked:
		return "this is not the message that asks; use the newest card of the run"
	default:
		return ""
	}
}

func planMismatch(in *ApproverInput) string {
	// staleCard alone makes sure that there is an approval; each check stands by itself.
	if in.Approval == nil || in.PlanHash == "" || in.PlanHash != in.Approval.PlanHash {
		return "this button belongs to another plan"
	}
	return ""
}

func notPending(in *ApproverInput) string {
	switch {
	case in.Approval == nil:
		return "nothing is being asked"
	case in.Approval.Status == blastdoor.PendingApproval || in.Approval.Status == blastdoor.ExpiredApproval:
		return "" // the next check says it better: expired
	default:
		return "this has been decided already"
	}
}

func expired(in *ApproverInput) string {
	a := in.Approval
	if a == nil || a.Status == blastdoor.ExpiredApproval || in.Now.IsZero() || !in.Now.Before(a.ExpiresAt) {
		return "the time to approve is over; ask for the runbook again"
	}
	return ""
}

func alreadyCounted(in *ApproverInput) string {
	if in.Approval != nil && slices.ContainsFunc(in.Approval.Votes, func(v blastdoor.Vote) bool { return v.By.Same(in.Clicker) }) {
		return "your approval has been counted already; another person must approve too"
	}
	return ""
}
