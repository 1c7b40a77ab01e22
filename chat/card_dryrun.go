package chat

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"blastdoor"
)

// Lists on a card are cut to this many; the full list hangs in the thread.
const cardNames = 15

// dryRunCard is what a second person decides on: the verdict first, then who would
// feel it, then the exact changes, then the plan's hash. It has buttons only while
// its own plan's approval is pending.
func dryRunCard(run *blastdoor.Run, stepID string, planNo int) (Message, error) {
	step := run.StepByID(stepID)
	if step == nil {
		return Message{}, fmt.Errorf("rendering step %q of run %s: no such step", stepID, run.ID)
	}
	if planNo < step.Plans {
		return supersededCard(run, step, planNo)
	}
	title := header("Dry run: " + run.Runbook + ", step " + step.Step.ID)
	if step.Plan == nil || step.Verdict == nil {
		state := decisionState(run, step)
		blocks := append([]block{title, section(reach(step))}, sections(state)...)
		return compose(reach(step)+" "+state[0], append(blocks, smallPrint(run, step)))
	}
	blocks := []block{title}
	if step.Verdict.Has(blastdoor.BreakGlass) {
		blocks = append(blocks, section(glassLine(run)))
	}
	blocks = append(blocks, section(reach(step)))
	blocks = append(blocks, sections(append([]markup{verdictLine(step.Verdict)}, reasons(*step.Verdict)...))...)
	blocks = append(blocks, radiusBlocks(step.Plan)...)
	blocks = append(blocks, changeBlocks(step.Plan)...)
	if step.Output != "" {
		blocks = append(blocks, section("*What it found*"), verbatim(fit(strings.Split(step.Output, "\n"), 40, sectionRoom)))
	}
	state := decisionState(run, step)
	decide := canDecide(run, step)
	if decide {
		state = append(state, approversLine(step.Approval))
	}
	blocks = append(append(limit(blocks, 40), sections(state)...), smallPrint(run, step))
	if decide {
		blocks = append(blocks, buttons(run, step))
	}
	return compose(reach(step)+" "+state[0], blocks)
}

// canDecide reports whether a click could still count: the approval of the very
// plan on the card is pending and the run is alive.
func canDecide(run *blastdoor.Run, step *blastdoor.StepState) bool {
	a := step.Approval
	return !run.Ended() && step.Status == blastdoor.StatusWaiting && a != nil &&
		a.Status == blastdoor.PendingApproval && a.PlanHash == step.PlanHash
}

func verdictLine(v *blastdoor.Verdict) markup {
	l := decisionLook(v.Decision)
	return markup(l.sign) + " *" + l.words + "*"
}

// radiusBlocks says who would feel it, each list cut with a count.
func radiusBlocks(plan *blastdoor.Plan) []block {
	if plan.Fault != nil || plan.Kind == blastdoor.Read {
		return nil
	}
	r := &plan.Radius
	lines := []markup{
		nameLine("Direct", r.Direct),
		nameLine("Dependents", r.Dependents),
	}
	if len(r.Protected) > 0 {
		lines = append(lines, nameLine("🛡️ Protected", r.Protected))
	}
	if len(r.Hosts) > 0 {
		lines = append(lines, nameLine("Hosts", r.Hosts))
	}
	if len(r.Unknown) > 0 {
		lines = append(lines, nameLine("⚠️ Unknown to the graph", r.Unknown))
	}
	if len(r.Downstream) > 0 {
		lines = append(lines, nameLine("Downstream (traffic and data starve or surge)", r.Downstream))
	}
	if len(r.Direct) > cardNames || len(r.Dependents) > cardNames || len(r.Downstream) > cardNames {
		lines = append(lines, "_The full list is in the thread of the run card._")
	}
	return sections(lines)
}

func nameLine(title markup, list []string) markup {
	if len(list) == 0 {
		return "*" + title + "*: none"
	}
	return "*" + title + "* (" + markup(thousands(len(list))) + "): " + names(list, cardNames, 1200)
}

// changeBlocks shows the exact changes, before and after, as many as have room.
func changeBlocks(plan *blastdoor.Plan) []block {
	lines := changeLines(plan)
	if len(lines) == 0 {
		return nil
	}
	title := "*Exact changes* (" + markup(thousands(len(lines))) + ")"
	return []block{section(title), verbatim(fit(lines, 30, sectionRoom-100))}
}

func changeLines(plan *blastdoor.Plan) []string {
	width := 0
	for _, c := range plan.Changes {
		width = max(width, min(40, utf8.RuneCountInString(clean(c.Target+" "+c.Field))))
	}
	lines := make([]string, 0, len(plan.Changes))
	for _, c := range plan.Changes {
		what := cut(clean(c.Target+" "+c.Field), 160)
		lines = append(lines, fmt.Sprintf("%-*s  %s → %s", width, what, cut(clean(c.Before), 120), cut(clean(c.After), 120)))
	}
	return lines
}

