package verifier_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"blastdoor"
	"blastdoor/verifier"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// situation is what a case of the matrix starts from: a full member asks in #ops
// for a restart of web, which affects web alone, and everything is in order.
type situation struct {
	plan   blastdoor.Plan
	policy blastdoor.Policy
	circ   blastdoor.Circumstances
}

func inOrder() *situation {
	return &situation{
		plan: blastdoor.Plan{
			RunID: "run-1", StepID: "restart", Action: "restart_service", Kind: blastdoor.Write,
			Params: blastdoor.Params{"service": "web"}, Targets: []string{"web"},
			Changes: []blastdoor.Change{{Target: "web", Field: "restarts", Before: "0", After: "1"}},
			Radius: blastdoor.Radius{Direct: []string{"web"}, Dependents: []string{}, Hosts: []string{"host-c"},
				Downstream: []string{"api", "db"}, Complete: true},
			Versions: map[string]string{"web": "1"},
		},
		policy: blastdoor.Policy{
			Name: "default", MaxAffected: 10, ApprovalAbove: 3, MaxWritesPerRun: 5, Protected: blastdoor.RuleAsk,
			ScaleToZero: blastdoor.RuleDeny, RadiusOverlap: blastdoor.RuleAsk, MinConfidence: 0.7,
			GraphMaxAge: 10 * time.Minute, GraphWalkBound: 1000, ApprovalTTL: 15 * time.Minute,
			Channels: []blastdoor.ChannelRule{{ID: "C0OPS", Runbooks: []string{"safe-restart"},
				Requesters: blastdoor.People{Anyone: true}}},
			Menu: []blastdoor.MenuEntry{{Action: "get_metrics"}, {Action: "restart_service"}},
		},
		circ: blastdoor.Circumstances{
			Now: noon, Requester: blastdoor.Principal{UserID: "UALICE", TeamID: "T1", Verified: true},
			Channel: "C0OPS", Runbook: "safe-restart", Confidence: 1, GraphAsOf: noon,
		},
	}
}

func (s *situation) input() verifier.Input {
	return verifier.Input{Plan: &s.plan, Policy: &s.policy, Circumstances: &s.circ}
}

// read turns the plan into one of a read.
func (s *situation) read() {
	s.plan = blastdoor.Plan{RunID: "run-1", StepID: "look", Action: "get_metrics", Kind: blastdoor.Read}
}

func (s *situation) affect(n int) {
	s.plan.Radius.Dependents = nil
	for i := 1; i < n; i++ {
		s.plan.Radius.Dependents = append(s.plan.Radius.Dependents, fmt.Sprintf("svc-%03d", i))
	}
}

func (s *situation) fault(code blastdoor.ReasonCode, text string) {
	s.plan = blastdoor.Plan{RunID: "run-1", StepID: "restart", Action: s.plan.Action, Kind: blastdoor.Write,
		Fault: &blastdoor.Reason{Code: code, Effect: blastdoor.Allow, Text: text}}
}

func (s *situation) freeze(f blastdoor.Freeze) { s.policy.Freezes = append(s.policy.Freezes, f) }

func (s *situation) replicas(before, after string) {
	s.plan.Changes = append(s.plan.Changes, blastdoor.Change{Target: "web", Field: blastdoor.FieldReplicas, Before: before, After: after})
}

func (s *situation) flight(f blastdoor.Flight) { s.circ.InFlight = append(s.circ.InFlight, f) }

type verdictCase struct {
	name string
	set  func(*situation)
	want string // decision and codes
}

func verdictCases() []verdictCase {
	return slices.Concat(planCases(), peopleCases(), freezeCases(), glassCases(), radiusCases(), changeCases(), trustCases())
}

