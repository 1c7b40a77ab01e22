package chat

import (
	"slices"
	"strings"

	"blastdoor"
)

// look is how a status appears: a symbol and words, never the symbol alone.
type look struct {
	sign  string
	words markup
}

// lookOf returns the look of a step's status; a status without one is a gap that a
// test finds.
func lookOf(s blastdoor.StepStatus) look {
	switch s {
	case blastdoor.StatusPending:
		return look{"▫️", "waiting for its turn"}
	case blastdoor.StatusProposed:
		return look{"🔎", "being rehearsed"}
	case blastdoor.StatusPlanned:
		return look{"🔎", "being judged"}
	case blastdoor.StatusAllowed:
		return look{"▶️", "allowed, about to be carried out"}
	case blastdoor.StatusAsking:
		return look{"🔒", "a second person is being asked"}
	case blastdoor.StatusWaiting:
		return look{"🔒", "waiting for a second person"}
	case blastdoor.StatusApproved:
		return look{"▶️", "approved, about to be checked again and carried out"}
	case blastdoor.StatusIntended:
		return look{"▶️", "being carried out"}
	case blastdoor.StatusDoubtful:
		return look{"❓", "outcome unknown so far, being looked up"}
	case blastdoor.StatusChecking:
		return look{"🔎", "written, the check is running"}
	case blastdoor.StatusUndoing:
		return look{"↩️", "the check failed, to be rolled back"}
	case blastdoor.StatusReverting:
		return look{"↩️", "being rolled back"}
	case blastdoor.StatusEscalating:
		return look{"🚨", "a person is being called"}
	default:
		return finalLook(s)
	}
}

func finalLook(s blastdoor.StepStatus) look {
	switch s {
	case blastdoor.StatusDone:
		return look{"✅", "done"}
	case blastdoor.StatusDenied:
		return look{"⛔", "denied, nothing written"}
	case blastdoor.StatusFailed:
		return look{"❌", "failed, nothing written"}
	case blastdoor.StatusDeclined:
		return look{"🚫", "declined"}
	case blastdoor.StatusExpired:
		return look{"⌛", "expired unanswered"}
	case blastdoor.StatusCancelled:
		return look{"🚫", "cancelled"}
	case blastdoor.StatusRolledBack:
		return look{"↩️", "rolled back"}
	case blastdoor.StatusInDoubt:
		return look{"🚨", "in doubt, a person must look"}
	case blastdoor.StatusSkipped:
		return look{"⏭️", "skipped"}
	}
	return look{}
}

// outcomeLook returns the look of a run's end.
func outcomeLook(o blastdoor.RunOutcome) look {
	switch o {
	case blastdoor.RunCompleted:
		return look{"✅", "Completed"}
	case blastdoor.RunDenied:
		return look{"⛔", "Denied"}
	case blastdoor.RunFailed:
		return look{"❌", "Failed"}
	case blastdoor.RunDeclined:
		return look{"🚫", "Declined"}
	case blastdoor.RunExpired:
		return look{"⌛", "Expired"}
	case blastdoor.RunCancelled:
		return look{"🚫", "Cancelled"}
	case blastdoor.RunRolledBack:
		return look{"↩️", "Rolled back"}
	case blastdoor.RunInDoubt:
		return look{"🚨", "In doubt"}
	}
	return look{}
}

// decisionLook returns the look of a verdict.
func decisionLook(d blastdoor.Decision) look {
	switch d {
	case blastdoor.Allow:
		return look{"✅", "Allowed"}
	case blastdoor.NeedsApproval:
		return look{"🔒", "Needs approval by a second person"}
	default:
		return look{"⛔", "Denied"}
	}
}

// headline is one sentence about where the run stands.
func headline(run *blastdoor.Run) markup {
	if run.Ended() {
		l := outcomeLook(run.Outcome)
		out := markup(l.sign) + " *" + l.words + "*"
		if by := run.EndedBy; by != nil {
			out += " by " + mention(by.UserID)
		}
		out += ", " + moment(run.UpdatedAt) + ". " + writes(run)
		if run.Detail != "" {
			out += say("\n%s", cut(run.Detail, 400))
		}
		return out
	}
	step := run.Current()
	if step == nil {
		return "⏳ *Finishing.*"
	}
	l := lookOf(step.Status)
	return say("%s Step *%s*: %s.", markup(l.sign), cut(step.Step.ID, 64), l.words+until(step))
}

// until says how long a step waits for a second person.
func until(step *blastdoor.StepState) markup {
	a := step.Approval
	if step.Status != blastdoor.StatusWaiting || a == nil {
		return ""
	}
	out := " until " + moment(a.ExpiresAt)
	if a.Quorum > 1 {
		out += say(" (%d of %d so far)", len(a.Votes), a.Quorum)
	}
	return out
}

