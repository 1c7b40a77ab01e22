package engine

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"blastdoor"
)

// history returns the events of a whole approved run, to be broken on purpose.
func history(t *testing.T) []blastdoor.Event {
	var events []blastdoor.Event
	run := blastdoor.Run{}
	do := func(cmd Command) {
		more, err := Decide(run, cmd, noon)
		require.NoError(t, err)
		for _, e := range more {
			events = append(events, e)
			run, err = Evolve(run, e)
			require.NoError(t, err)
		}
	}
	sealed := sealedPlan(t, nil)
	do(Request{RunID: "r", Body: blastdoor.RunRequested{Requester: alice, Channel: "C0OPS",
		Steps: []blastdoor.Step{{ID: "write", Action: "restart_service"}}}})
	do(Propose{blastdoor.Proposal{StepID: "write"}})
	do(Seal{sealed})
	do(Judge{Judgement{Verdict: asks}})
	do(Ask{Approvers: sre, TTL: aliveTTL})
	approval := run.Current().Approval
	do(Vote{Person: bob, Current: sre, Stored: card, Click: blastdoor.Click{ApprovalID: approval.ID, PlanHash: approval.PlanHash, Approve: true, Message: card}})
	do(Recheck{Sealed: sealed, Judgement: Judgement{Verdict: asks}, TTL: aliveTTL})
	do(Outcome{Receipt: blastdoor.Receipt{Key: run.Current().Intent.Key}})
	do(Finish{})
	return events
}

func keyOf(events []blastdoor.Event) string {
	for _, e := range events {
		if intent, ok := e.Body.(*blastdoor.ApplyIntended); ok {
			return intent.Key
		}
	}
	return ""
}

// edit replaces the body of the events of a kind.
func edit[B blastdoor.Body](events []blastdoor.Event, change func(B)) []blastdoor.Event {
	out := slices.Clone(events)
	for i, e := range out {
		if _, ok := e.Body.(B); ok {
			data, _ := e.Canonical()
			copied, _ := blastdoor.ParseEvent(data)
			change(copied.Body.(B))
			out[i].Body = copied.Body
		}
	}
	return out
}

// TestThePropertiesBite breaks each property on purpose: a check that nothing can
// fail shows nothing.
func TestThePropertiesBite(t *testing.T) {
	good := history(t)
	key := keyOf(good)
	require.Empty(t, CheckProperties(Evidence{History: good, Earlier: good[:3], Ledger: []string{key}, Quiet: true}))
	for name, c := range map[string]struct {
		evidence Evidence
		property string
	}{
		"two effects under one key":         {Evidence{History: good, Ledger: []string{key, key}}, "property 1"},
		"an effect without intent":          {Evidence{History: good, Ledger: []string{key, "bd1-other"}}, "property 2"},
		"an effect that never was":          {Evidence{History: good, Ledger: []string{}}, "property 2"},
		"an outcome without intent":         {Evidence{History: edit(good, func(b *blastdoor.Applied) { b.Receipt.Key = "x" })}, "property 2"},
		"an intent of another key":          {Evidence{History: edit(good, func(b *blastdoor.ApplyIntended) { b.Key = "x" })}, "property 3"},
		"an intent of a denied plan":        {Evidence{History: edit(good, func(b *blastdoor.ApplyIntended) { b.Verdict = never })}, "property 3"},
		"an intent without approval":        {Evidence{History: edit(good, func(b *blastdoor.VerdictGiven) { b.Verdict = allow })}, "property"},
		"a vote of the requester":           {Evidence{History: edit(good, func(b *blastdoor.ApprovalGranted) { b.By = alice })}, "property 3"},
		"a vote of a guest":                 {Evidence{History: edit(good, func(b *blastdoor.ApprovalGranted) { b.By.Guest = true })}, "property 3"},
		"an expired approval":               {Evidence{History: edit(good, func(b *blastdoor.ApprovalRequested) { b.Approval.ExpiresAt = noon })}, "property 3"},
		"parameters changed after the seal": {Evidence{History: edit(good, func(b *blastdoor.PlanMade) { b.Plan.Params["service"] = "api" })}, "property 3"},
		"a radius made smaller":             {Evidence{History: edit(good, func(b *blastdoor.PlanMade) { b.Plan.Radius.Dependents = nil })}, "property 3"},
		"a late effect": {Evidence{History: append(slices.Clone(good[:7]), blastdoor.Event{RunID: "r", Seq: 8, Step: "write", Body: &blastdoor.ApplyAbandoned{}},
			blastdoor.Event{RunID: "r", Seq: 9, Step: "write", Body: &blastdoor.RunEnded{Outcome: blastdoor.RunFailed}}), Ledger: []string{key}}, "property 5"},
		"a shorter history":            {Evidence{History: good[:3], Earlier: good}, "property 6"},
		"a changed history":            {Evidence{History: edit(good, func(b *blastdoor.RunRequested) { b.Channel = "C0ELSE" }), Earlier: good}, "property 6"},
		"an event missing":             {Evidence{History: slices.Delete(slices.Clone(good), 2, 3)}, "property 7"},
		"another projection":           {Evidence{History: good, Projections: map[string]blastdoor.Projection{"r": {}}}, "property 7"},
		"a run that is stuck":          {Evidence{History: good[:3], Quiet: true}, "property 8"},
		"a verdict without policy":     {Evidence{History: good, Policies: map[string]blastdoor.Policy{}}, "property 9"},
		"a verdict that was not given": {Evidence{History: good, Policies: map[string]blastdoor.Policy{"": {Name: "empty"}}}, "property 9"},
		"two intents on one target":    {Evidence{History: append(slices.Clone(good[:7]), rename(t, good[:7], "q")...)}, "property 10"},
	} {
		found := CheckProperties(c.evidence)
		require.NotEmpty(t, found, name)
		require.Contains(t, strings.Join(found, "\n"), c.property, name)
	}
}

// rename gives the events another run, with its own key.
func rename(t *testing.T, events []blastdoor.Event, run string) []blastdoor.Event {
	out := edit(events, func(b *blastdoor.ApplyIntended) { b.Key = blastdoor.IdempotencyKey(run, "write", b.PlanHash) })
	for i := range out {
		out[i].RunID = run
	}
	require.NotEmpty(t, out)
	return out
}

// TestEveryEventIsProducedByADecision: an event that nothing decides is dead.
func TestEveryEventIsProducedByADecision(t *testing.T) {
	produced := map[blastdoor.EventKind]bool{blastdoor.RunRequestedKind: true} // by newScript, in every state
	runs := states(t)
	runs["a read"] = newScript(t).judged(allow, asRead).run
	for _, run := range runs {
		for _, c := range commandsFor(t, run) {
			events, err := Decide(run, c.cmd, noon)
			if err != nil {
				continue
			}
			for _, e := range events {
				produced[e.Body.Kind()] = true
			}
		}
	}
	for _, kind := range blastdoor.EventKinds() {
		require.True(t, produced[kind], "no decision produces %s", kind)
	}
}