// decisionState says in one line or more what became of the plan on the card.
func decisionState(run *blastdoor.Run, step *blastdoor.StepState) []markup {
	var lines []markup
	if step.Approval != nil {
		lines = append(lines, approvalLine(step.Approval)+".")
	}
	l := lookOf(step.Status)
	switch step.Status {
	case blastdoor.StatusWaiting, blastdoor.StatusExpired, blastdoor.StatusDeclined:
		// The line about the approval says it all.
	case blastdoor.StatusProposed:
		lines = append(lines, "⏩ *Superseded*: the world or the rules changed since this plan was made. It is planned again; what was clicked here counts no more.")
	case blastdoor.StatusDone:
		lines = append(lines, doneLine(step))
	case blastdoor.StatusCancelled:
		line := markup(l.sign) + " *Cancelled*"
		if run.EndedBy != nil {
			line += " by " + mention(run.EndedBy.UserID)
		}
		lines = append(lines, line+", "+moment(step.Since)+". Nothing was written.")
	default:
		lines = append(lines, markup(l.sign)+" This step is "+l.words+".")
	}
	if step.Detail != "" {
		lines = append(lines, untrusted(cut(step.Detail, 400)))
	}
	if len(lines) == 0 {
		lines = []markup{markup(l.sign) + " This step is " + l.words + "."}
	}
	return lines
}

// doneLine tells what was written, by the environment's own receipt.
func doneLine(step *blastdoor.StepState) markup {
	r := step.Receipt
	if r == nil {
		return "✅ *Done* " + moment(step.Since) + "."
	}
	line := say("✅ *Applied* %s: %s. Effect %s", moment(r.At), strings.TrimSuffix(cut(r.Summary, 300), "."), code(r.Effect))
	if r.Replayed {
		line += " (it had happened before under the same key; it was not done twice)"
	}
	return line + "."
}

// smallPrint names what the decision is bound to.
func smallPrint(run *blastdoor.Run, step *blastdoor.StepState) block {
	lines := []markup{"Plan " + code(short(step.PlanHash)) + say(" (no. %d)", max(step.Plans, 1)) +
		" · policy " + code(short(run.PolicyDigest)) + " · run " + code(run.ID)}
	if step.PlanHash != "" {
		lines = append(lines, "Full hash "+code(step.PlanHash))
	}
	return small(lines...)
}

// approversLine calls those who may approve, as pinned in the question.
func approversLine(a *blastdoor.Approval) markup {
	var who []markup
	for _, id := range a.Approvers.Groups {
		who = append(who, groupRef(id))
	}
	for _, id := range a.Approvers.Users {
		who = append(who, mention(id))
	}
	if len(who) == 0 {
		return "⚠️ Nobody may approve this: the policy names no approvers."
	}
	if len(who) > 20 {
		who = append(who[:20:20], markup(thousands(len(who)-20))+" more")
	}
	return "Who may approve: " + together(who, ", ")
}

// buttons are the two answers. The block's id changes with every refresh, so that
// a client never mixes two states of one card.
func buttons(run *blastdoor.Run, step *blastdoor.StepState) block {
	value := buttonValue{RunID: run.ID, ApprovalID: step.Approval.ID, PlanHash: step.PlanHash}.String()
	affected := step.Plan.Radius.Affected()
	what := fmt.Sprintf("%s on %s: %d services affected, %d protected. It is checked once more and then carried out at once.",
		clip(clean(step.Step.Action), 64), clip(clean(strings.Join(subject(step), ", ")), 80), affected, len(step.Plan.Radius.Protected))
	return block{"type": "actions", "block_id": "decide-" + strconv.Itoa(run.Len) + "-" + strconv.Itoa(step.Plans), "elements": []block{
		{"type": "button", "action_id": approveAction, "style": "primary", "text": plain("Approve"), "value": value,
			"confirm": confirm("Approve this write?", what, "Approve", "primary")},
		{"type": "button", "action_id": declineAction, "style": "danger", "text": plain("Decline"), "value": value,
			"confirm": confirm("Decline this write?", "The run ends and nothing is written.", "Decline", "danger")},
	}}
}

func confirm(title, text, yes, style string) block {
	return block{"title": plain(title), "text": plain(text), "confirm": plain(yes), "deny": plain("Go back"), "style": style}
}

// supersededCard replaces the card of an older plan. Nothing on it can be clicked.
func supersededCard(run *blastdoor.Run, step *blastdoor.StepState, planNo int) (Message, error) {
	text := say("⏩ *Superseded*: the world or the rules changed, so plan %d of step *%s* was replaced by plan %d. An approval of the old plan does not count for the new one.",
		planNo, cut(step.Step.ID, 64), step.Plans)
	return compose(text, []block{header("Dry run: " + run.Runbook + ", step " + step.Step.ID), section(text), smallRun(run)})
}

func smallRun(run *blastdoor.Run) block { return small("Run " + code(run.ID)) }

// fallbackCard stands in for a card that does not pass its check. It has no
// buttons: nobody shall approve what could not be shown, and foreign text must not
// be able to hide the changes by breaking the card.
func fallbackCard(run *blastdoor.Run) Message {
	return plainly("⚠️ This card could not be shown in full, so nothing can be approved on it. " +
		"Run " + code(run.ID) + ": details with " + code("/runbook status "+run.ID) + ", end it with " + code("/runbook cancel "+run.ID) + ".")
}
