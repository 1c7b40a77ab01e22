package engine

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"blastdoor"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var (
	noon  = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	alice = blastdoor.Principal{UserID: "U0ALICE", TeamID: "T0ACME", Verified: true}
	bob   = blastdoor.Principal{UserID: "U0BOB", TeamID: "T0ACME", Verified: true}
	sre   = blastdoor.Approvers{Users: []string{"U0BOB", "U0CAROL"}, Quorum: 1}
	card  = blastdoor.MessageRef{Channel: "C0OPS", TS: "1700000000.000001"}
	allow = blastdoor.Verdict{Decision: blastdoor.Allow, Reasons: []blastdoor.Reason{{Code: blastdoor.WithinPolicy, Effect: blastdoor.Allow}}}
	asks  = blastdoor.Verdict{Decision: blastdoor.NeedsApproval, Reasons: []blastdoor.Reason{{Code: blastdoor.ProtectedResource, Effect: blastdoor.NeedsApproval}}}
	never = blastdoor.Verdict{Decision: blastdoor.Deny, Reasons: []blastdoor.Reason{{Code: blastdoor.ChangeFreeze, Effect: blastdoor.Deny}}}
)

const aliveTTL = 15 * time.Minute

// sealedPlan is a small sealed write of the step "write".
func sealedPlan(t *testing.T, edit func(*blastdoor.Plan)) Sealed {
	t.Helper()
	plan := blastdoor.Plan{RunID: "r", StepID: "write", Action: "restart_service", Kind: blastdoor.Write,
		Params: blastdoor.Params{"service": "db"}, Targets: []string{"db"},
		Changes:  []blastdoor.Change{{Target: "db", Field: "restarts", Before: "0", After: "1"}},
		Radius:   blastdoor.Radius{Direct: []string{"db"}, Dependents: []string{"api"}, Complete: true},
		Versions: map[string]string{"db": "1"}}
	if edit != nil {
		edit(&plan)
	}
	hash, err := plan.Hash()
	require.NoError(t, err)
	return Sealed{Plan: plan, Hash: hash, GraphAsOf: noon}
}

func withCheck(p *blastdoor.Plan) { p.Check = &blastdoor.Check{Metric: "error_rate_pct"} }
func withRollback(p *blastdoor.Plan) {
	withCheck(p)
	p.Rollback = &blastdoor.Rollback{Action: "scale_service"}
}
func asRead(p *blastdoor.Plan) { p.Kind = blastdoor.Read }

// script builds a run by deciding commands one after another.
type script struct {
	t   *testing.T
	run blastdoor.Run
}

func newScript(t *testing.T) *script {
	s := &script{t: t}
	s.do(Request{RunID: "r", Body: blastdoor.RunRequested{Runbook: "rb", Requester: alice, Channel: "C0OPS",
		Steps: []blastdoor.Step{{ID: "write", Action: "restart_service"}, {ID: "later", Action: "restart_service"}}}}, noon)
	return s
}

func (s *script) do(cmd Command, now time.Time) *script {
	s.t.Helper()
	events, err := Decide(s.run, cmd, now)
	require.NoError(s.t, err)
	for _, e := range events {
		s.run, err = Evolve(s.run, e)
		require.NoError(s.t, err)
	}
	return s
}

func (s *script) planned(edit func(*blastdoor.Plan)) *script {
	return s.do(Propose{blastdoor.Proposal{StepID: "write", Confidence: 1}}, noon).do(Seal{sealedPlan(s.t, edit)}, noon)
}

func (s *script) judged(v blastdoor.Verdict, edit func(*blastdoor.Plan)) *script {
	return s.planned(edit).do(Judge{Judgement{Verdict: v}}, noon)
}

func (s *script) waiting(edit func(*blastdoor.Plan)) *script {
	return s.judged(asks, edit).do(Ask{Approvers: sre, TTL: aliveTTL}, noon)
}

func (s *script) click(approve bool) Vote {
	approval := s.run.Current().Approval
	return Vote{Click: blastdoor.Click{RunID: "r", ApprovalID: approval.ID, PlanHash: approval.PlanHash, Approve: approve, Message: card},
		Person: bob, Current: sre, Stored: card}
}

func (s *script) approved(edit func(*blastdoor.Plan)) *script {
	s.waiting(edit)
	return s.do(s.click(true), noon)
}

func (s *script) intended(edit func(*blastdoor.Plan)) *script {
	s.approved(edit)
	return s.do(Recheck{Sealed: sealedPlan(s.t, edit), Judgement: Judgement{Verdict: asks}, TTL: aliveTTL}, noon)
}

func (s *script) applied(edit func(*blastdoor.Plan)) *script {
	return s.intended(edit).do(Outcome{Receipt: blastdoor.Receipt{Key: "k"}}, noon)
}