func planCases() []verdictCase {
	return []verdictCase{
		{"everything is in order", func(*situation) {}, "allow within_policy"},
		{"read in order", (*situation).read, "allow within_policy"},
		{"kind unknown", func(s *situation) { s.plan.Kind = "reed" }, "deny unknown_action"},
		{"kind missing", func(s *situation) { s.plan.Kind = "" }, "deny unknown_action"},
		{"action unknown", func(s *situation) {
			s.plan.Action = "reboot_moon"
			s.fault(blastdoor.UnknownAction, "the environment cannot reboot_moon")
		}, "deny unknown_action action_not_on_menu"},
		{"parameters invalid", func(s *situation) { s.fault(blastdoor.ParamsInvalid, "service must be a string") }, "deny params_invalid"},
		{"read with invalid parameters", func(s *situation) {
			s.read()
			s.plan.Fault = &blastdoor.Reason{Code: blastdoor.ParamsInvalid, Text: "service is required"}
		}, "deny params_invalid"},
		{"dry run failed", func(s *situation) { s.fault(blastdoor.DryRunFailed, "there is no service wbe") }, "deny dry_run_failed"},
		{"a fault outside the closed set", func(s *situation) { s.fault("cosmic_ray", "a bit flipped") }, "deny dry_run_failed"},
		{"write without a target", func(s *situation) { s.plan.Targets = nil }, "deny dry_run_failed"},
		{"write without a change", func(s *situation) { s.plan.Changes = nil }, "deny dry_run_failed"},
		{"not on the menu", func(s *situation) { s.plan.Action = "drain_host" }, "deny action_not_on_menu"},
		{"read not on the menu", func(s *situation) { s.read(); s.policy.Menu = nil }, "deny action_not_on_menu"},
		{"tier 1 asks", func(s *situation) { s.policy.Menu[1].Tier = blastdoor.TierApproval }, "needs_approval tier_requires_approval"},
		{"read of tier 1 asks", func(s *situation) { s.read(); s.policy.Menu[0].Tier = blastdoor.TierApproval }, "needs_approval tier_requires_approval"},
		{"tier 2 denies with its reason", func(s *situation) {
			s.policy.Menu[1].Tier, s.policy.Menu[1].Reason = blastdoor.TierForbidden, "restart by hand, with the owner"
		}, "deny action_forbidden"},
		{"tier 2 without a reason", func(s *situation) { s.policy.Menu[1].Tier = blastdoor.TierForbidden }, "deny action_forbidden"},
		{"tier 3 does not exist", func(s *situation) { s.policy.Menu[1].Tier = 3 }, "deny action_forbidden"},
		{"tier -1 does not exist", func(s *situation) { s.policy.Menu[1].Tier = -1 }, "deny action_forbidden"},
		{"every reason is collected, and deny wins over ask", func(s *situation) {
			s.policy.Menu[1].Tier = blastdoor.TierApproval
			s.affect(11)
			s.plan.Radius.Protected = []string{"db"}
			s.circ.Confidence = 0.2
			s.freeze(blastdoor.Freeze{Name: "audit", Names: []string{"*"}})
		}, "deny change_freeze blast_radius_exceeded blast_radius_over_threshold protected_resource tier_requires_approval low_confidence"},
		{"zero policy", func(s *situation) { s.policy = blastdoor.Policy{} },
			"deny action_not_on_menu channel_not_allowed max_writes_exceeded blast_radius_exceeded blast_radius_over_threshold"},
	}
}

