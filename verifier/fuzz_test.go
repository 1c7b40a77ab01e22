package verifier_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"blastdoor"
	"blastdoor/verifier"
)

func drawNames(t *rapid.T, label string) []string {
	return rapid.SliceOfN(rapid.SampledFrom([]string{"", "*", "web", "db", "cache", "host-a", "ghost"}), 0, 6).Draw(t, label)
}

func drawPlan(t *rapid.T) *blastdoor.Plan {
	p := &blastdoor.Plan{
		RunID:   rapid.SampledFrom([]string{"", "run-1", "run-2"}).Draw(t, "run"),
		Action:  rapid.SampledFrom([]string{"", "get_metrics", "restart_service", "drain_host"}).Draw(t, "action"),
		Kind:    rapid.SampledFrom([]blastdoor.ActionKind{"", blastdoor.Read, blastdoor.Write, "reed"}).Draw(t, "kind"),
		Targets: drawNames(t, "targets"),
		Radius: blastdoor.Radius{Direct: drawNames(t, "direct"), Dependents: drawNames(t, "dependents"),
			Downstream: drawNames(t, "downstream"), Hosts: drawNames(t, "hosts"), Protected: drawNames(t, "protected"),
			Unknown: drawNames(t, "unknown"), Complete: rapid.Bool().Draw(t, "complete")},
	}
	for range rapid.IntRange(0, 3).Draw(t, "changes") {
		p.Changes = append(p.Changes, blastdoor.Change{Target: "web",
			Field:  rapid.SampledFrom([]string{"", blastdoor.FieldReplicas, "host"}).Draw(t, "field"),
			Before: rapid.SampledFrom([]string{"", "0", "2"}).Draw(t, "before"),
			After:  rapid.SampledFrom([]string{"", "0", "2", "-1", "x"}).Draw(t, "after")})
	}
	if rapid.IntRange(0, 4).Draw(t, "fault") == 0 {
		code := rapid.SampledFrom(append(blastdoor.ReasonCodes(), "", "other")).Draw(t, "fault code")
		p.Fault = &blastdoor.Reason{Code: code, Effect: blastdoor.Allow}
	}
	return p
}

func drawRule(t *rapid.T, label string) blastdoor.Rule {
	return rapid.SampledFrom([]blastdoor.Rule{"", blastdoor.RuleAllow, blastdoor.RuleAsk, blastdoor.RuleDeny, "x"}).Draw(t, label)
}

func drawTime(t *rapid.T, label string) time.Time {
	return rapid.SampledFrom([]time.Time{{}, noon, noon.Add(-time.Hour), noon.Add(time.Hour)}).Draw(t, label)
}

func drawPolicy(t *rapid.T) *blastdoor.Policy {
	small := rapid.IntRange(-2, 8)
	p := &blastdoor.Policy{MaxAffected: small.Draw(t, "max"), ApprovalAbove: small.Draw(t, "threshold"),
		MaxWritesPerRun: small.Draw(t, "writes"), Protected: drawRule(t, "protected rule"),
		ScaleToZero: drawRule(t, "zero rule"), RadiusOverlap: drawRule(t, "overlap rule"),
		MinConfidence: rapid.SampledFrom([]float64{0, 0.7, -1, math.NaN()}).Draw(t, "min confidence"),
		GraphMaxAge:   rapid.SampledFrom([]time.Duration{0, time.Minute, -1}).Draw(t, "age")}
	if rapid.Bool().Draw(t, "limits downstream") {
		n := small.Draw(t, "max downstream")
		p.MaxDownstream = &n
	}
	for range rapid.IntRange(0, 2).Draw(t, "freezes") {
		p.Freezes = append(p.Freezes, blastdoor.Freeze{Names: drawNames(t, "frozen"), From: drawTime(t, "from"), Until: drawTime(t, "until")})
	}
	for _, action := range []string{"get_metrics", "restart_service"} {
		p.Menu = append(p.Menu, blastdoor.MenuEntry{Action: action, Tier: blastdoor.Tier(rapid.IntRange(-1, 3).Draw(t, "tier"))})
	}
	p.Channels = []blastdoor.ChannelRule{{ID: "C0OPS", Runbooks: rapid.SampledFrom([][]string{nil, {"*"}, {"drain"}}).Draw(t, "runbooks"),
		Requesters: blastdoor.People{Anyone: rapid.Bool().Draw(t, "anyone"), Users: []string{"UALICE"}}}}
	return p
}

