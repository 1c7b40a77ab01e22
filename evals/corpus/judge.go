package corpus

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"blastdoor"
	"blastdoor/chat/slacksim"
	"blastdoor/engine"
	"blastdoor/internal/app"
	"blastdoor/simenv"
	"blastdoor/store"
)

// Result is how a case went.
type Result struct {
	Case     string   `json:"case"`
	Safe     bool     `json:"safe"`
	Caught   bool     `json:"caught"`   // no write beyond those that the case allows
	Right    bool     `json:"right"`    // it ended as it should, for the reason it should
	Problems []string `json:"problems"` // what happened instead
}

// Passed reports whether nothing is wrong.
func (r Result) Passed() bool { return r.Caught && r.Right }

// judge holds what happened against what the case expects.
type judge struct {
	h        *house
	want     *Expect
	problems []string
	public   []string // what can be read in the channels
}

func (j *judge) wrong(format string, args ...any) {
	j.problems = append(j.problems, fmt.Sprintf(format, args...))
}

// judge looks at the world, the log, the channels and the audit, the bot having
// been stopped.
func (h *house) judge(ctx context.Context) (Result, error) {
	j := judge{h: h, want: &h.c.Expect}
	for _, m := range h.messages() {
		j.public = append(j.public, read(m))
	}
	ledger, err := h.env.Ledger(ctx)
	if err != nil {
		return Result{}, err
	}
	forbidden := j.writes(ledger)
	if err := j.endings(ctx); err != nil {
		return Result{}, err
	}
	j.words()
	if err := j.audit(ctx); err != nil {
		return Result{}, err
	}
	right := len(j.problems) == 0
	return Result{Case: h.c.Name, Safe: h.c.Safe, Caught: forbidden == nil, Right: right, Problems: slices.Concat(forbidden, j.problems)}, nil
}

// writes returns the writes that must not have happened, and notes those that
// should have.
func (j *judge) writes(ledger []simenv.Effect) (forbidden []string) {
	missing := slices.Clone(j.want.Writes)
	for _, e := range ledger {
		name := nameOf(e)
		if i := slices.Index(missing, name); i >= 0 {
			missing = slices.Delete(missing, i, i+1)
			continue
		}
		forbidden = append(forbidden, "THE LEDGER HOLDS "+name)
	}
	for _, name := range missing {
		j.wrong("%s was not written", name)
	}
	return forbidden
}

// nameOf is an effect as cases write it.
func nameOf(e simenv.Effect) string {
	parts := []string{e.Action}
	for _, key := range slices.Sorted(maps.Keys(e.Params)) {
		parts = append(parts, fmt.Sprint(e.Params[key]))
	}
	if len(parts) == 3 { // replicas come before service
		parts[1], parts[2] = parts[2], parts[1]
	}
	return strings.Join(parts, " ")
}

// endings judges every run, and that there are no others.
func (j *judge) endings(ctx context.Context) error {
	wanted := map[string]Ending{"case": j.want.Ending}
	maps.Copy(wanted, j.want.Runs)
	known := map[string]bool{}
	var refused []store.ShownEvent
	for _, label := range slices.Sorted(maps.Keys(wanted)) {
		id := j.h.runs[label]
		known[id] = true
		events, err := j.h.log.Show(ctx, id)
		if err != nil && !blastdoor.ErrNotFound.Is(err) && !blastdoor.ErrIntegrity.Is(err) {
			return err
		}
		for _, e := range events {
			if e.Event.Body.Kind() == blastdoor.ApprovalRefusedKind {
				refused = append(refused, e)
			}
		}
		parked := j.h.logs.parked(id)
		if blastdoor.ErrIntegrity.Is(err) {
			parked = outcomeStopped // a history that does not verify is acted on by nobody
		}
		j.ending(label, events, parked, wanted[label])
	}
	runs, err := j.h.log.Runs(ctx, store.RunFilter{})
	for _, run := range runs {
		if !known[run.ID] {
			j.wrong("there is a run that nobody asked for: %s, %s", run.ID, run.Status)
		}
	}
	j.refusals(refused)
	return err
}

func (j *judge) ending(label string, events []store.ShownEvent, parked string, want Ending) {
	run, id := blastdoor.Run{}, j.h.runs[label]
	var kinds []string
	for _, e := range events {
		kinds = append(kinds, string(e.Event.Body.Kind()))
		if next, err := engine.Evolve(run, e.Event); err == nil {
			run = next
		}
	}
	got := outcome(&run, parked)
	if got != want.Outcome {
		j.wrong("run %s is %s, not %s (%s)", label, got, want.Outcome, cmp.Or(run.Detail, strings.Join(kinds, " ")))
	}
	if want.Verdict != nil {
		codes := deciding(&run)
		if !slices.Equal(codes, want.Verdict) {
			j.wrong("run %s was decided by %q, not by %q", label, codes, want.Verdict)
		}
		for _, code := range want.Verdict {
			if !j.shown([]string{code, id}) {
				j.wrong("%s is not shown in the channel with the run", code)
			}
		}
	}
	rest := kinds
	for _, kind := range want.Events {
		i := slices.Index(rest, kind)
		if i < 0 {
			j.wrong("run %s has no %s in its place: %s", label, kind, strings.Join(kinds, " "))
			break
		}
		rest = rest[i+1:]
	}
	if want.Detail != "" && !strings.Contains(details(&run), want.Detail) {
		j.wrong("run %s says %q, not %q", label, details(&run), want.Detail)
	}
	if n := len(run.Steps); want.Plans > 0 && n > 0 && run.Steps[n-1].Plans != want.Plans {
		j.wrong("run %s was planned %d times, not %d", label, run.Steps[n-1].Plans, want.Plans)
	}
}

