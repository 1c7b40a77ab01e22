package explore

import (
	"errors"
	"fmt"
	"slices"

	"blastdoor"
	"blastdoor/engine"
)

// A move is one thing that can happen next.
type move struct {
	kind kind
	run  int
	arg  int // which click, which answer of a write, which rule
}

type kind int

const (
	asks      kind = iota // somebody asks for a run
	looks                 // a worker reads what its next effect needs
	looksLost             // the same, and the key cannot be looked up
	readFails             // a worker reads, and the read fails
	commits               // a worker decides and commits
	writes                // a worker makes the write; arg says what becomes of it
	clicks                // arg says who presses what
	cancels               // arg 0: the requester, 1: another
	clock                 // time passes
	moved                 // somebody else changes the target
	grown                 // somebody adds a dependency
	freeze                // a freeze begins, or is lifted
	strict                // limits and quorum are tightened, or loosened again
	crash                 // all processes die; what they had in their heads is gone
	loses                 // a worker loses its lease and does not know
	stale                 // a worker without a lease goes on
	lands                 // a write that was on its way arrives
	vanishes              // a write that was on its way is lost for good
)

// What becomes of a write.
const (
	answered   = iota // it is made, or refused because the world has moved, and the worker is told
	unanswered        // the same, and the answer is lost
	lost              // it is never made, and nobody knows
	late              // it is on its way, and nobody knows
	refused           // the environment refuses it for certain
)

// press is one way to press a button.
type press struct {
	who     string
	approve bool
	odd     string // "": as it should be
}

var presses = []press{
	{"U0ALICE", true, ""}, {"U0BOB", true, ""}, {"U0CAROL", true, ""}, {"U0MALLORY", true, ""}, {"U0GUEST", true, ""},
	{"U0CAROL", true, "stale card"}, {"U0CAROL", true, "other hash"}, {"U0CAROL", true, "other question"},
	{"U0ALICE", false, ""}, {"U0BOB", false, ""}, {"U0MALLORY", false, ""},
}

// moves lists what can happen, in a fixed order.
func (m *model) moves(s *state, out []move) []move {
	out = out[:0]
	for run := range m.runs {
		out = m.movesOfRun(s, run, out)
	}
	if s.passes() > 0 {
		out = append(out, move{kind: clock})
	}
	if s.disturbed < m.disturb {
		out = append(out, move{kind: moved}, move{kind: freeze}, move{kind: strict})
		if !s.env.edge {
			out = append(out, move{kind: grown})
		}
	}
	busy := func(h hand) bool { return h.snapshot != nil }
	if slices.ContainsFunc(s.hands[:], busy) || slices.ContainsFunc(s.stale[:], busy) {
		out = append(out, move{kind: crash})
	}
	for i := range s.env.transit {
		out = append(out, move{lands, 0, i}, move{vanishes, 0, i})
	}
	return out
}

func (m *model) movesOfRun(s *state, run int, out []move) []move {
	v, h := s.runs[run], &s.hands[run]
	if v == nil {
		return append(out, move{asks, run, 0})
	}
	switch {
	case h.write:
		for answer := answered; answer <= refused; answer++ {
			out = append(out, move{writes, run, answer})
		}
	case h.snapshot != nil:
		out = append(out, move{commits, run, 0})
	default:
		out = m.movesOfIdle(s, run, out)
	}
	if old := s.stale[run].snapshot; old != nil {
		// What fences a lost lease out is the length of the history: where nobody has
		// written since, the lease must not have been given away.
		if old.run.Len != v.run.Len || m.lengthOnly {
			out = append(out, move{stale, run, 0})
		}
	} else if h.snapshot != nil && m.bounds.stale {
		out = append(out, move{loses, run, 0})
	}
	if v.run.Ended() && h.snapshot == nil && s.stale[run].snapshot == nil {
		return out // a click changes nothing but the length
	}
	if slices.ContainsFunc(v.run.Steps, func(s blastdoor.StepState) bool { return s.Approval != nil }) {
		for i := range presses {
			out = append(out, move{clicks, run, i})
		}
	}
	return append(out, move{cancels, run, 0}, move{cancels, run, 1})
}

func (m *model) movesOfIdle(s *state, run int, out []move) []move {
	switch m.next(s.runs[run].run, at(s.now)).Kind {
	case engine.EffectNone, engine.EffectWait:
		return out
	case engine.EffectResolve:
		return append(out, move{looks, run, 0}, move{looksLost, run, 0})
	case engine.EffectObserve:
		return append(out, move{looks, run, 0}, move{readFails, run, 0})
	default:
		return append(out, move{looks, run, 0})
	}
}

// passes is how many seconds the clock advances: one, while something that
// matters is near, else straight to the next timer; none when there is no timer.
func (s *state) passes() int {
	next := 0
	for _, v := range s.runs {
		if v == nil {
			continue
		}
		for _, t := range v.timers {
			if left := s.left(t); left > 0 && (next == 0 || left < next) {
				next = left
			}
		}
	}
	if next == 0 || next <= int(cardLife.Seconds()) {
		return min(next, 1)
	}
	return next
}

