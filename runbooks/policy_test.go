package runbooks_test

import (
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"blastdoor"
	"blastdoor/runbooks"
)

// goodPolicy has every key, one per line.
const goodPolicy = `name: good
max_affected: 10
approval_above: 3
max_downstream: 50
max_writes_per_run: 5
protected: ask
scale_to_zero: deny
radius_overlap: allow
min_confidence: 0.7
graph_max_age: 10m
graph_walk_bound: 1000
approval_ttl: 15m
approvers: {users: [U0BOB], groups: [S0SRE], quorum: 2}
freezes: [{name: release, reason: sales, names: [web, "*"], from: 2026-03-02T00:00:00Z, until: "2026-03-03T02:00:00+02:00"}]
channels: [{id: C0OPS, runbooks: ["*"], requesters: {anyone: true}}, {id: C0DEV, runbooks: [fix], requesters: {users: [U0ALICE], groups: [S0DEV]}}]
menu: [{action: restart_service, tier: 1, approvers: {users: [U0CAROL]}}, {action: drain_host, tier: 2, reason: by hand}, {action: list_services, tier: 0}]
`

func TestLoadPolicy(t *testing.T) {
	p, problems := runbooks.LoadPolicy("good.yaml", []byte(goodPolicy))
	require.Empty(t, problems)
	fifty := 50
	assert.Equal(t, blastdoor.Policy{
		Name: "good", MaxAffected: 10, ApprovalAbove: 3, MaxDownstream: &fifty, MaxWritesPerRun: 5,
		Protected: blastdoor.RuleAsk, ScaleToZero: blastdoor.RuleDeny, RadiusOverlap: blastdoor.RuleAllow,
		MinConfidence: 0.7, GraphMaxAge: 10 * time.Minute, GraphWalkBound: 1000, ApprovalTTL: 15 * time.Minute,
		Approvers: blastdoor.Approvers{Users: []string{"U0BOB"}, Groups: []string{"S0SRE"}, Quorum: 2},
		Freezes: []blastdoor.Freeze{{Name: "release", Reason: "sales", Names: []string{"web", "*"},
			From: time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC), Until: time.Date(2026, 3, 3, 0, 0, 0, 0, time.UTC)}},
		Channels: []blastdoor.ChannelRule{
			{ID: "C0OPS", Runbooks: []string{"*"}, Requesters: blastdoor.People{Anyone: true}},
			{ID: "C0DEV", Runbooks: []string{"fix"}, Requesters: blastdoor.People{Users: []string{"U0ALICE"}, Groups: []string{"S0DEV"}}},
		},
		Menu: []blastdoor.MenuEntry{ // sorted
			{Action: "drain_host", Tier: blastdoor.TierForbidden, Reason: "by hand"},
			{Action: "list_services", Tier: blastdoor.TierUnattended},
			{Action: "restart_service", Tier: blastdoor.TierApproval, Approvers: &blastdoor.Approvers{Users: []string{"U0CAROL"}, Quorum: 1}},
		},
	}, p)
}

// with replaces the line of one key of the good policy; an empty line takes it away.
func with(key, line string) string {
	lines := strings.SplitAfter(goodPolicy, "\n")
	i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, key+":") })
	lines[i] = line
	if line != "" {
		lines[i] = key + ": " + line + "\n"
	}
	return strings.Join(lines, "")
}