// writes says what the run has written, by the environment's receipts.
func writes(run *blastdoor.Run) markup {
	n := 0
	for _, s := range run.Steps {
		if s.Receipt != nil {
			n++
		}
	}
	switch {
	case n > 0:
		return count(n, "write was made.", "writes were made.")
	case run.Outcome == blastdoor.RunInDoubt:
		return "It is not known whether the write happened."
	default:
		return "Nothing was written."
	}
}

// doing is what a step does, in words: "Draining host-a".
func doing(step *blastdoor.StepState) markup {
	target := subject(step)
	verb, rest, _ := strings.Cut(step.Step.Action, "_")
	if gerund := gerundOf(verb); gerund != "" && len(target) > 0 && !strings.Contains(rest, "_") {
		return markup(gerund) + " *" + names(target, 3, 300) + "*"
	}
	action := say("*%s*", strings.ReplaceAll(cut(step.Step.Action, 64), "_", " "))
	if len(target) == 0 {
		return action
	}
	return action + " of *" + names(target, 3, 300) + "*"
}

// subject is what a step is aimed at: the hosts among its targets, or else all.
func subject(step *blastdoor.StepState) []string {
	if step.Plan == nil {
		return nil
	}
	var hosts []string
	for _, t := range step.Plan.Targets {
		if slices.Contains(step.Plan.Radius.Hosts, t) {
			hosts = append(hosts, t)
		}
	}
	if len(hosts) > 0 {
		return hosts
	}
	return step.Plan.Targets
}

// gerundOf knows a few verbs of the trade; an action of any other name is shown by
// its name.
func gerundOf(verb string) string {
	switch verb {
	case "drain", "restart", "start", "reboot", "cordon", "uncordon", "deploy":
		return strings.ToUpper(verb[:1]) + verb[1:] + "ing"
	case "scale", "delete":
		return strings.ToUpper(verb[:1]) + verb[1:len(verb)-1] + "ing"
	case "stop":
		return "Stopping"
	}
	return ""
}

// reach says in one sentence who would feel the step.
func reach(step *blastdoor.StepState) markup {
	plan := step.Plan
	if plan == nil {
		return doing(step) + " is being rehearsed."
	}
	if plan.Fault != nil {
		return doing(step) + " could not be rehearsed."
	}
	if plan.Kind == blastdoor.Read {
		return doing(step) + " only reads; it changes nothing."
	}
	r := &plan.Radius
	out := doing(step) + " affects *" + count(r.Affected(), "service", "services") + "*" +
		say(" (%s directly)", markup(thousands(len(r.Direct))))
	switch n := len(r.Protected); {
	case n == 1:
		out += ", one of them protected"
	case n == 2:
		out += ", two of them protected"
	case n > 2:
		out += ", " + markup(thousands(n)) + " of them protected"
	}
	out += "."
	if !r.Complete {
		out += " ⚠️ *The graph is incomplete: it may affect more.*"
	}
	return out
}

// reasons lists every reason of a verdict, the strongest first as the verifier
// ordered them.
func reasons(v blastdoor.Verdict) []markup {
	lines := make([]markup, 0, len(v.Reasons))
	for _, r := range v.Reasons {
		lines = append(lines, say("• %s  %s", cut(r.Text, 400), code(string(r.Code))))
	}
	return lines
}

// approvalLine says how a question to a second person was answered.
func approvalLine(a *blastdoor.Approval) markup {
	var by []markup
	for i, v := range a.Votes {
		if i == 10 {
			by = append(by, markup(thousands(len(a.Votes)-i))+" more")
			break
		}
		by = append(by, mention(v.By.UserID)+", "+moment(v.At))
	}
	voters := together(by, ", ")
	switch a.Status {
	case blastdoor.GrantedApproval, blastdoor.ConsumedApproval:
		return "✅ Approved by " + voters
	case blastdoor.DeclinedApproval:
		if a.DeclinedBy != nil {
			return "🚫 Declined by " + mention(a.DeclinedBy.By.UserID) + ", " + moment(a.DeclinedBy.At)
		}
		return "🚫 Declined"
	case blastdoor.ExpiredApproval:
		return "⌛ Nobody answered in time; it expired " + moment(a.ExpiresAt)
	case blastdoor.VoidApproval:
		if len(by) > 0 {
			return "The approval is void. It had been given by " + voters
		}
		return "The question is void: it was withdrawn before anyone answered"
	}
	if len(by) > 0 {
		return say("🔒 %d of %d approvals, so far by %s. Open until %s", len(by), a.Quorum, voters, moment(a.ExpiresAt))
	}
	return "🔒 Waiting for a second person until " + moment(a.ExpiresAt)
}
