package explore

import (
	"fmt"
	"strings"

	"blastdoor"
)

// tell says in words what a move did.
func (m *model) tell(before, after *state, mv move) string {
	what := fmt.Sprintf("%s: %s", runID(mv.run), m.name(before, mv))
	if mv.kind >= clock && mv.kind <= crash || mv.kind >= lands {
		what = m.name(before, mv)
	}
	var events []string
	for e := after.log; e != nil && e != before.log; e = e.prev {
		word := string(e.event.Body.Kind())
		switch body := e.event.Body.(type) {
		case *blastdoor.ApprovalRefused:
			word += " (" + string(body.Code) + ")"
		case *blastdoor.RunEnded:
			word += " (" + string(body.Outcome) + ")"
		}
		events = append([]string{word}, events...)
	}
	if len(events) > 0 {
		what += " → " + strings.Join(events, ", ")
	}
	if n := len(after.env.ledger) - len(before.env.ledger); n > 0 {
		what += " [a write takes effect]"
	}
	return what
}

func (m *model) name(s *state, mv move) string {
	switch mv.kind {
	case asks:
		return requester(mv.run) + " asks for it"
	case looks:
		return "the worker looks (" + string(m.next(s.runs[mv.run].run, at(s.now)).Kind) + ")"
	case looksLost:
		return "the worker looks, and the key cannot be looked up"
	case readFails:
		return "the worker reads, and the read fails"
	case commits:
		return "the worker decides and commits"
	case writes:
		return "the worker writes: " + []string{"answered", "the answer is lost", "the write is lost", "it is still on its way", "refused"}[mv.arg]
	case clicks:
		p := presses[mv.arg]
		word := map[bool]string{true: "approves", false: "declines"}[p.approve]
		return strings.TrimSpace(p.who + " " + word + " " + p.odd)
	case cancels:
		return []string{"the requester", "another person"}[mv.arg] + " cancels"
	case clock:
		return fmt.Sprintf("%d s pass", s.passes())
	case loses:
		return "the worker loses its lease"
	case stale:
		return "the worker that has lost its lease goes on"
	default:
		return map[kind]string{moved: "somebody else changes the target", grown: "somebody adds a dependency",
			freeze: "a freeze begins or is lifted", strict: "the policy is tightened or loosened",
			crash: "the process dies and starts again", lands: "a write that was on its way arrives",
			vanishes: "a write that was on its way is lost"}[mv.kind]
	}
}
