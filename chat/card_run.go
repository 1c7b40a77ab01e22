package chat

import (
	"fmt"

	"blastdoor"
)

// runCard is the one card of a run: where it stands, step by step.
func runCard(run *blastdoor.Run) (Message, error) {
	title := say("Run of *%s*", cut(run.Runbook, 64))
	blocks := []block{
		header("Run: " + run.Runbook),
		section(headline(run)),
		small("Asked for by " + mention(run.Requester.UserID) + ", " + moment(run.RequestedAt)),
	}
	if run.BreakGlass != "" {
		blocks = append(blocks, section(glassLine(run)))
	}
	if len(run.Inputs) > 0 {
		blocks = append(blocks, verbatim(fit(inputLines(run.Inputs), 20, 2000)))
	}
	lines := make([]markup, 0, len(run.Steps))
	for i := range run.Steps {
		lines = append(lines, stepLine(i+1, &run.Steps[i]))
	}
	blocks = append(blocks, limit(sections(lines), 40)...)
	foot := "Run " + code(run.ID) + " · details: " + code("/runbook status "+run.ID)
	if !run.Ended() {
		foot += " · end it: " + code("/runbook cancel "+run.ID)
	}
	blocks = append(blocks, small(foot))
	return compose(title+". "+headline(run), blocks)
}

// glassLine says in words that no one can miss that a freeze is to be broken.
func glassLine(run *blastdoor.Run) markup {
	return "🚨 *BREAK GLASS* 🚨 " + mention(run.Requester.UserID) + say(" asks to act *in spite of a freeze*. Reason given: “%s”", cut(run.BreakGlass, 500))
}

// stepLine is one step in one line.
func stepLine(n int, s *blastdoor.StepState) markup {
	l := lookOf(s.Status)
	line := say("%s %d. *%s* (%s): %s", markup(l.sign), n, cut(s.Step.ID, 64), code(s.Step.Action), l.words+until(s))
	if s.Status == blastdoor.StatusDone && s.Receipt != nil {
		line += say(", %s", cut(s.Receipt.Summary, 160))
	}
	if s.Detail != "" {
		line += say(": %s", cut(s.Detail, 200))
	}
	if !s.Since.IsZero() && s.Status != blastdoor.StatusPending {
		line += " · " + moment(s.Since)
	}
	return line
}

// outcomeNote calls the requester once a run has ended in any other way than
// completed, for an edited card notifies nobody.
func outcomeNote(run *blastdoor.Run) (Message, error) {
	text := mention(run.Requester.UserID) + say(", your run of *%s* has ended. ", cut(run.Runbook, 64)) + headline(run)
	return compose(text, []block{section(text), smallRun(run)})
}

// limit keeps the number of blocks within a bound and says that something is
// missing.
func limit(blocks []block, most int) []block {
	if len(blocks) <= most {
		return blocks
	}
	return append(blocks[:most:most], small(markup(fmt.Sprintf("… cut here; %d more blocks would not fit", len(blocks)-most))))
}

// radiusList is the full list of who would feel a step, for the thread of the run
// card, where length disturbs nobody.
func radiusList(run *blastdoor.Run, stepID string, planNo int) (Message, error) {
	step := run.StepByID(stepID)
	if step == nil || step.Plan == nil {
		return Message{}, fmt.Errorf("listing the radius of step %q in run %s: no plan", stepID, run.ID)
	}
	if planNo < step.Plans {
		return compose("A newer plan has its own list.", []block{small("This list was for an older plan of the step; the newer plan has its own.")})
	}
	r := &step.Plan.Radius
	title := say("Everything that step *%s* would affect: %s directly, %s dependents, %s downstream",
		cut(step.Step.ID, 64), markup(thousands(len(r.Direct))), markup(thousands(len(r.Dependents))), markup(thousands(len(r.Downstream))))
	blocks := []block{section(title)}
	room := listRoom
	for _, part := range []struct {
		title string
		names []string
	}{{"Direct", r.Direct}, {"Dependents", r.Dependents}, {"Protected", r.Protected}, {"Hosts", r.Hosts}, {"Unknown to the graph", r.Unknown}, {"Downstream", r.Downstream}} {
		if len(part.names) == 0 {
			continue
		}
		blocks = append(blocks, section(say("*%s* (%s)", part.title, markup(thousands(len(part.names))))))
		blocks = append(blocks, chunks(part.names, &room)...)
	}
	if changes := changeLines(step.Plan); len(changes) > 0 {
		blocks = append(blocks, section("*Exact changes* ("+markup(thousands(len(changes)))+")"))
		blocks = append(blocks, chunks(changes, &room)...)
	}
	blocks = append(limit(blocks, 48), small("Plan "+code(short(step.PlanHash))+" · run "+code(run.ID)))
	return compose(title, blocks)
}

// listRoom is how many characters a full list may have in all. Slack does not say
// where msg_blocks_too_long begins; this many have been seen to pass.
const listRoom = 30_000

// chunks shows lines in fixed-width boxes of at most one section's length each.
func chunks(list []string, room *int) []block {
	var out []block
	var lines []string
	used := 0
	flush := func() {
		if len(lines) > 0 {
			out = append(out, verbatim(lines))
		}
		lines, used = nil, 0
	}
	for i, name := range list {
		name = clip(clean(name), 500)
		n := escapedLength(name) + 1
		if *room < n {
			lines = append(lines, fmt.Sprintf("… and %s more", thousands(len(list)-i)))
			*room = 0
			break
		}
		if used+n > sectionRoom-60 {
			flush()
		}
		lines = append(lines, name)
		used += n
		*room -= n
	}
	flush()
	return out
}