func TestPolicyErrors(t *testing.T) {
	type badPolicy struct {
		name, yaml string
		want       int // problems
	}
	cases := []badPolicy{
		{"empty", "", 1},
		{"a list", "- a\n", 1},
		{"an alias", "a: &a 1\nb: *a\n", 1},
		{"nothing given", "{}\n", 14},
		{"unknown key", goodPolicy + "max_afected: 3\n", 1},
		{"key given twice", goodPolicy + "max_affected: 100\n", 1},
		{"name", with("name", "Good Policy"), 1},
		{"negative limit", with("max_affected", "-1"), 1},
		{"limit is a text", with("max_affected", "ten"), 1},
		{"limit is a fraction", with("approval_above", "2.5"), 1},
		{"negative downstream limit", with("max_downstream", "-1"), 1},
		{"no writes", with("max_writes_per_run", "0"), 1},
		{"no walk", with("graph_walk_bound", "0"), 1},
		{"unknown rule", with("protected", "warn"), 1},
		{"rule is a truth value", with("scale_to_zero", "true"), 1},
		{"rule is empty", with("radius_overlap", ""), 1},
		{"confidence above one", with("min_confidence", "1.1"), 1},
		{"confidence negative", with("min_confidence", "-0.1"), 1},
		{"confidence not a number", with("min_confidence", ".nan"), 1},
		{"confidence is a text", with("min_confidence", "high"), 1},
		{"confidence is a list", with("min_confidence", "[1]"), 1},
		{"duration without a unit", with("approval_ttl", "900"), 1},
		{"duration of zero", with("approval_ttl", "0s"), 1},
		{"negative duration", with("graph_max_age", "-1m"), 1},
		{"duration is a text", with("graph_max_age", "ten minutes"), 1},
		{"approvers by name", with("approvers", `{users: [bob], groups: [sre]}`), 2},
		{"approvers: anyone", with("approvers", "{anyone: true}"), 1},
		{"approvers are a list", with("approvers", "[U0BOB]"), 1},
		{"approver given twice", with("approvers", "{users: [U0BOB, U0BOB]}"), 1},
		{"quorum of zero", with("approvers", "{users: [U0BOB], quorum: 0}"), 1},
		{"quorum that can never be reached", with("approvers", "{users: [U0BOB], quorum: 2}"), 1},
		{"quorum is a text", with("approvers", "{users: [U0BOB], quorum: all}"), 1},
		{"freeze without name and names", with("freezes", "[{reason: sales}]"), 2},
		{"freeze that names nothing", with("freezes", "[{name: release, names: []}]"), 1},
		{"freeze with a wrong name", with("freezes", "[{name: release, names: [Web]}]"), 1},
		{"freeze with a wrong time", with("freezes", "[{name: release, names: [web], from: 2026-03-02}]"), 1},
		{"freeze that ends before it begins", with("freezes", "[{name: r, names: [web], from: 2026-03-02T00:00:00Z, until: 2026-03-01T00:00:00Z}]"), 1},
		{"freeze that ends as it begins", with("freezes", "[{name: r, names: [web], from: 2026-03-02T00:00:00Z, until: 2026-03-02T00:00:00Z}]"), 1},
		{"freeze with an unknown key", with("freezes", "[{name: r, names: [web], to: 2026-03-02T00:00:00Z}]"), 1},
		{"freeze is a text", with("freezes", "[web]"), 1},
		{"freezes are a mapping", with("freezes", "{web: true}"), 1},
		{"channel by name", with("channels", `[{id: "#ops", runbooks: ["*"], requesters: {anyone: true}}]`), 1},
		{"channel without anything", with("channels", "[{}]"), 1},
		{"channel without rules", with("channels", "[{id: C0OPS}]"), 2},
		{"channel given twice", with("channels", "[{id: C0OPS, runbooks: [], requesters: {}}, {id: C0OPS, runbooks: [], requesters: {}}]"), 1},
		{"requesters misspelt", with("channels", "[{id: C0OPS, runbooks: [], requesters: {everyone: true}}]"), 1},
		{"anyone is a text", with("channels", `[{id: C0OPS, runbooks: [], requesters: {anyone: "yes"}}]`), 1},
		{"menu entry without anything", with("menu", "[{}]"), 1},
		{"menu entry without a tier", with("menu", "[{action: drain_host, reason: x}]"), 1},
		{"menu entry of tier 3", with("menu", "[{action: drain_host, tier: 3}]"), 1},
		{"menu entry of tier -1", with("menu", "[{action: drain_host, tier: -1}]"), 1},
		{"menu entry forbidden without a reason", with("menu", "[{action: drain_host, tier: 2}]"), 1},
		{"menu entry given twice", with("menu", "[{action: drain_host, tier: 0}, {action: drain_host, tier: 1}]"), 1},
		{"menu entry with a wrong action", with("menu", "[{action: Drain Host, tier: 0}]"), 1},
		{"menu entry with wrong approvers", with("menu", "[{action: drain_host, tier: 0, approvers: [U0BOB]}]"), 1},
	}
	for _, key := range []string{"name", "max_affected", "approval_above", "max_writes_per_run", "protected", "min_confidence",
		"graph_max_age", "approvers", "channels", "menu"} {
		cases = append(cases, badPolicy{"without " + key, with(key, ""), 1})
	}
	var golden strings.Builder
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p, problems := runbooks.LoadPolicy("policy.yaml", []byte(c.yaml))
			assert.Len(t, problems, c.want)
			assert.Equal(t, blastdoor.Policy{}, p, "half a policy allows nothing")
			for _, problem := range problems {
				assert.Equal(t, blastdoor.ErrInvalidPolicy, problem.Code)
				assert.Regexp(t, `^policy\.yaml:\d+$`, problem.Where)
			}
			told(&golden, c.name, problems)
		})
	}
	compareGolden(t, "testdata/policy-errors.golden", golden.String())
}

