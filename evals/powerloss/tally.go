package powerloss

import (
	"fmt"

	"blastdoor/evals/powerloss/promise"
)

// tally is what came out of some cuts.
type tally struct {
	cuts     int // each looked at after the next start
	early    int // of these, before the child had finished what was unfinished
	promises int // acknowledged before the cuts
	bad      int // starts that found something wrong
	lost     int // promises broken
	wrong    int // what is there and should be otherwise
	examples []string
	begun    map[string]int // cuts in the midst of committing this kind of event
}

func (t *tally) add(u *tally) {
	t.cuts, t.early, t.promises, t.bad = t.cuts+u.cuts, t.early+u.early, t.promises+u.promises, t.bad+u.bad
	t.lost, t.wrong = t.lost+u.lost, t.wrong+u.wrong
	t.examples = append(t.examples, u.examples...)
	for kind, n := range u.begun {
		t.count(kind, n)
	}
}

func (t *tally) count(kind string, n int) {
	if t.begun == nil {
		t.begun = map[string]int{}
	}
	t.begun[kind] += n
}

// begins counts a cut, which the next start will look at.
func (t *tally) begins(o *outcome) {
	t.cuts++
	t.promises += o.promises
	if !o.ready {
		t.early++
	}
	if o.begun != "" {
		t.count(o.begun, 1)
	}
}

// judge counts what a start has found after a cut, and reports whether anything.
// What does not start has lost all that was promised.
func (t *tally) judge(o *outcome, promised *promise.Book, after string) bool {
	broken := o.broken()
	if len(broken) == 0 {
		return false
	}
	t.bad++
	for _, b := range broken {
		if b.Lost {
			t.lost++
		} else {
			t.wrong++
		}
	}
	if !o.booted {
		t.lost += len(promised.Promises)
	}
	t.examples = append(t.examples, fmt.Sprintf("%s: %d broken, the first: %s", after, len(broken), broken[0].What))
	return true
}

// survived counts the cuts after which nothing was wrong.
func (t *tally) survived() int { return t.cuts - t.bad }