// do makes a move. What it returns is a new state, with the first property that
// the move has violated.
func (m *model) do(old *state, mv move) (state, string) {
	s := *old
	switch mv.kind {
	case asks:
		return m.ask(s, mv.run)
	case looks, looksLost, readFails:
		s.hands[mv.run] = m.look(&s, mv)
		if k := s.hands[mv.run].effect; k == engine.EffectPropose || k == engine.EffectObserve || k == engine.EffectEnd {
			return m.commit(s, mv.run) // it reads nothing that others change: one move
		}
	case commits:
		return m.commit(s, mv.run)
	case writes:
		if s.hands[mv.run].frozen {
			return s, "truth: a write is made though a freeze had begun before the last look"
		}
		s.hands[mv.run] = m.write(&s, s.hands[mv.run], mv.arg)
	case clicks:
		return m.click(s, mv.run, presses[mv.arg])
	case cancels:
		by := requester(mv.run)
		if mv.arg == 1 {
			by = "U0CAROL"
		}
		return m.submit(s, mv.run, hand{snapshot: s.runs[mv.run], cmd: engine.Cancel{By: m.pages[by]}})
	case clock:
		s.now += s.passes()
	case moved:
		s.env.version++
		s.disturbed++
	case grown:
		s.env.edge = true
		s.disturbed++
	case freeze:
		s.rules.frozen = !s.rules.frozen
		s.disturbed++
	case strict:
		s.rules.strict = !s.rules.strict
		s.disturbed++
	case crash:
		s.hands, s.stale = [workers]hand{}, [workers]hand{}
	case loses:
		s.stale[mv.run], s.hands[mv.run] = s.hands[mv.run], hand{}
	case stale:
		return m.goOn(s, mv.run)
	case lands, vanishes:
		w := s.env.transit[mv.arg]
		s.env.transit = slices.Delete(slices.Clone(s.env.transit), mv.arg, mv.arg+1)
		if mv.kind == lands {
			s.env.reach(w, m.flaws)
		}
	}
	return s, m.checkState(&s)
}

func (m *model) ask(s state, run int) (state, string) {
	cmd := engine.Request{RunID: runID(run), Body: blastdoor.RunRequested{SourceID: runID(run), Runbook: runID(run),
		PolicyDigest: m.policies[s.rules].digest, Steps: steps(run), Requester: m.pages[requester(run)], Channel: channel}}
	return m.submit(s, run, hand{snapshot: &version{}, cmd: cmd})
}

// click brings a press to the run, as the runner does: with everything looked up
// afresh, and under the run's lock.
func (m *model) click(s state, run int, p press) (state, string) {
	return m.submit(s, run, hand{snapshot: s.runs[run], cmd: m.vote(&s, run, p)})
}

// isRefused reports whether a press does not count.
func (m *model) isRefused(s *state, mv move) bool {
	events, err := m.decide(s.runs[mv.run].run, m.vote(s, mv.run, presses[mv.arg]), at(s.now))
	return err == nil && len(events) == 1 && events[0].Body.Kind() == blastdoor.ApprovalRefusedKind
}

func (m *model) vote(s *state, run int, p press) engine.Vote {
	var approval *blastdoor.Approval
	for i := range s.runs[run].run.Steps {
		if a := s.runs[run].run.Steps[i].Approval; a != nil {
			approval = a
		}
	}
	card := blastdoor.MessageRef{Channel: channel, TS: approval.DeliveryID}
	click := blastdoor.Click{RunID: runID(run), ApprovalID: approval.ID, PlanHash: approval.PlanHash, Approve: p.approve,
		UserID: p.who, TeamID: "T0ACME", Message: card}
	switch p.odd {
	case "stale card":
		click.Message.TS = "of an earlier plan"
	case "other hash":
		click.PlanHash = "sha256:00"
	case "other question":
		click.ApprovalID = "ap-of-another-run"
	}
	return engine.Vote{Click: click, Person: m.pages[p.who], Current: m.policies[s.rules].body.Approvers, Stored: card}
}

