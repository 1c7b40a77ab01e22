package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"blastdoor"
)

// Words returns what a person may read of an error: the message of a
// *blastdoor.Error, else the error's own text, cut.
func Words(err error) string {
	if e, ok := errors.AsType[*blastdoor.Error](err); ok && e.Msg != "" {
		return cut(e.Msg, 500)
	}
	return cut(err.Error(), 500)
}

// cut shortens s to at most n bytes on a rune boundary.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// codes lists the codes of a verdict that weigh as much as its decision.
func codes(v blastdoor.Verdict) string {
	var out []string
	for _, r := range v.Reasons {
		if r.Effect == v.Decision && !slices.Contains(out, string(r.Code)) {
			out = append(out, string(r.Code))
		}
	}
	return strings.Join(out, ", ")
}

// drift says in a sentence what differs between the plan that was judged and the
// plan of now.
func drift(was, is blastdoor.Plan) string {
	switch {
	case is.Fault != nil:
		return "the rehearsal now fails: " + is.Fault.Text
	case !slices.Equal(was.Changes, is.Changes):
		return "what would change is no longer the same: " + firstChange(was.Changes, is.Changes)
	case !slices.Equal(was.Radius.Direct, is.Radius.Direct), !slices.Equal(was.Radius.Dependents, is.Radius.Dependents):
		return fmt.Sprintf("who would feel it has changed: %s", difference(affected(was), affected(is)))
	case !slices.Equal(was.Radius.Protected, is.Radius.Protected):
		return "the protected services in the radius have changed"
	default:
		return "the targets have been changed by somebody else since the plan was made"
	}
}

func firstChange(was, is []blastdoor.Change) string {
	for _, c := range is {
		if !slices.Contains(was, c) {
			return fmt.Sprintf("%s %s %s → %s", c.Target, c.Field, c.Before, c.After)
		}
	}
	return "fewer changes than before"
}

func affected(p blastdoor.Plan) []string {
	return slices.Concat(p.Radius.Direct, p.Radius.Dependents)
}

// difference names what came and what went, the first few of each.
func difference(was, is []string) string {
	var parts []string
	for _, name := range is {
		if !slices.Contains(was, name) {
			parts = append(parts, "+"+name)
		}
	}
	for _, name := range was {
		if !slices.Contains(is, name) {
			parts = append(parts, "-"+name)
		}
	}
	if len(parts) > 6 {
		parts = append(parts[:6], fmt.Sprintf("and %d more", len(parts)-6))
	}
	if len(parts) == 0 {
		return "a target has become a dependent, or the other way round"
	}
	return strings.Join(parts, ", ")
}
