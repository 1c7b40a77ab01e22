package chat

import (
	"fmt"
	"strings"

	"blastdoor"
)

// helpReply explains the commands.
func helpReply() (Message, error) {
	lines := []markup{"*Blast Door* runs operational runbooks. Before a write it rehearses, shows who would feel it, and asks a second person where the policy says so."}
	for _, u := range usages() {
		lines = append(lines, code("/runbook "+u.form)+"  "+markup(u.says))
	}
	lines = append(lines, `Put quotes around a value with spaces: `+code(`reason="two words"`),
		"Where a freeze allows it, its responders may act with a reason: "+code(`/runbook run NAME `+blastdoor.BreakGlassKey+`="the database is on fire"`))
	return compose("How to use /runbook", sections(lines))
}

// listReply lists the runbooks with their inputs.
func listReply(books []blastdoor.Runbook) (Message, error) {
	if len(books) == 0 {
		return plainly("There are no runbooks."), nil
	}
	lines := []markup{"*" + count(len(books), "runbook", "runbooks") + "*"}
	for i, rb := range books {
		if i == 60 {
			lines = append(lines, markup(fmt.Sprintf("… and %d more", len(books)-i)))
			break
		}
		line := code(rb.Name)
		if rb.Description != "" {
			line += say("  %s", cut(rb.Description, 200))
		}
		for _, in := range rb.Inputs {
			line += "\n      " + inputLine(in)
		}
		lines = append(lines, shorter(line, code(rb.Name)+"  (too many inputs to show)"))
	}
	lines = append(lines, "Try one without writing anything: "+code("/runbook plan NAME"))
	return compose(lines[0], limit(sections(lines), 45))
}

func inputLine(in blastdoor.Input) markup {
	line := code(in.Name+"=") + say(" %s", string(in.Type))
	if len(in.Options) > 0 {
		line += say(" (%s)", cut(strings.Join(in.Options, ", "), 120))
	}
	switch {
	case in.Min != nil && in.Max != nil:
		line += say(" %d to %d", *in.Min, *in.Max)
	case in.Min != nil:
		line += say(" of at least %d", *in.Min)
	case in.Max != nil:
		line += say(" of at most %d", *in.Max)
	}
	if in.Default == nil {
		line += ", required"
	} else {
		line += say(", default %s", cut(fmt.Sprint(in.Default), 60))
	}
	if in.Description != "" {
		line += say(": %s", cut(in.Description, 160))
	}
	return line
}

// shorter returns the line if it fits a section, else the stand-in.
func shorter(line, standIn markup) markup {
	if len(line) > sectionRoom {
		return standIn
	}
	return line
}

// previewReply shows what a run would do, step by step. Nothing was written.
func previewReply(p blastdoor.Preview) (Message, error) {
	title := say("Plan of *%s*: nothing was written.", cut(p.Runbook, 64))
	blocks := []block{header("Plan: " + p.Runbook), section(title + " A later step may look different once an earlier one has run.")}
	for i := range p.Steps {
		sp := &p.Steps[i]
		step := blastdoor.StepState{Step: sp.Step, Plan: &sp.Plan, PlanHash: sp.Hash, Verdict: &sp.Verdict}
		lines := []markup{say("*%d. %s*: ", i+1, cut(sp.Step.ID, 64)) + reach(&step), verdictLine(&sp.Verdict)}
		blocks = append(blocks, divider())
		blocks = append(blocks, sections(append(lines, reasons(sp.Verdict)...))...)
		blocks = append(blocks, radiusBlocks(&sp.Plan)...)
		blocks = append(blocks, changeBlocks(&sp.Plan)...)
		blocks = append(blocks, small("Plan "+code(sp.Hash)))
	}
	blocks = append(limit(blocks, 46), small("Policy "+code(p.Policy)+" · run it: "+code("/runbook run "+p.Runbook)))
	return compose(title, blocks)
}