func peopleCases() []verdictCase {
	people := func(p blastdoor.People) func(*situation) {
		return func(s *situation) { s.policy.Channels[0].Requesters = p }
	}
	return []verdictCase{
		{"channel without a rule", func(s *situation) { s.circ.Channel = "C0RANDOM" }, "deny channel_not_allowed"},
		{"no channel", func(s *situation) { s.circ.Channel = ""; s.policy.Channels[0].ID = "" }, "deny channel_not_allowed"},
		{"runbook not in the channel", func(s *situation) { s.circ.Runbook = "drain-host-a" }, "deny channel_not_allowed"},
		{"every runbook in the channel", func(s *situation) {
			s.circ.Runbook = "drain-host-a"
			s.policy.Channels[0].Runbooks = []string{"*"}
		}, "allow within_policy"},
		{"no runbook", func(s *situation) { s.circ.Runbook = ""; s.policy.Channels[0].Runbooks = []string{"*"} }, "deny channel_not_allowed"},
		{"read in a channel without a rule", func(s *situation) { s.read(); s.circ.Channel = "C0RANDOM" }, "deny channel_not_allowed"},
		{"requester listed", people(blastdoor.People{Users: []string{"UALICE"}}), "allow within_policy"},
		{"requester in a listed group", func(s *situation) {
			s.policy.Channels[0].Requesters = blastdoor.People{Groups: []string{"S0DEV", "S0SRE"}}
			s.circ.RequesterGroups = []string{"S0SRE"}
		}, "allow within_policy"},
		{"requester in another group", func(s *situation) {
			s.policy.Channels[0].Requesters = blastdoor.People{Groups: []string{"S0DEV"}}
			s.circ.RequesterGroups = []string{"S0SRE"}
		}, "deny requester_not_allowed"},
		{"requester not listed", people(blastdoor.People{Users: []string{"UBOB"}}), "deny requester_not_allowed"},
		{"an empty list is nobody", people(blastdoor.People{}), "deny requester_not_allowed"},
		{"read by someone not listed", func(s *situation) { s.read(); people(blastdoor.People{})(s) }, "deny requester_not_allowed"},
		{"requester unverified", func(s *situation) { s.circ.Requester.Verified = false }, "deny requester_not_allowed"},
		{"requester nobody", func(s *situation) { s.circ.Requester = blastdoor.Principal{} }, "deny requester_not_allowed"},
		{"requester bot", func(s *situation) { s.circ.Requester.Bot = true }, "deny requester_not_allowed"},
		{"requester external", func(s *situation) { s.circ.Requester.External = true }, "deny requester_not_allowed"},
		{"requester inactive", func(s *situation) { s.circ.Requester.Inactive = true }, "deny requester_not_allowed"},
		{"requester guest", func(s *situation) { s.circ.Requester.Guest = true }, "deny requester_not_allowed"},
		{"a listed guest is still a guest", func(s *situation) {
			s.circ.Requester.Guest = true
			people(blastdoor.People{Users: []string{"UALICE"}})(s)
		}, "deny requester_not_allowed"},
	}
}

func glassCases() []verdictCase {
	freeze := func(who blastdoor.Approvers) func(*situation) {
		return func(s *situation) {
			s.freeze(blastdoor.Freeze{Name: "release", Names: []string{"web"}, BreakGlass: &who})
			s.circ.BreakGlass, s.circ.RequesterGroups = "the database is on fire", []string{"S0INCIDENT"}
		}
	}
	responders := blastdoor.Approvers{Groups: []string{"S0INCIDENT"}, Quorum: 2}
	but := func(change func(*situation)) func(*situation) {
		return func(s *situation) { freeze(responders)(s); change(s) }
	}
	return []verdictCase{
		{"glass broken by a responder", freeze(responders), "needs_approval break_glass"},
		{"glass broken by a listed user", freeze(blastdoor.Approvers{Users: []string{"UALICE"}}), "needs_approval break_glass"},
		{"glass without a reason", but(func(s *situation) { s.circ.BreakGlass = "" }), "deny change_freeze"},
		{"glass broken by another group", but(func(s *situation) { s.circ.RequesterGroups = []string{"S0DEV"} }), "deny change_freeze"},
		{"glass that nobody may break", freeze(blastdoor.Approvers{}), "deny change_freeze"},
		{"glass broken by a planner", but(func(s *situation) { s.circ.Planned = true }), "deny change_freeze"},
		{"glass broken by a guest", but(func(s *situation) { s.circ.Requester.Guest = true }), "deny requester_not_allowed change_freeze"},
		{"two freezes, glass for one", but(func(s *situation) { s.freeze(blastdoor.Freeze{Name: "audit", Names: []string{"*"}}) }),
			"deny change_freeze break_glass"},
		{"glass breaks the freeze and nothing else", but(func(s *situation) { s.affect(11) }),
			"deny break_glass blast_radius_exceeded blast_radius_over_threshold"},
		{"a reason where there is no freeze", func(s *situation) { s.circ.BreakGlass = "just in case" }, "allow within_policy"},
	}
}

