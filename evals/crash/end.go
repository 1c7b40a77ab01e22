package crash

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"blastdoor"
	"blastdoor/chat/slacksim"
	"blastdoor/engine"
	"blastdoor/internal/app"
	"blastdoor/simenv"
	"blastdoor/store"
)

// end is everything that is left of a case, without what differs between any two
// runs: ids, hashes and times.
type end struct {
	environment []string // hosts and services
	ledger      []string // effects
	run         []string // outcome, steps, and the history without refused clicks
	messages    []string // in the channel, in any order
	whispers    []string // private ones, each once: an answer may be sent twice

	duplicates int  // writes beyond one a step, or under one key
	doubled    int  // run cards beyond one
	granted    bool // the log has an approval
	completed  bool
}

// gather looks at what is left of a case. What does not verify is part of the end.
func (s *stage) gather(ctx context.Context) (end, error) {
	var e end
	err := errors.Join(e.readEnvironment(ctx, s.files), e.readRun(ctx, s.files))
	messages := s.ws.Messages(channel)
	for _, m := range messages {
		e.messages = append(e.messages, plain(slacksim.PlainText(m)))
	}
	slices.Sort(e.messages)
	e.doubled = max(0, count(messages, isRunCard)-1)
	for _, who := range []string{"alice", "bob"} {
		for _, m := range s.ws.Ephemerals(who) {
			e.whispers = append(e.whispers, plain(slacksim.PlainText(m)))
		}
	}
	slices.Sort(e.whispers)
	e.whispers = slices.Compact(e.whispers)
	return e, err
}

func (e *end) readEnvironment(ctx context.Context, files app.Files) error {
	env, err := simenv.Open(ctx, files.World(), simenv.Options{Now: time.Now})
	if err != nil {
		return err
	}
	defer func() { _ = env.Close() }() // it was only read
	world, err := env.Snapshot(ctx)
	if err != nil {
		return err
	}
	e.environment = []string{string(world)}
	effects, err := env.Ledger(ctx)
	keys, whats := map[string]bool{}, map[string]bool{}
	for _, f := range effects {
		what := fmt.Sprintf("%s %v: %s", f.Action, f.Params, f.Summary)
		e.ledger = append(e.ledger, what)
		if keys[f.Key] || whats[fmt.Sprint(f.Action, f.Params)] {
			e.duplicates++
		}
		keys[f.Key], whats[fmt.Sprint(f.Action, f.Params)] = true, true
	}
	return err
}

func (e *end) readRun(ctx context.Context, files app.Files) error {
	audit, err := app.Verify(ctx, files, store.AuditOptions{}, time.Now)
	if err != nil {
		return err
	}
	for _, finding := range audit.Findings {
		e.run = append(e.run, "audit: "+finding.String())
	}
	for _, violation := range audit.Violations {
		e.run = append(e.run, "audit: "+violation)
	}
	log, err := store.OpenReadOnly(ctx, files.Store(), store.Options{Now: time.Now})
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // it was only read
	for p, err := range log.Projections(ctx) {
		if err != nil {
			return err
		}
		shown, err := log.Show(ctx, p.Run.ID)
		if err != nil {
			return err
		}
		if err := e.addRun(shown); err != nil {
			return err
		}
	}
	return nil
}

func (e *end) addRun(shown []store.ShownEvent) error {
	var history []blastdoor.Event
	var kinds []string
	for _, s := range shown {
		history = append(history, s.Event)
		switch kind := s.Event.Body.Kind(); kind {
		case blastdoor.ApprovalRefusedKind: // a person who saw an error clicks again
		case blastdoor.ApprovalGrantedKind:
			e.granted = true
			fallthrough
		default:
			kinds = append(kinds, strings.TrimSpace(s.Event.Step+" "+string(kind)))
		}
	}
	run, err := engine.Fold(history)
	if err != nil {
		return err
	}
	e.completed = run.Outcome == blastdoor.RunCompleted
	e.run = append(e.run, fmt.Sprintf("%s: %s, %d writes", run.Runbook, run.Outcome, run.Writes))
	for i := range run.Steps {
		step := &run.Steps[i]
		line := fmt.Sprintf("step %s: %s, %d plans", step.Step.ID, step.Status, step.Plans)
		if a := step.Approval; a != nil {
			line += fmt.Sprintf(", approval %s with %d of %d votes", a.Status, len(a.Votes), a.Quorum)
		}
		e.run = append(e.run, line)
	}
	e.run = append(e.run, kinds...)
	return nil
}

// against says how an end differs from the end of an uninterrupted run; nothing
// when it does not. A person who had to act twice may also be told that it was
// decided already.
func (e *end) against(want *end) []string {
	var out []string
	out = append(out, differences("environment", want.environment, e.environment)...)
	out = append(out, differences("ledger", want.ledger, e.ledger)...)
	out = append(out, differences("run", want.run, e.run)...)
	out = append(out, differences("messages", want.messages, e.messages)...)
	told := slices.DeleteFunc(slices.Clone(e.whispers), func(text string) bool { return strings.Contains(text, "`not_pending`") })
	return append(out, differences("private messages", want.whispers, told)...)
}

// differences names the first line that differs.
func differences(what string, want, got []string) []string {
	for i := range max(len(want), len(got)) {
		w, g := "nothing", "nothing"
		if i < len(want) {
			w = want[i]
		}
		if i < len(got) {
			g = got[i]
		}
		if w != g {
			return []string{fmt.Sprintf("%s, line %d: want %s\n      got %s", what, i+1, w, g)}
		}
	}
	return nil
}

// plain is a message without what differs between any two runs: who wrapped which
// line, ids, hashes, times, whether it was edited on the way, and whether the
// environment was asked twice under one key.
func plain(text string) string {
	text = bar.ReplaceAllString(text, "")
	text = strings.Join(strings.Fields(text), " ")
	for _, rule := range []struct {
		pattern *regexp.Regexp
		word    string
	}{
		{heading, "$1"}, {runID, "RUN"}, {moment, "TIME"}, {hash, "HASH"}, {shortHash, "`HASH`"}, {replayed, ""},
	} {
		text = rule.pattern.ReplaceAllString(text, rule.word)
	}
	return text
}

var (
	bar       = regexp.MustCompile(`(?m)^\s*[│┊▏]\s*`)
	heading   = regexp.MustCompile(`^(\S+ \(app\)) · \d\d:\d\d`)
	runID     = regexp.MustCompile(`tidy-up-[a-z2-7]{8}`)
	moment    = regexp.MustCompile(`(today|yesterday|tomorrow) at \d\d:\d\d UTC`)
	hash      = regexp.MustCompile(`sha256:[0-9a-f]{64}`)
	shortHash = regexp.MustCompile("`[0-9a-f]{8}`")
	replayed  = regexp.MustCompile(` \(it had happened before under the same key; it was not done twice\)| · edited`)
)