// states returns a run in every status that a step can be in.
func states(t *testing.T) map[blastdoor.StepStatus]blastdoor.Run {
	failedCheck := CheckResult{Before: 1, After: 2}
	at := map[blastdoor.StepStatus]*script{
		blastdoor.StatusPending:    newScript(t),
		blastdoor.StatusProposed:   newScript(t).do(Propose{blastdoor.Proposal{StepID: "write"}}, noon),
		blastdoor.StatusPlanned:    newScript(t).planned(nil),
		blastdoor.StatusAllowed:    newScript(t).judged(allow, nil),
		blastdoor.StatusAsking:     newScript(t).judged(asks, nil),
		blastdoor.StatusWaiting:    newScript(t).waiting(nil),
		blastdoor.StatusApproved:   newScript(t).approved(nil),
		blastdoor.StatusIntended:   newScript(t).intended(nil),
		blastdoor.StatusDoubtful:   newScript(t).intended(nil).do(Resolve{}, noon),
		blastdoor.StatusChecking:   newScript(t).applied(withCheck),
		blastdoor.StatusUndoing:    newScript(t).applied(withRollback).do(failedCheck, noon),
		blastdoor.StatusReverting:  newScript(t).applied(withRollback).do(failedCheck, noon).do(IntendRollback{}, noon),
		blastdoor.StatusEscalating: newScript(t).applied(withCheck).do(failedCheck, noon),
		blastdoor.StatusDone:       newScript(t).applied(nil),
		blastdoor.StatusDenied:     newScript(t).judged(never, nil),
		blastdoor.StatusFailed: newScript(t).intended(nil).
			do(Outcome{Err: blastdoor.Errorf(blastdoor.ErrWorldMoved, "moved")}, noon),
		blastdoor.StatusRolledBack: newScript(t).applied(withRollback).do(failedCheck, noon).do(IntendRollback{}, noon).
			do(RollbackResult{}, noon).do(Escalate{}, noon),
	}
	declined := newScript(t).waiting(nil)
	at[blastdoor.StatusDeclined] = declined.do(declined.click(false), noon)
	at[blastdoor.StatusExpired] = newScript(t).waiting(nil).do(Finish{}, noon.Add(aliveTTL))
	at[blastdoor.StatusCancelled] = newScript(t).waiting(nil).do(Cancel{By: alice}, noon)
	doubtful := newScript(t).intended(nil)
	for range MaxDoubts {
		doubtful.do(Resolve{}, noon)
	}
	at[blastdoor.StatusInDoubt] = doubtful.do(Finish{}, noon)
	at[blastdoor.StatusSkipped] = at[blastdoor.StatusInDoubt] // seen on the second step
	runs := map[blastdoor.StepStatus]blastdoor.Run{}
	for status, s := range at {
		runs[status] = s.run
	}
	return runs
}

func statusIn(run blastdoor.Run, want blastdoor.StepStatus) blastdoor.StepStatus {
	if want == blastdoor.StatusSkipped {
		return run.Steps[1].Status
	}
	return run.Steps[0].Status
}

// commandsFor is every kind of command with every answer that matters, aimed at a run.
func commandsFor(t *testing.T, run blastdoor.Run) []struct {
	name string
	cmd  Command
} {
	same, other := sealedPlan(t, nil), sealedPlan(t, func(p *blastdoor.Plan) { p.Versions["db"] = "2" })
	vote := Vote{Person: bob, Current: sre, Stored: card, Click: blastdoor.Click{Message: card, Approve: true}}
	if a := run.Steps[0].Approval; a != nil {
		vote.Click.ApprovalID, vote.Click.PlanHash = a.ID, a.PlanHash
	}
	decline := vote
	decline.Click.Approve = false
	own := vote
	own.Person = alice
	withdraw := decline
	withdraw.Person = alice
	judged := func(s Sealed, v blastdoor.Verdict) Recheck {
		return Recheck{Sealed: s, Judgement: Judgement{Verdict: v}, TTL: aliveTTL, Quorum: 1}
	}
	again := func(s Sealed, v blastdoor.Verdict) Resolve {
		return Resolve{Outcome: blastdoor.OutcomeNotApplied, Sealed: s, Judgement: Judgement{Verdict: v}}
	}
	return []struct {
		name string
		cmd  Command
	}{
		{"request", Request{RunID: "r"}},
		{"propose", Propose{}},
		{"seal", Seal{same}},
		{"judge: allow", Judge{Judgement{Verdict: allow}}},
		{"judge: ask", Judge{Judgement{Verdict: asks}}},
		{"judge: deny", Judge{Judgement{Verdict: never}}},
		{"ask", Ask{Approvers: sre, TTL: aliveTTL}},
		{"approve", vote},
		{"approve own", own},
		{"decline", decline},
		{"decline own", withdraw},
		{"cancel by requester", Cancel{By: alice}},
		{"cancel by another", Cancel{By: bob}},
		{"recheck: same plan, allow", judged(same, allow)},
		{"recheck: same plan, ask", judged(same, asks)},
		{"recheck: same plan, deny", judged(same, never)},
		{"recheck: other plan", judged(other, allow)},
		{"recheck: larger quorum", Recheck{Sealed: same, Judgement: Judgement{Verdict: allow}, TTL: aliveTTL, Quorum: 2}},
		{"resolve: applied", Resolve{Outcome: blastdoor.OutcomeApplied}},
		{"resolve: not applied, same plan", again(same, asks)},
		{"resolve: not applied, other plan", again(other, allow)},
		{"resolve: not applied, denied", again(same, never)},
		{"resolve: unknown", Resolve{}},
		{"outcome: applied", Outcome{}},
		{"outcome: world moved", Outcome{Err: blastdoor.Errorf(blastdoor.ErrWorldMoved, "moved")}},
		{"outcome: any other error", Outcome{Err: errors.New("connection reset")}},
		{"observe", Observe{}},
		{"observe: error", Observe{Err: errors.New("no such service")}},
		{"check: passed", CheckResult{Passed: true}},
		{"check: failed", CheckResult{}},
		{"check: inconclusive", CheckResult{Inconclusive: "no data"}},
		{"intend rollback", IntendRollback{}},
		{"rollback: done", RollbackResult{}},
		{"rollback: error", RollbackResult{Err: errors.New("refused")}},
		{"escalate", Escalate{}},
		{"finish", Finish{}},
	}
}