func TestApproversFor(t *testing.T) {
	s := inOrder()
	s.policy.Approvers = blastdoor.Approvers{Groups: []string{"S0SRE"}, Quorum: 1}
	glass := func(name string, groups ...string) blastdoor.Freeze {
		return blastdoor.Freeze{Name: name, Names: []string{"web"}, BreakGlass: &blastdoor.Approvers{Groups: groups, Quorum: 2}}
	}
	who := func(broken bool, freezes ...blastdoor.Freeze) blastdoor.Approvers {
		s.policy.Freezes = freezes
		return verifier.ApproversFor(&s.policy, &s.plan, noon, broken)
	}
	require.Equal(t, s.policy.Approvers, who(false, glass("a", "S0INCIDENT")))
	require.Equal(t, blastdoor.Approvers{Groups: []string{"S0INCIDENT"}, Quorum: 2}, who(true, glass("a", "S0INCIDENT")))
	require.Equal(t, blastdoor.Approvers{Groups: []string{"S0BOTH"}, Quorum: 2}, who(true, glass("a", "S0ONE", "S0BOTH"), glass("b", "S0BOTH")))
	require.Equal(t, blastdoor.Approvers{Quorum: 2}, who(true, glass("a", "S0ONE"), glass("b", "S0TWO")), "nobody in common is nobody")
	require.Equal(t, blastdoor.Approvers{Quorum: 1}, who(true, blastdoor.Freeze{Name: "a", Names: []string{"web"}}), "glass that nobody may break")
	over := glass("a", "S0INCIDENT")
	over.Until = noon
	require.Equal(t, s.policy.Approvers, who(true, over))
}

func freezeCases() []verdictCase {
	names := func(name ...string) blastdoor.Freeze { return blastdoor.Freeze{Name: "release", Names: name} }
	frozen := func(f blastdoor.Freeze) func(*situation) { return func(s *situation) { s.freeze(f) } }
	at := func(from, until time.Time) func(*situation) {
		return frozen(blastdoor.Freeze{Name: "release", Names: []string{"web"}, From: from, Until: until})
	}
	const denied, allowed = "deny change_freeze", "allow within_policy"
	return []verdictCase{
		{"freeze of a target", frozen(names("web")), denied},
		{"freeze of a target unknown to the graph", func(s *situation) { s.plan.Targets = []string{"ghost", "web"}; s.freeze(names("ghost")) }, denied},
		{"freeze of everything", frozen(names("*")), denied},
		{"freeze of a directly affected service", func(s *situation) { s.plan.Radius.Direct = []string{"cache", "web"}; s.freeze(names("cache")) }, denied},
		{"freeze of a dependent", func(s *situation) { s.affect(3); s.freeze(names("svc-002")) }, denied},
		{"freeze of a host", frozen(names("host-c")), denied},
		{"freeze of something downstream", frozen(names("db")), denied},
		{"freeze of something else", frozen(names("payment-svc", "search")), allowed},
		{"freeze without names", frozen(names()), allowed},
		{"freeze with its reason and end", frozen(blastdoor.Freeze{Name: "black friday", Reason: "sales day", Names: []string{"nope", "api"},
			Until: noon.Add(time.Hour)}), denied},
		{"two freezes, two reasons", func(s *situation) { s.freeze(names("web")); s.freeze(names("*")) }, "deny change_freeze change_freeze"},
		{"freeze begins now", at(noon, time.Time{}), denied},
		{"freeze begins in a nanosecond", at(noon.Add(1), time.Time{}), allowed},
		{"freeze ends now", at(time.Time{}, noon), allowed},
		{"freeze ends in a nanosecond", at(time.Time{}, noon.Add(1)), denied},
		{"freeze at an unknown time", func(s *situation) {
			s.circ.Now, s.circ.GraphAsOf = time.Time{}, time.Time{}.Add(1)
			s.freeze(blastdoor.Freeze{Name: "release", Names: []string{"web"}, From: noon})
		}, denied},
		{"freeze and a read", func(s *situation) { s.read(); s.freeze(names("*")) }, allowed},
	}
}

