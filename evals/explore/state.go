package explore

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"blastdoor"
	"blastdoor/engine"
)

// state is everything at one moment: what is durable, what workers have in their
// heads, and the environment. It is copied by value; what it points to is never changed.
type state struct {
	now       int               // seconds since noon
	runs      [workers]*version // nil: not asked for
	hands     [workers]hand     // of the worker that has the lease
	stale     [workers]hand     // of a worker that has lost it and does not know
	env       environment
	rules     rules
	disturbed int      // how often
	consumed  []string // approvals, as the journal keeps them
	log       *entry   // newest first
}

// version is a run at one length of its history, with what is derived from it.
type version struct {
	run  blastdoor.Run
	proj blastdoor.Projection // as stored
	sum  [16]byte             // of all that decides on its future but the timers
	// timers are when it expires, stops being fresh and is looked at again.
	timers [3]time.Time
}

// hand is what a worker holds between reading the world and committing.
type hand struct {
	snapshot *version // nil: an empty hand
	effect   engine.EffectKind
	cmd      engine.Command
	write    bool // the last look is done; the write is next
	sum      [16]byte
	frozen   bool  // at the look, whatever the verifier was told
	world    world // at the look
}

// environment is the model of where writes land.
type environment struct {
	world
	ledger  []string // keys, in order
	transit []write  // writes that have been sent and have not arrived
}

type write struct {
	key      string
	expected int // version of the target
}

// entry is one event of the common history.
type entry struct {
	event blastdoor.Event
	prev  *entry
	n     int
}

// history returns all events in the order of their commits.
func (s *state) history() []blastdoor.Event {
	if s.log == nil {
		return nil
	}
	out := make([]blastdoor.Event, s.log.n)
	for e := s.log; e != nil; e = e.prev {
		out[e.n-1] = e.event
	}
	return out
}

// newVersion derives what is needed of a run again and again.
func newVersion(run blastdoor.Run, proj blastdoor.Projection) *version {
	v := &version{run: run, proj: proj}
	var b printer
	b.text(run.PolicyDigest, string(run.Outcome))
	b.number(run.Writes)
	for i := range run.Steps {
		b.step(&run.Steps[i])
	}
	if step := run.Current(); step != nil && !run.Ended() {
		if a := step.Approval; a != nil {
			v.timers[0] = a.ExpiresAt
		}
		if in := step.Intent; in != nil {
			v.timers[1], v.timers[2] = in.FreshUntil, in.RetryAt
		}
	}
	v.sum = b.sum()
	return v
}

// printer writes what tells one state from another. Left out is what no decision
// reads: lengths, sentences for people, and when something happened.
type printer struct{ buf []byte }

func (b *printer) text(list ...string) {
	for _, s := range list {
		b.number(len(s))
		b.buf = append(b.buf, s...)
	}
}

func (b *printer) number(n int) { b.buf = binary.AppendVarint(b.buf, int64(n)) }

func (b *printer) flag(flags ...bool) {
	for _, f := range flags {
		n := byte(0)
		if f {
			n = 1
		}
		b.buf = append(b.buf, n)
	}
}

func (b *printer) sum() [16]byte {
	sum := sha256.Sum256(b.buf)
	return [16]byte(sum[:16])
}

func (b *printer) step(s *blastdoor.StepState) {
	b.text(string(s.Status), s.PlanHash)
	b.number(s.Plans)
	b.flag(s.Proposal != nil, s.Verdict != nil, s.Approval != nil, s.Intent != nil, s.Receipt != nil, s.Undone)
	if s.Verdict != nil {
		b.verdict(*s.Verdict)
	}
	if a := s.Approval; a != nil {
		b.text(a.ID, a.PlanHash, string(a.Status))
		b.number(a.Quorum)
		b.number(a.Approvers.Quorum)
		b.flag(a.ConsumedAt.IsZero())
		b.number(len(a.Votes))
		for _, v := range a.Votes {
			b.text(v.By.UserID)
		}
	}
	if in := s.Intent; in != nil {
		b.text(in.Key, in.PlanHash)
		b.number(in.Doubts)
	}
	if s.Receipt != nil {
		b.text(s.Receipt.Key)
	}
}

func (b *printer) verdict(v blastdoor.Verdict) {
	b.text(string(v.Decision))
	b.number(len(v.Reasons))
	for _, r := range v.Reasons {
		b.text(string(r.Code), string(r.Effect), r.Text)
	}
}

func (b *printer) hand(h *hand, current *version) {
	b.flag(h.snapshot != nil, h.snapshot == current, h.write)
	if h.snapshot != nil {
		b.buf = append(b.buf, h.sum[:]...)
		if h.snapshot != current {
			b.buf = append(b.buf, h.snapshot.sum[:]...)
		}
	}
}

// left is how far a timer is away; a timer that has run out, or that nothing has
// set, is zero.
func (s *state) left(t time.Time) int { return max(0, int(t.Sub(at(s.now))/time.Second)) }

// fingerprint is the canonical form of a state, hashed. Two states with one
// fingerprint have the same future, up to sequence numbers and the time of day.
func (s *state) fingerprint(b *printer) [16]byte {
	b.buf = b.buf[:0]
	for run := range s.runs {
		v := s.runs[run]
		b.flag(v != nil)
		if v != nil {
			b.buf = append(b.buf, v.sum[:]...)
			for _, t := range v.timers {
				b.number(s.left(t))
			}
		}
		b.hand(&s.hands[run], v)
		b.hand(&s.stale[run], v)
	}
	b.number(s.env.version)
	b.flag(s.env.edge, s.rules.frozen, s.rules.strict)
	b.text(s.env.ledger...)
	b.number(len(s.env.transit))
	for _, w := range s.env.transit {
		b.text(w.key)
		b.number(w.expected)
	}
	b.number(s.disturbed)
	b.text(s.consumed...)
	return b.sum()
}

// reach lets a write arrive: the environment's own transaction.
func (e *environment) reach(w write, f flaws) (landed, moved bool) {
	if !f.naive && !f.ignoresKey && slices.Contains(e.ledger, w.key) {
		return false, false
	}
	if !f.naive && e.version != w.expected {
		return false, true
	}
	e.ledger = append(slices.Clip(e.ledger), w.key)
	if !f.naive {
		e.version++
	}
	return true, false
}

// lookup says what became of a key. A write on its way is unknown: to say "not
// applied" would be a guess.
func (e *environment) lookup(key string, f flaws) blastdoor.Outcome {
	switch {
	case f.naive || f.ignoresKey:
		return blastdoor.OutcomeNotApplied
	case slices.Contains(e.ledger, key):
		return blastdoor.OutcomeApplied
	case !f.guesses && slices.ContainsFunc(e.transit, func(w write) bool { return w.key == key }):
		return blastdoor.OutcomeUnknown
	default:
		return blastdoor.OutcomeNotApplied
	}
}