// look reads what the next effect of a run needs.
func (m *model) look(s *state, mv move) hand {
	v := s.runs[mv.run]
	effect := m.next(v.run, at(s.now))
	h := hand{snapshot: v, effect: effect.Kind}
	if effect.Kind == engine.EffectRecheck || effect.Kind == engine.EffectResolve {
		h.frozen, h.world = s.rules.frozen, s.env.world
	}
	step := v.run.Current()
	pinned, current := m.byDigest[v.run.PolicyDigest], m.policies[s.rules].body
	quorum := max(pinned.Approvers.Quorum, current.Approvers.Quorum)
	switch effect.Kind {
	case engine.EffectPropose:
		h.cmd = engine.Propose{Proposal: blastdoor.Proposal{StepID: step.Step.ID, Action: step.Step.Action, Params: step.Step.Params,
			Confidence: 1, Planner: blastdoor.RunbookPlanner}}
	case engine.EffectRehearse:
		h.cmd = engine.Seal{Sealed: m.sealed(s, mv.run, step.Step.ID)}
	case engine.EffectJudge:
		h.cmd = engine.Judge{Judgement: m.judge(s, mv.run, engine.Sealed{Plan: *step.Plan, Hash: step.PlanHash, GraphAsOf: step.GraphAsOf})}
	case engine.EffectAsk:
		approvers := pinned.Approvers
		approvers.Quorum = quorum
		h.cmd = engine.Ask{Approvers: approvers, TTL: cardLife}
	case engine.EffectObserve:
		h.cmd = engine.Observe{Observation: blastdoor.Observation{Summary: "all is well"}}
		if mv.kind == readFails {
			h.cmd = engine.Observe{Err: errors.New("no answer")}
		}
	case engine.EffectRecheck:
		sealed, judgement := m.again(s, mv.run)
		h.cmd = engine.Recheck{Sealed: sealed, Judgement: judgement, TTL: cardLife, Quorum: quorum}
	case engine.EffectResolve:
		h.cmd = m.resolve(s, mv)
	case engine.EffectEnd:
		h.cmd = engine.Finish{}
	}
	h.sum = sumOf(&h)
	return h
}

// again rehearses and judges once more.
func (m *model) again(s *state, run int) (engine.Sealed, engine.Judgement) {
	step := s.runs[run].run.Current()
	if m.skipsRecheck {
		first := s.firstVerdict(run)
		return engine.Sealed{Plan: *step.Plan, Hash: step.PlanHash}, engine.Judgement{PolicyDigest: first.PolicyDigest,
			Circumstances: first.Circumstances, Verdict: first.Verdict}
	}
	sealed := m.sealed(s, run, step.Step.ID)
	return sealed, m.judge(s, run, sealed)
}

func (m *model) resolve(s *state, mv move) engine.Resolve {
	step := s.runs[mv.run].run.Current()
	cmd := engine.Resolve{}
	if mv.kind == looks {
		cmd.Outcome = s.env.lookup(step.Intent.Key, m.flaws)
	}
	switch cmd.Outcome {
	case blastdoor.OutcomeApplied:
		cmd.Receipt = blastdoor.Receipt{Key: step.Intent.Key, At: at(s.now)}
	case blastdoor.OutcomeNotApplied:
		cmd.Sealed, cmd.Judgement = m.again(s, mv.run)
	}
	return cmd
}

// write sends the write of an intent and returns the hand with the answer.
func (m *model) write(s *state, h hand, answer int) hand {
	step := h.snapshot.run.Current()
	w := write{key: step.Intent.Key}
	fmt.Sscan(step.Plan.Versions[target], &w.expected)
	outcome := engine.Outcome{Receipt: blastdoor.Receipt{Key: w.key, At: at(s.now)}}
	switch answer {
	case answered:
		if _, moved := s.env.reach(w, m.flaws); moved {
			outcome.Err = blastdoor.Errorf(blastdoor.ErrWorldMoved, "%s has moved", target)
		}
	case unanswered:
		s.env.reach(w, m.flaws)
		outcome.Err = errors.New("connection reset")
	case lost:
		outcome.Err = errors.New("connection reset")
	case late:
		if !slices.Contains(s.env.transit, w) {
			s.env.transit = append(slices.Clip(s.env.transit), w)
		}
		outcome.Err = errors.New("deadline exceeded")
	case refused:
		outcome.Err = blastdoor.Errorf(blastdoor.ErrNotApplied, "refused")
	}
	h.cmd, h.write = outcome, false
	h.sum = sumOf(&h)
	return h
}

// sumOf tells one hand from another.
func sumOf(h *hand) [16]byte {
	var b printer
	b.text(string(h.effect))
	b.flag(h.frozen, h.world.edge)
	b.number(h.world.version)
	switch cmd := h.cmd.(type) {
	case engine.Seal:
		b.text(cmd.Sealed.Hash)
	case engine.Judge:
		b.verdict(cmd.Judgement.Verdict)
	case engine.Ask:
		b.number(cmd.Approvers.Quorum)
	case engine.Observe:
		b.flag(cmd.Err != nil)
	case engine.Recheck:
		b.text(cmd.Sealed.Hash)
		b.verdict(cmd.Judgement.Verdict)
		b.number(cmd.Quorum)
	case engine.Resolve:
		b.number(int(cmd.Outcome))
		b.text(cmd.Sealed.Hash)
		b.verdict(cmd.Judgement.Verdict)
	case engine.Outcome:
		b.text(string(blastdoor.CodeOf(cmd.Err)))
		b.flag(cmd.Err != nil)
	}
	return b.sum()
}