func radiusCases() []verdictCase {
	affects := func(n int) func(*situation) { return func(s *situation) { s.affect(n) } }
	limit := func(n int) func(*situation) { return func(s *situation) { s.policy.MaxDownstream = &n } }
	protected := func(r blastdoor.Rule) func(*situation) {
		return func(s *situation) { s.policy.Protected = r; s.plan.Radius.Protected = []string{"auth-svc", "db"} }
	}
	return []verdictCase{
		{"3 affected, threshold 3", affects(3), "allow within_policy"},
		{"4 affected, threshold 3", affects(4), "needs_approval blast_radius_over_threshold"},
		{"10 affected, limit 10", affects(10), "needs_approval blast_radius_over_threshold"},
		{"11 affected, limit 10", affects(11), "deny blast_radius_exceeded blast_radius_over_threshold"},
		{"1 affected, limit 0", func(s *situation) { s.policy.MaxAffected, s.policy.ApprovalAbove = 0, 0 },
			"deny blast_radius_exceeded blast_radius_over_threshold"},
		{"read of a large radius", func(s *situation) {
			s.affect(100)
			r := s.plan.Radius
			s.read()
			s.plan.Radius = r
		}, "allow within_policy"},
		{"downstream without a limit", func(s *situation) { s.plan.Radius.Downstream = make([]string, 1000) }, "allow within_policy"},
		{"2 downstream, limit 2", limit(2), "allow within_policy"},
		{"2 downstream, limit 1", limit(1), "deny downstream_exceeded"},
		{"protected, policy asks", protected(blastdoor.RuleAsk), "needs_approval protected_resource"},
		{"protected, policy denies", protected(blastdoor.RuleDeny), "deny protected_resource"},
		{"protected, policy allows", protected(blastdoor.RuleAllow), "allow within_policy"},
		{"protected, policy does not say", protected(""), "deny protected_resource"},
		{"protected, policy says something unknown", protected("sak"), "deny protected_resource"},
		{"one protected", func(s *situation) { s.plan.Radius.Protected = []string{"db"} }, "needs_approval protected_resource"},
		{"many protected", func(s *situation) { s.plan.Radius.Protected = []string{"a", "b", "c", "d", "e", "f", "g"} }, "needs_approval protected_resource"},
		{"nothing protected, policy denies", func(s *situation) { s.policy.Protected = blastdoor.RuleDeny }, "allow within_policy"},
	}
}

func changeCases() []verdictCase {
	scale := func(rule blastdoor.Rule, before, after string) func(*situation) {
		return func(s *situation) { s.policy.ScaleToZero = rule; s.replicas(before, after) }
	}
	written := func(so, limit int) func(*situation) {
		return func(s *situation) { s.circ.WritesSoFar, s.policy.MaxWritesPerRun = so, limit }
	}
	flying := func(rule blastdoor.Rule, run, target, affected string) func(*situation) {
		return func(s *situation) {
			s.policy.RadiusOverlap = rule
			s.plan.Targets, s.plan.Radius.Dependents = []string{"host-c", "web"}, []string{"shop"}
			s.flight(blastdoor.Flight{RunID: run, Targets: []string{target}, Affected: []string{affected}})
		}
	}
	return []verdictCase{
		{"the 5th write of 5", written(4, 5), "allow within_policy"},
		{"the 6th write of 5", written(5, 5), "deny max_writes_exceeded"},
		{"the 1st write of 0", written(0, 0), "deny max_writes_exceeded"},
		{"the 2nd write of 1", written(1, 1), "deny max_writes_exceeded"},
		{"a negative number of writes", written(-1, 5), "deny max_writes_exceeded"},
		{"the most writes there can be", written(math.MaxInt, math.MaxInt), "deny max_writes_exceeded"},
		{"read after the last write", func(s *situation) { s.read(); written(5, 5)(s) }, "allow within_policy"},
		{"2 to 0 replicas", scale(blastdoor.RuleDeny, "2", "0"), "deny scale_to_zero"},
		{"2 to 0 replicas, policy asks", scale(blastdoor.RuleAsk, "2", "0"), "needs_approval scale_to_zero"},
		{"2 to 0 replicas, policy allows", scale(blastdoor.RuleAllow, "2", "0"), "allow within_policy"},
		{"2 to 0 replicas, policy does not say", scale("", "2", "0"), "deny scale_to_zero"},
		{"2 to 1 replicas", scale(blastdoor.RuleDeny, "2", "1"), "allow within_policy"},
		{"0 to 0 replicas", scale(blastdoor.RuleDeny, "0", "0"), "allow within_policy"},
		{"2 to 00 replicas", scale(blastdoor.RuleDeny, "2", "00"), "deny scale_to_zero"},
		{"2 to none replicas", scale(blastdoor.RuleDeny, "2", "none"), "deny scale_to_zero"},
		{"some other field to 0", func(s *situation) {
			s.plan.Changes = []blastdoor.Change{{Target: "web", Field: "restarts", Before: "2", After: "0"}}
		}, "allow within_policy"},
		{"overlap at a target", flying(blastdoor.RuleAsk, "run-2", "host-c", "x"), "needs_approval radius_overlap"},
		{"overlap at a direct service", flying(blastdoor.RuleAsk, "run-2", "x", "web"), "needs_approval radius_overlap"},
		{"overlap at a dependent", flying(blastdoor.RuleAsk, "run-2", "x", "shop"), "needs_approval radius_overlap"},
		{"overlap, policy denies", flying(blastdoor.RuleDeny, "run-2", "x", "shop"), "deny radius_overlap"},
		{"overlap, policy does not say", flying("", "run-2", "x", "shop"), "deny radius_overlap"},
		{"overlap, policy allows", flying(blastdoor.RuleAllow, "run-2", "x", "shop"), "allow within_policy"},
		{"in flight elsewhere", flying(blastdoor.RuleDeny, "run-2", "x", "y"), "allow within_policy"},
		{"in flight downstream only", flying(blastdoor.RuleDeny, "run-2", "x", "db"), "allow within_policy"},
		{"own write in flight", flying(blastdoor.RuleDeny, "run-1", "host-c", "web"), "allow within_policy"},
		{"overlap of large radii", func(s *situation) {
			s.policy.ApprovalAbove, s.policy.MaxAffected = 500, 500
			s.affect(200)
			s.flight(blastdoor.Flight{RunID: "run-2", Affected: slices.Concat(make([]string, 100), []string{"svc-150"})})
			s.flight(blastdoor.Flight{RunID: "run-3", Affected: make([]string, 100)})
		}, "needs_approval radius_overlap"},
	}
}

