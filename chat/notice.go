package chat

import (
	"unicode"
	"unicode/utf8"

	"blastdoor"
)

// noticeMessage puts a notice into words: what happened, and what to do.
func noticeMessage(n blastdoor.Notice) (Message, error) {
	text, ok := refusalText(blastdoor.RefusalCode(n.Code))
	if ok {
		text = "Your click did not count: " + text
	} else {
		text = codeText(n.Code)
	}
	blocks := []block{section(text)}
	if detail := untrusted(cut(n.Detail, 400)); detail != "" {
		blocks = append(blocks, section(detail))
	}
	foot := code(n.Code)
	if n.RunID != "" {
		foot += " · run " + code(n.RunID)
	}
	return compose(text, append(blocks, small(foot)))
}

// refusalText is the sentence of a refusal; false for a code outside the set.
func refusalText(c blastdoor.RefusalCode) (markup, bool) {
	switch c {
	case blastdoor.RefusedSelfApproval:
		return "you asked for this run yourself, and a write needs a second person. Ask somebody who may approve it.", true
	case blastdoor.RefusedNotAnApprover:
		return "you are not among the people who may approve this. Ask somebody who is.", true
	case blastdoor.RefusedGuest:
		return "guests of this workspace cannot approve. Ask a full member who may.", true
	case blastdoor.RefusedExternalUser:
		return "people of another workspace cannot approve. Ask a member of the team that owns this.", true
	case blastdoor.RefusedInactiveUser:
		return "your account is not active. Ask somebody else, or have it activated.", true
	case blastdoor.RefusedBotUser:
		return "bots cannot approve. A person has to click.", true
	case blastdoor.RefusedUnverifiedIdentity:
		return "Slack could not confirm who you are just now. Click again in a minute.", true
	case blastdoor.RefusedExpired:
		return "the question had expired, and nothing was written. Run the runbook again for a fresh dry run.", true
	case blastdoor.RefusedNotPending:
		return "the question has been answered already, or the run has ended. The card shows how.", true
	case blastdoor.RefusedAlreadyCounted:
		return "your approval is counted already; the rest must come from other people.", true
	case blastdoor.RefusedPlanMismatch:
		return "the plan on that card is not the plan that waits now. Read the newest dry run and decide there.", true
	case blastdoor.RefusedStaleCard:
		return "that message is not the one that waits for an answer. Use the newest dry run of the run.", true
	}
	return "", false
}

// codeText is the sentence of any other code.
func codeText(c string) markup {
	switch blastdoor.Code(c) {
	case blastdoor.ErrNotAllowed:
		return "You may not do this here."
	case blastdoor.ErrTooLate:
		return "It is too late for this: a write is in flight or the run has ended."
	case blastdoor.ErrNotFound:
		return "There is no such thing."
	case blastdoor.ErrConflict:
		return "Something else changed at the same moment, and nothing was done. Try again."
	case blastdoor.ErrTargetLocked:
		return "Another run is writing to the same target. Try again when it is done."
	case blastdoor.ErrUnavailable:
		return "This could not be decided just now, and nothing was done. Try again in a minute."
	case blastdoor.ErrParamsInvalid:
		return "The inputs are not right, and nothing was done."
	case blastdoor.ErrUnknownInput:
		return "The runbook has no such input, and nothing was done."
	case blastdoor.ErrUsage:
		return "The command was not understood."
	}
	switch blastdoor.RunOutcome(c) {
	case blastdoor.RunCancelled:
		return "The run is cancelled."
	case blastdoor.RunDenied:
		return "The run was denied."
	case blastdoor.RunInDoubt:
		return "🚨 The run is in doubt: it is not known whether the write happened. A person must look."
	}
	return "About your request:"
}

// errorReply puts an error into words for the person who caused it. Only what was
// written for people is shown; the cause stays in the log, under the reference.
func errorReply(err *blastdoor.Error) (Message, error) {
	text := untrusted(sentence(cut(err.Msg, 400)))
	if text == "" {
		text = codeText(string(err.Code))
	}
	lines := []markup{"⚠️ " + text}
	if err.Want != "" {
		lines = append(lines, "→ "+hint(err.Want))
	}
	return compose(text, append(sections(lines), small(code(string(err.Code)))))
}

// sentence begins with a capital.
func sentence(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[size:]
}

// hint shows what would be right. A word in back quotes becomes code; everything
// else is foreign text.
func hint(want string) markup {
	var out markup
	quoted := false
	start := 0
	want = cut(want, 400)
	for i := range len(want) + 1 {
		if i < len(want) && want[i] != '`' {
			continue
		}
		part := want[start:i]
		switch {
		case quoted && i < len(want) && part != "":
			out += code(part)
		default:
			out += untrusted(part)
		}
		quoted, start = !quoted, i+1
	}
	return out
}

// internalReply is the answer when something broke on our side.
func internalReply(ref string) Message {
	return plainly("⚠️ Something broke inside Blast Door. Whoever runs it finds the cause in the log under this reference: " +
		code(ref))
}