func drawCircumstances(t *rapid.T) *blastdoor.Circumstances {
	c := &blastdoor.Circumstances{Now: drawTime(t, "now"), GraphAsOf: drawTime(t, "as of"),
		WritesSoFar: rapid.IntRange(-1, 6).Draw(t, "so far"),
		Requester: blastdoor.Principal{UserID: rapid.SampledFrom([]string{"", "UALICE", "UBOB"}).Draw(t, "user"),
			Verified: rapid.Bool().Draw(t, "verified"), Guest: rapid.Bool().Draw(t, "guest")},
		Channel:    rapid.SampledFrom([]string{"", "C0OPS"}).Draw(t, "channel"),
		Runbook:    rapid.SampledFrom([]string{"", "drain"}).Draw(t, "runbook"),
		Confidence: rapid.SampledFrom([]float64{0, 0.5, 1, 2, -1, math.NaN(), math.Inf(-1)}).Draw(t, "confidence")}
	for range rapid.IntRange(0, 2).Draw(t, "flights") {
		c.InFlight = append(c.InFlight, blastdoor.Flight{RunID: "run-2", Targets: drawNames(t, "locked"), Affected: drawNames(t, "shaken")})
	}
	return c
}

// properties are what holds for every input whatsoever.
func properties(t *rapid.T) {
	plan, policy, circ := drawPlan(t), drawPolicy(t), drawCircumstances(t)
	v := verifier.Verify(verifier.Input{Plan: plan, Policy: policy, Circumstances: circ})

	assert.Equal(t, v, verifier.Verify(verifier.Input{Plan: plan, Policy: policy, Circumstances: circ}), "the same again")
	assert.NotEmpty(t, v.Reasons)
	worst, order := blastdoor.Allow, -1
	for _, r := range v.Reasons {
		at := slices.Index(blastdoor.ReasonCodes(), r.Code)
		assert.GreaterOrEqual(t, at, max(order, 0), "reasons come in the order of the codes, none from outside")
		order = at
		if r.Effect == blastdoor.Deny || worst == blastdoor.Allow {
			worst = r.Effect
		}
	}
	assert.Equal(t, worst, v.Decision, "the worst effect decides")
	assert.Equal(t, v.Decision == blastdoor.Allow, v.Has(blastdoor.WithinPolicy), "within_policy stands alone")

	if plan.Fault != nil || !circ.Requester.FullMember() || circ.Channel == "" {
		assert.Equal(t, blastdoor.Deny, v.Decision)
	}
	zero := verifier.Verify(verifier.Input{Plan: plan, Policy: &blastdoor.Policy{}, Circumstances: circ})
	assert.Equal(t, blastdoor.Deny, zero.Decision, "the zero policy allows nothing")

	tighter := *policy
	tighter.MaxAffected, tighter.ApprovalAbove, tighter.MaxWritesPerRun = policy.MaxAffected-1, policy.ApprovalAbove-1, policy.MaxWritesPerRun-1
	tighter.Protected, tighter.ScaleToZero, tighter.RadiusOverlap = blastdoor.RuleDeny, blastdoor.RuleDeny, blastdoor.RuleDeny
	tighter.Freezes = append(slices.Clone(policy.Freezes), blastdoor.Freeze{Name: "more", Names: []string{"db"}})
	now := verifier.Verify(verifier.Input{Plan: plan, Policy: &tighter, Circumstances: circ})
	assert.Equal(t, now.Decision, verifier.Stricter(v, now).Decision, "a tighter policy never loosens a verdict")
}

func TestVerifyProperties(t *testing.T) { rapid.Check(t, properties) }

func FuzzVerify(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, 512))
	f.Add([]byte("a plan, a policy and circumstances are drawn from these bytes, eight at a time"))
	f.Fuzz(rapid.MakeFuzz(properties))
}