func trustCases() []verdictCase {
	confident := func(c, minimum float64) func(*situation) {
		return func(s *situation) { s.circ.Confidence, s.policy.MinConfidence = c, minimum }
	}
	aged := func(age time.Duration) func(*situation) {
		return func(s *situation) { s.circ.GraphAsOf = noon.Add(-age) }
	}
	const asks, stale = "needs_approval low_confidence", "needs_approval graph_stale"
	return []verdictCase{
		{"confidence just enough", confident(0.7, 0.7), "allow within_policy"},
		{"confidence just too low", confident(math.Nextafter(0.7, 0), 0.7), asks},
		{"confidence NaN", confident(math.NaN(), 0), asks},
		{"confidence negative", confident(-0.1, -1), asks},
		{"confidence above 1", confident(1.01, 0.7), asks},
		{"confidence infinite", confident(math.Inf(1), 0.7), asks},
		{"threshold NaN", confident(1, math.NaN()), asks},
		{"walk not complete", func(s *situation) { s.plan.Radius.Complete = false }, "needs_approval graph_incomplete"},
		{"target unknown", func(s *situation) { s.plan.Radius.Unknown = []string{"ghost"} }, "needs_approval graph_incomplete"},
		{"radius nobody computed", func(s *situation) { s.plan.Radius = blastdoor.Radius{} }, "needs_approval graph_incomplete"},
		{"graph as old as allowed", aged(10 * time.Minute), "allow within_policy"},
		{"graph too old", aged(10*time.Minute + 1), stale},
		{"graph of an unknown age", func(s *situation) { s.circ.GraphAsOf = time.Time{} }, stale},
		{"graph a little ahead of the clock", aged(-time.Second), "allow within_policy"},
		{"graph from the future", aged(-time.Hour), stale},
		{"graph and a read", func(s *situation) { s.read(); s.circ.GraphAsOf = time.Time{} }, "allow within_policy"},
	}
}

func codes(v blastdoor.Verdict) string {
	out := string(v.Decision)
	for _, r := range v.Reasons {
		out += " " + string(r.Code)
	}
	return out
}

func situationOf(c verdictCase) *situation { s := inOrder(); c.set(s); return s }

func TestVerdictMatrix(t *testing.T) {
	var golden strings.Builder
	for _, c := range verdictCases() {
		t.Run(c.name, func(t *testing.T) {
			v := verifier.Verify(situationOf(c).input())
			assert.Equal(t, c.want, codes(v))
			fmt.Fprintf(&golden, "%s\n  %s\n", c.name, v.Decision)
			for _, r := range v.Reasons {
				fmt.Fprintf(&golden, "  - %s (%s): %s\n", r.Code, r.Effect, r.Text)
			}
		})
	}
	compareGolden(t, "testdata/verdicts.golden", golden.String())
}

