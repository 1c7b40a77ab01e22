package crash

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// point is a place where a process can be killed: a boundary, what it is about,
// and which time this is in the life of the process, from 1.
type point struct {
	boundary, subject string
	n                 int
}

func (p point) String() string { return fmt.Sprintf("%s:%s:%d", p.boundary, p.subject, p.n) }

func parsePoint(text string) (point, error) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return point{}, fmt.Errorf("%q is not a crash point: want boundary:subject:n", text)
	}
	n, err := strconv.Atoi(parts[2])
	if err != nil || n < 1 {
		return point{}, fmt.Errorf("%q is not a crash point: want boundary:subject:n", text)
	}
	return point{boundary: parts[0], subject: parts[1], n: n}, nil
}

// The steps of testdata/tidy-up.yaml.
func steps() []string  { return []string{"look", "measure", "restart", "widen", asking} }
func writes() []string { return []string{"restart", "widen", asking} }

// asking is the step that a second person approves.
const asking = "reset"

// everyPoint lists each boundary of the story, for each thing that it applies to.
// What the bot passes is compared with it, so that no boundary is forgotten.
func everyPoint() []point {
	var all []point
	add := func(n int, subjects []string, boundaries ...string) {
		for _, s := range subjects {
			for _, b := range boundaries {
				all = append(all, point{b, s, n})
			}
		}
	}
	around := func(subjects []string, what ...string) {
		for _, w := range what {
			add(1, subjects, "before_"+w, "after_"+w)
		}
	}
	envelopes := []string{"before_inbox", "before_ack", "after_ack"}
	for n := 1; n <= 2; n++ { // /runbook list, then run; Alice's click, then Bob's
		add(n, []string{"command", "click"}, envelopes...)
	}
	around([]string{"request"}, "settle")
	around([]string{"run"}, "run_requested", "end")
	around(steps(), "proposal", "plan", "verdict", "outcome")
	around(writes(), "intent", "effect")
	around([]string{asking}, "ask", "approval")
	around([]string{"run"}, "refusal")
	around([]string{"decision"}, "head")
	add(1, append(writes(), "run_card"), "before_attempt", "before_post", "after_post_before_record", "after_post_record")
	add(1, []string{asking, "run_card"}, "after_update_before_record", "after_update_record")
	add(1, []string{"reply", "notice"}, "after_reply_before_record", "after_reply_record")
	return all
}

// boundaries returns the names of the boundaries of some points, in their order.
func boundaries(points []point) []string {
	var names []string
	for _, p := range points {
		if !slices.Contains(names, p.boundary) {
			names = append(names, p.boundary)
		}
	}
	return names
}