// runsReply lists the latest runs of a channel, and how the bot is.
func runsReply(channel string, runs []blastdoor.RunSummary, health SocketStatus) (Message, error) {
	title := "*Latest runs in* " + channelRef(channel)
	if len(runs) == 0 {
		title = "No runs in " + channelRef(channel) + " yet. " + code("/runbook list") + " shows what can be run."
		return compose(title, []block{section(title), small(healthLine(health))})
	}
	lines := []markup{title}
	for _, r := range runs {
		lines = append(lines, summaryLook(r.Status)+" "+code(r.ID)+say(" *%s*, %s, asked for by ", cut(r.Runbook, 64), strings.ReplaceAll(cut(r.Status, 40), "_", " "))+
			mention(r.Requester)+" · "+moment(r.UpdatedAt))
	}
	blocks := limit(sections(append(lines, "Everything about one: "+code("/runbook status RUN"))), 45)
	return compose(title, append(blocks, small(healthLine(health))))
}

// healthLine says how the bot is connected. More than one connection means that
// another process receives some of the commands.
func healthLine(s SocketStatus) markup {
	switch {
	case !s.Connected:
		return "⚠️ Not connected to Slack right now; messages are sent as soon as it is back."
	case s.Connections > 1:
		return say("⚠️ Slack counts *%d* connections of this app: another process receives some of the commands.", s.Connections)
	default:
		return say("Connected to Slack since %s, %d connection, %d requests waiting.", moment(s.Since), s.Connections, s.Queue)
	}
}

func summaryLook(status string) markup {
	switch status {
	case blastdoor.RunActive:
		return "▶️"
	case blastdoor.RunWaiting:
		return "🔒"
	}
	return markup(outcomeLook(blastdoor.RunOutcome(status)).sign)
}

// statusReply tells everything about one run: who asked, what was decided and why,
// who approved and when, what was written and under which ids, and what it waits for.
func statusReply(run *blastdoor.Run) (Message, error) {
	title := say("Run of *%s*. ", cut(run.Runbook, 64)) + headline(run)
	facts := []markup{
		"Run " + code(run.ID) + ", asked for by " + mention(run.Requester.UserID) + " in " + channelRef(run.Channel) + ", " + moment(run.RequestedAt),
		"Runbook " + code(short(run.RunbookDigest)) + " · policy " + code(short(run.PolicyDigest)) +
			" · " + count(run.Len, "event", "events") + " · " + count(run.Writes, "intent to write", "intents to write") +
			" · " + count(run.Refusals, "click refused", "clicks refused"),
	}
	blocks := append([]block{header("Status: " + run.Runbook), section(headline(run))}, sections(facts)...)
	if len(run.Inputs) > 0 {
		blocks = append(blocks, verbatim(fit(inputLines(run.Inputs), 20, 2000)))
	}
	for i := range run.Steps {
		blocks = append(blocks, sections(stepFacts(i+1, &run.Steps[i]))...)
		if out := run.Steps[i].Output; out != "" {
			blocks = append(blocks, verbatim(fit(strings.Split(out, "\n"), 20, 2000)))
		}
	}
	return compose(title, limit(blocks, 46))
}

func stepFacts(n int, s *blastdoor.StepState) []markup {
	lines := []markup{stepLine(n, s)}
	if s.Plan != nil {
		lines = append(lines, "      "+reach(s)+" Plan "+code(short(s.PlanHash))+say(" (no. %d)", s.Plans))
	}
	if s.Verdict != nil {
		lines = append(lines, "      "+verdictLine(s.Verdict))
		for _, r := range reasons(*s.Verdict) {
			lines = append(lines, "      "+r)
		}
	}
	if s.Approval != nil {
		lines = append(lines, "      "+approvalLine(s.Approval)+". Approval "+code(s.Approval.ID))
	}
	if s.Intent != nil {
		lines = append(lines, "      Key "+code(s.Intent.Key)+", intended "+moment(s.Intent.At))
	}
	if s.Receipt != nil {
		lines = append(lines, "      "+doneLine(s))
	}
	return lines
}