func compareGolden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func TestVerifyDeniesWhatIsMissing(t *testing.T) {
	whole := inOrder().input()
	for _, tt := range []struct {
		name string
		in   verifier.Input
		want string
	}{
		{"plan", verifier.Input{Policy: whole.Policy, Circumstances: whole.Circumstances}, "deny dry_run_failed"},
		{"policy", verifier.Input{Plan: whole.Plan, Circumstances: whole.Circumstances}, "deny action_not_on_menu"},
		{"circumstances", verifier.Input{Plan: whole.Plan, Policy: whole.Policy}, "deny requester_not_allowed"},
		{"everything", verifier.Input{}, "deny dry_run_failed action_not_on_menu requester_not_allowed"},
	} {
		t.Run(tt.name, func(t *testing.T) { assert.Equal(t, tt.want, codes(verifier.Verify(tt.in))) })
	}
}

func TestEveryReasonCodeHasACase(t *testing.T) {
	produced := map[blastdoor.ReasonCode]bool{}
	for _, c := range verdictCases() {
		for _, r := range verifier.Verify(situationOf(c).input()).Reasons {
			produced[r.Code] = true
		}
	}
	for _, code := range blastdoor.ReasonCodes() {
		assert.True(t, produced[code], "no case produces %s", code)
		delete(produced, code)
	}
	assert.Empty(t, produced, "codes outside the closed set")
}

// The negative control: a verifier that forgot any one rule is caught by the matrix.
func TestTheMatrixNoticesAMissingRule(t *testing.T) {
	for _, rule := range verifier.RuleNames() {
		noticed := slices.ContainsFunc(verdictCases(), func(c verdictCase) bool {
			return codes(verifier.VerifyWithout(rule, situationOf(c).input())) != c.want
		})
		assert.True(t, noticed, "nobody notices that %q is missing", rule)
	}
}

func TestVerifyIsDeterministicAndLeavesItsInputAlone(t *testing.T) {
	for _, c := range verdictCases() {
		s := situationOf(c)
		before := fmt.Sprintf("%+v", s) // NaN has no JSON
		first, err := json.Marshal(verifier.Verify(s.input()))
		require.NoError(t, err)
		second, err := json.Marshal(verifier.Verify(situationOf(c).input()))
		require.NoError(t, err)
		assert.True(t, bytes.Equal(first, second), c.name)
		assert.Equal(t, before, fmt.Sprintf("%+v", s), c.name)
	}
}

func TestTheSharedReasonCannotBeAppendedTo(t *testing.T) {
	v := verifier.Verify(inOrder().input())
	_ = append(v.Reasons, blastdoor.Reason{Code: "forged"})
	assert.Equal(t, "allow within_policy", codes(verifier.Verify(inOrder().input())))
}

func TestAllowDoesNotAllocate(t *testing.T) {
	in := busy().input()
	require.Equal(t, blastdoor.Allow, verifier.Verify(in).Decision)
	assert.Zero(t, testing.AllocsPerRun(100, func() { verifier.Verify(in) }))
}

// busy is an allowed plan that makes every rule look: a freeze elsewhere, a write
// in flight elsewhere, groups, a downstream limit.
func busy() *situation {
	s := inOrder()
	limit := 100
	s.policy.MaxDownstream = &limit
	s.policy.Channels[0].Requesters = blastdoor.People{Groups: []string{"S0DEV", "S0SRE"}}
	s.circ.RequesterGroups = []string{"S0SRE"}
	s.freeze(blastdoor.Freeze{Name: "payments", Names: []string{"payment-svc"}, From: noon.Add(-time.Hour)})
	s.flight(blastdoor.Flight{RunID: "run-2", Targets: []string{"host-f"}, Affected: []string{"payment-svc", "session-cache"}})
	s.replicas("2", "3")
	return s
}

func BenchmarkVerify(b *testing.B) {
	denied := inOrder()
	denied.affect(11)
	for _, bm := range []struct {
		name string
		s    *situation
	}{{"allow", inOrder()}, {"busy", busy()}, {"deny", denied}} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			in := bm.s.input()
			const batch = 100 // the clock is coarse against one verdict
			var took []time.Duration
			for b.Loop() {
				start := time.Now()
				for range batch {
					verifier.Verify(in)
				}
				took = append(took, time.Since(start)/batch)
			}
			slices.Sort(took)
			p50 := took[len(took)/2]
			b.ReportMetric(float64(p50.Nanoseconds()), "p50-ns/verdict")
			b.ReportMetric(float64(p50)/float64(time.Microsecond), "of-1µs-target")
		})
	}
}
