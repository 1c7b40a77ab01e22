package explore

import (
	"fmt"
	"reflect"
	"slices"

	"blastdoor"
	"blastdoor/engine"
)

// commit lets the worker of a run decide on what it holds, and append it.
func (m *model) commit(s state, run int) (state, string) {
	h := s.hands[run]
	s.hands[run] = hand{}
	next, breach := m.submit(s, run, h)
	if resolve, ok := h.cmd.(engine.Resolve); ok && breach == "" && m.mayWrite(&s, h, resolve) {
		h.write, h.cmd = true, nil
		h.sum = sumOf(&h)
		next.hands[run] = h
	}
	return next, breach
}

// mayWrite reports whether the decision on a look was: write now. No event says
// so, and so no commit shows a worker whether it still has the lease.
func (m *model) mayWrite(s *state, h hand, cmd engine.Resolve) bool {
	events, err := m.decide(h.snapshot.run, cmd, at(s.now))
	return err == nil && len(events) == 0
}

// goOn lets a worker without a lease do what it was about to do: its commit is
// taken only where nobody else has written, and it writes nothing.
func (m *model) goOn(s state, run int) (state, string) {
	h := s.stale[run]
	s.stale[run] = hand{}
	if h.write || isWrite(m, &s, h) {
		if m.writesStale {
			h = m.write(&s, h, unanswered)
			return s, m.checkState(&s)
		}
		return s, ""
	}
	return m.submit(s, run, h)
}

func isWrite(m *model, s *state, h hand) bool {
	resolve, ok := h.cmd.(engine.Resolve)
	return ok && m.mayWrite(s, h, resolve)
}

// submit decides on a command as of a snapshot and appends what comes of it, with
// the checks of the real journal: length, locks, spent approvals. A refused commit
// changes nothing.
func (m *model) submit(s state, run int, h hand) (state, string) {
	now := at(s.now)
	events, err := m.decide(h.snapshot.run, h.cmd, now)
	if err != nil || len(events) == 0 {
		return s, "" // out of place, too late, or nothing to record
	}
	proj, decided, err := m.project(h.snapshot.run, events)
	if err != nil {
		return s, fmt.Sprintf("property 7: decided what cannot be folded: %v", err)
	}
	current := s.runs[run]
	if current == nil {
		current = &version{}
	}
	stale := current != h.snapshot && current.run.Len != h.snapshot.run.Len
	if stale && !m.noConflict {
		return s, "" // a conflict
	}
	if stale {
		for i := range events {
			events[i].Seq = current.run.Len + i + 1
		}
	}
	if !m.noLocks && s.locked(run, proj.Flight) || s.spent(events) && !m.reusesApproval {
		return s, ""
	}
	before := s
	folded := decided
	for _, e := range events {
		s.log = &entry{event: e, prev: s.log, n: length(s.log) + 1}
	}
	if current != h.snapshot {
		if folded, err = m.fold(current.run, events); err != nil {
			return s, fmt.Sprintf("property 7: the history does not fold: %v", err)
		}
	}
	s.runs[run] = newVersion(folded, proj)
	s.spend(events)
	if breach := m.checkAppend(&before, &s, run, &h, events); breach != "" {
		return s, breach
	}
	return s, m.checkState(&s)
}

func length(e *entry) int {
	if e == nil {
		return 0
	}
	return e.n
}

func (m *model) fold(run blastdoor.Run, events []blastdoor.Event) (blastdoor.Run, error) {
	for _, e := range events {
		var err error
		if run, err = m.evolve(run, e); err != nil {
			return run, err
		}
	}
	return run, nil
}

// project is what goes into the commit beside the events.
func (m *model) project(run blastdoor.Run, events []blastdoor.Event) (blastdoor.Projection, blastdoor.Run, error) {
	next, err := m.fold(run, events)
	if err != nil {
		return blastdoor.Projection{}, next, err
	}
	return engine.Project(next), next, nil
}

// locked reports whether another run holds a target of the flight.
func (s *state) locked(run int, flight *blastdoor.Flight) bool {
	if flight == nil {
		return false
	}
	for other, v := range s.runs {
		if other == run || v == nil || v.proj.Flight == nil {
			continue
		}
		if slices.ContainsFunc(flight.Targets, func(t string) bool { return slices.Contains(v.proj.Flight.Targets, t) }) {
			return true
		}
	}
	return false
}

func (s *state) spent(events []blastdoor.Event) bool {
	return slices.ContainsFunc(events, func(e blastdoor.Event) bool {
		intent, ok := e.Body.(*blastdoor.ApplyIntended)
		return ok && intent.ApprovalID != "" && slices.Contains(s.consumed, intent.ApprovalID)
	})
}

func (s *state) spend(events []blastdoor.Event) {
	for _, e := range events {
		if intent, ok := e.Body.(*blastdoor.ApplyIntended); ok && intent.ApprovalID != "" {
			s.consumed = append(slices.Clip(s.consumed), intent.ApprovalID)
			slices.Sort(s.consumed)
		}
	}
}

// firstVerdict is the verdict that the newest plan of a run was given.
func (s *state) firstVerdict(run int) *blastdoor.VerdictGiven {
	for e := s.log; e != nil; e = e.prev {
		if given, ok := e.event.Body.(*blastdoor.VerdictGiven); ok && e.event.RunID == runID(run) {
			return given
		}
	}
	return nil
}

// refold checks that what workers have in their heads is what a restart would
// read: the fold of the history.
func (m *model) refold(s *state) string {
	var runs [workers]blastdoor.Run
	for _, e := range s.history() {
		run := slices.IndexFunc([]string{runID(0), runID(1)}, func(id string) bool { return id == e.RunID })
		var err error
		if runs[run], err = m.evolve(runs[run], e); err != nil {
			return fmt.Sprintf("property 7: the history does not fold: %v", err)
		}
	}
	for run, v := range s.runs {
		if v != nil && !reflect.DeepEqual(runs[run], v.run) {
			return fmt.Sprintf("property 7: run %s is not what its history folds to", runID(run))
		}
	}
	return ""
}