// TestMatrix holds every state against every command, every event and Next, in a
// golden file: a new state or event cannot be added without deciding all of them.
func TestMatrix(t *testing.T) {
	runs := states(t)
	var b strings.Builder
	for _, status := range blastdoor.StepStatuses() {
		run, ok := runs[status]
		require.True(t, ok, "no run in status %s: decide what it means", status)
		require.Equal(t, status, statusIn(run, status))
		row(t, &b, string(status), run)
	}
	row(t, &b, "allowed, a read", newScript(t).judged(allow, asRead).run)
	golden(t, "matrix.golden", b.String())
}

func row(t *testing.T, b *strings.Builder, title string, run blastdoor.Run) {
	fmt.Fprintf(b, "== %s\n", title)
	early, late := Next(run, noon), Next(run, noon.Add(aliveTTL))
	fmt.Fprintf(b, "next: %s; when the approval has expired: %s\n", early.Kind, late.Kind)
	for _, c := range commandsFor(t, run) {
		fmt.Fprintf(b, "  %s -> %s\n", c.name, decided(run, c.cmd))
	}
	for _, kind := range blastdoor.EventKinds() {
		if to := evolved(run, kind); to != "" {
			fmt.Fprintf(b, "  event %s -> %s\n", kind, to)
		}
	}
}

func decided(run blastdoor.Run, cmd Command) string {
	events, err := Decide(run, cmd, noon.Add(time.Minute))
	if err != nil {
		return string(blastdoor.CodeOf(err))
	}
	if len(events) == 0 {
		return "go on"
	}
	var out []string
	for _, e := range events {
		word := string(e.Body.Kind())
		switch body := e.Body.(type) {
		case *blastdoor.ApprovalRefused:
			word += "(" + string(body.Code) + ")"
		case *blastdoor.RunEnded:
			word += "(" + string(body.Outcome) + ")"
		}
		out = append(out, word)
		if run, err = Evolve(run, e); err != nil {
			return "DECIDED WHAT CANNOT BE FOLDED: " + err.Error()
		}
	}
	return strings.Join(out, ", ")
}

// evolved folds a bare event of the kind into the run's first unfinished step.
func evolved(run blastdoor.Run, kind blastdoor.EventKind) string {
	body, _ := blastdoor.NewBody(kind)
	step := ""
	if current := run.Current(); current != nil {
		step = current.Step.ID
	}
	fill(run, body)
	next, err := Evolve(run, blastdoor.Event{RunID: "r", Seq: run.Len + 1, At: noon, Step: step, Body: body})
	if err != nil {
		return ""
	}
	return describe(next)
}

// fill makes a body refer to the plan and the approval that the run has.
func fill(run blastdoor.Run, body blastdoor.Body) {
	step := run.Current()
	if step == nil {
		return
	}
	approval := blastdoor.Approval{ID: "ap", PlanHash: step.PlanHash}
	if step.Approval != nil {
		approval = *step.Approval
	}
	switch body := body.(type) {
	case *blastdoor.VerdictGiven:
		body.PlanHash, body.Verdict = step.PlanHash, asks
	case *blastdoor.ApprovalRequested:
		body.Approval = approval
	case *blastdoor.ApprovalGranted:
		body.ApprovalID, body.PlanHash = approval.ID, step.PlanHash
	case *blastdoor.ApprovalDeclined:
		body.ApprovalID = approval.ID
	case *blastdoor.ApplyIntended:
		body.PlanHash = step.PlanHash
		if step.Status == blastdoor.StatusApproved {
			body.ApprovalID = approval.ID
		}
	case *blastdoor.RunEnded:
		body.Outcome = blastdoor.RunCancelled
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}