func TestEmptyApproversAreNobody(t *testing.T) {
	p, problems := runbooks.LoadPolicy("policy.yaml", []byte(with("approvers", "{}")))
	require.Empty(t, problems)
	assert.Equal(t, blastdoor.Approvers{Quorum: 1}, p.Approvers)
}

func TestShippedPolicies(t *testing.T) {
	load := func(file string) blastdoor.Policy {
		data, err := fs.ReadFile(runbooks.Shipped(), file)
		require.NoError(t, err)
		p, problems := runbooks.LoadPolicy(file, data)
		require.Empty(t, problems)
		return p
	}
	var menu []blastdoor.MenuEntry
	for _, name := range []string{"drain_host", "get_metrics", "get_service_status", "list_services", "restart_service", "rollout_restart", "scale_service"} {
		menu = append(menu, blastdoor.MenuEntry{Action: name})
	}
	want := blastdoor.Policy{
		Name: "default", MaxAffected: 10, ApprovalAbove: 3, MaxWritesPerRun: 5, Protected: blastdoor.RuleAsk,
		ScaleToZero: blastdoor.RuleDeny, RadiusOverlap: blastdoor.RuleAsk, MinConfidence: 0.7, GraphMaxAge: 10 * time.Minute,
		GraphWalkBound: 200_000, ApprovalTTL: 15 * time.Minute, Approvers: blastdoor.Approvers{Groups: []string{"S0SRE"}, Quorum: 1},
		Channels: []blastdoor.ChannelRule{{ID: "C0OPS", Runbooks: []string{"*"}, Requesters: blastdoor.People{Anyone: true}}}, Menu: menu,
	}
	assert.Equal(t, want, load("policy.yaml"))
	want.Name, want.MaxAffected, want.Protected, want.RadiusOverlap = "strict", 5, blastdoor.RuleDeny, blastdoor.RuleDeny
	assert.Equal(t, want, load("policy-strict.yaml"))
}

// What the shipped policy shows as an example must be right once it is no comment.
func TestTheCommentedFreezeLoads(t *testing.T) {
	data, err := os.ReadFile("shipped/policy.yaml")
	require.NoError(t, err)
	text := strings.Replace(string(data), "freezes: []", "freezes:", 1)
	text = strings.ReplaceAll(text, "\n#  ", "\n  ")
	p, problems := runbooks.LoadPolicy("policy.yaml", []byte(text))
	require.Empty(t, problems)
	require.Len(t, p.Freezes, 1)
	assert.Equal(t, []string{"payment-svc"}, p.Freezes[0].Names)
}