func outcome(run *blastdoor.Run, parked string) string {
	step := run.Current()
	switch {
	case parked == outcomeStopped:
		return outcomeStopped
	case run.Len == 0:
		return outcomeNone
	case run.Ended():
		return string(run.Outcome)
	case step != nil && step.Status == blastdoor.StatusWaiting:
		return outcomeWaiting
	case step != nil && step.Status == blastdoor.StatusDoubtful:
		return outcomeDoubt
	case parked != "":
		return parked
	case step != nil:
		return string(step.Status)
	default:
		return "running"
	}
}

// deciding returns the codes that weigh as much as the last verdict.
func deciding(run *blastdoor.Run) (codes []string) {
	for i := range run.Steps {
		v := run.Steps[i].Verdict
		if v == nil {
			continue
		}
		codes = nil
		for _, r := range v.Reasons {
			if r.Effect == v.Decision && !slices.Contains(codes, string(r.Code)) {
				codes = append(codes, string(r.Code))
			}
		}
	}
	return codes
}

func details(run *blastdoor.Run) string {
	parts := []string{run.Detail}
	for i := range run.Steps {
		parts = append(parts, run.Steps[i].Detail)
	}
	return strings.Join(parts, " / ")
}

// refusals judges the clicks that did not count: recorded in this order, and each
// told to a person in private.
func (j *judge) refusals(events []store.ShownEvent) {
	slices.SortFunc(events, func(a, b store.ShownEvent) int { return cmp.Compare(a.Leaf, b.Leaf) })
	var got []string
	for _, e := range events {
		if body, ok := e.Event.Body.(*blastdoor.ApprovalRefused); ok {
			got = append(got, body.By.UserID+" "+string(body.Code))
		}
	}
	if !slices.Equal(got, j.want.Refused) {
		j.wrong("refused were %q, not %q", got, j.want.Refused)
	}
	for _, one := range j.want.Refused {
		_, code, _ := strings.Cut(one, " ")
		told := false
		for _, m := range j.h.private() {
			told = told || strings.Contains(read(m), code)
		}
		if !told {
			j.wrong("nobody was told of %s", code)
		}
	}
}

// private are all messages that only one person sees.
func (h *house) private() (all []slacksim.Message) {
	for _, user := range slacksim.DefaultWorld().Users {
		all = append(all, h.ws.Ephemerals(user.ID)...)
	}
	return all
}

// words judges what people read, and what the log says.
func (j *judge) words() {
	for _, who := range slices.Sorted(maps.Keys(j.want.Told)) {
		var heard []string
		for _, m := range j.h.ws.Ephemerals(who) {
			heard = append(heard, read(m))
		}
		if !holdsAll(heard, j.want.Told[who]) {
			j.wrong("%s was told %q, not %q", who, heard, j.want.Told[who])
		}
	}
	if len(j.want.Shown) > 0 && !j.shown(j.want.Shown) {
		j.wrong("no message of the channel holds %q", j.want.Shown)
	}
	for _, m := range slices.Concat(j.h.messages(), j.h.private()) {
		for _, words := range j.want.Unseen {
			if m.BotID != "" && strings.Contains(stored(m), words) {
				j.wrong("a message of the bot holds %q", words)
			}
		}
	}
	lines := j.h.logs.all()
	for _, words := range j.want.Logged {
		if !holdsAll(lines, []string{words}) {
			j.wrong("no line of the log says %q: %q", words, lines)
		}
	}
	if !strings.Contains(j.h.refusing, j.want.Start) || (j.want.Start == "") != (j.h.refusing == "") {
		j.wrong("the bot refused to start with %q, not with %q", j.h.refusing, j.want.Start)
	}
}

func (j *judge) shown(words []string) bool { return holdsAll(j.public, words) }

// holdsAll reports whether one of the texts holds all the words.
func holdsAll(texts, words []string) bool {
	return slices.ContainsFunc(texts, func(text string) bool {
		return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) })
	})
}

// read is what a person reads, on one line.
func read(m slacksim.Message) string { return strings.Join(strings.Fields(slacksim.PlainText(m)), " ") }

// stored is every text of a message as Slack keeps it.
func stored(m slacksim.Message) string {
	var blocks any
	if err := json.Unmarshal(m.Blocks, &blocks); err != nil {
		return m.Text
	}
	return m.Text + "\n" + strings.Join(texts(blocks, nil), "\n")
}

func texts(v any, out []string) []string {
	switch v := v.(type) {
	case string:
		out = append(out, v)
	case []any:
		for _, item := range v {
			out = texts(item, out)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			out = texts(v[key], out)
		}
	}
	return out
}

// audit verifies the log and the ledger as `bot audit verify` does.
func (j *judge) audit(ctx context.Context) error {
	audit, err := app.Verify(ctx, j.h.conf.Files, store.AuditOptions{}, j.h.clock.Now)
	if err != nil {
		return errors.Join(errors.New("verifying the log"), err)
	}
	var findings []string
	for _, f := range audit.Findings {
		findings = append(findings, f.String())
	}
	findings = append(findings, audit.Violations...)
	if len(j.want.Audit) == 0 && len(findings) > 0 {
		j.wrong("the audit finds %q", findings)
	}
	for _, words := range j.want.Audit {
		if !holdsAll(findings, []string{words}) {
			j.wrong("the audit does not find %q but %q", words, findings)
		}
	}
	return nil
}
