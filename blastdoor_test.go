package blastdoor

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestCanonicalJSON(t *testing.T) {
	for _, c := range []struct {
		in   any
		want string
	}{
		{map[string]any{"b": 1, "a": []any{true, nil, "x"}}, `{"a":[true,null,"x"],"b":1}`},
		{map[string]any{"€": 1, "\r": 2, "1": 3, "😂": 4, "ö": 5}, `{"\r":2,"1":3,"ö":5,"€":1,"😂":4}`},
		{"<b>&</b>", `"<b>&</b>"`},
		{struct{ A, B float64 }{1, 4.5}, `{"A":1,"B":4.5}`},
		{Params{"n": 3}, `{"n":3}`},
		{Params{"n": float64(3)}, `{"n":3}`},
	} {
		got, err := CanonicalJSON(c.in)
		require.NoError(t, err)
		require.Equal(t, c.want, string(got))
	}
	_, err := CanonicalJSON(math.NaN())
	require.Error(t, err)
}

func TestCanonicalJSONIsAFixedPoint(t *testing.T) {
	value := rapid.MapOf(rapid.String(), rapid.OneOf(
		rapid.Map(rapid.String(), func(s string) any { return s }),
		rapid.Map(rapid.IntRange(-1<<52, 1<<52), func(n int) any { return n }),
		rapid.Map(rapid.Bool(), func(b bool) any { return b })))
	rapid.Check(t, func(t *rapid.T) {
		first, err := CanonicalJSON(value.Draw(t, "value"))
		require.NoError(t, err)
		var back any
		require.NoError(t, json.Unmarshal(first, &back))
		second, err := CanonicalJSON(back)
		require.NoError(t, err)
		require.Equal(t, string(first), string(second))
	})
}

func TestEveryEventMakesTheTripThroughItsCanonicalForm(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678900000, time.FixedZone("elsewhere", 3600))
	require.Len(t, EventKinds(), 25)
	seen := map[EventKind]bool{}
	for i, kind := range EventKinds() {
		require.False(t, seen[kind], "two bodies of kind %s", kind)
		seen[kind] = true
		body, ok := NewBody(kind)
		require.True(t, ok)
		data, err := Event{RunID: "r", Seq: i + 1, At: at, Step: "s", Body: body}.Canonical()
		require.NoError(t, err)
		back, err := ParseEvent(data)
		require.NoError(t, err)
		require.Equal(t, kind, back.Body.Kind())
		require.True(t, at.Equal(back.At))
		again, err := back.Canonical()
		require.NoError(t, err)
		require.Equal(t, string(data), string(again))
	}
}

func TestParseEventRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, data := range []string{
		`{"v":2,"run":"r","seq":1,"at":"2026-01-02T03:04:05Z","kind":"applied","body":{}}`,
		`{"v":1,"run":"r","seq":1,"at":"2026-01-02T03:04:05Z","kind":"from_the_future","body":{}}`,
		`{"v":1,"run":"r","seq":1,"at":"2026-01-02T03:04:05Z","kind":"applied","body":{"surprise":1}}`,
		`{"v":1,"run":"r","seq":1,"at":"2026-01-02T03:04:05Z","kind":"applied","body":{},"extra":1}`,
		`null`, `[]`, ``,
	} {
		_, err := ParseEvent([]byte(data))
		require.Error(t, err, data)
	}
}

func samplePlan() Plan {
	return Plan{RunID: "r", StepID: "s", Action: "a", Kind: Write, Params: Params{"p": "v"}, Targets: []string{"db"},
		Changes:  []Change{{Target: "db", Field: "replicas", Before: "3", After: "4"}},
		Radius:   Radius{Direct: []string{"db"}, Dependents: []string{"api"}, Complete: true},
		Versions: map[string]string{"db": "1"}}
}

// TestThePlanHashCoversEverything changes each field in turn: an approval must not
// hold for a plan that differs in anything.
func TestThePlanHashCoversEverything(t *testing.T) {
	want, err := samplePlan().Hash()
	require.NoError(t, err)
	changes := map[string]func(*Plan){
		"RunID": func(p *Plan) { p.RunID = "x" }, "StepID": func(p *Plan) { p.StepID = "x" },
		"Action": func(p *Plan) { p.Action = "x" }, "Kind": func(p *Plan) { p.Kind = Read },
		"Params": func(p *Plan) { p.Params["p"] = "w" }, "Targets": func(p *Plan) { p.Targets[0] = "x" },
		"Changes": func(p *Plan) { p.Changes[0].After = "5" }, "Radius": func(p *Plan) { p.Radius.Dependents = nil },
		"Versions": func(p *Plan) { p.Versions["db"] = "2" }, "Check": func(p *Plan) { p.Check = &Check{} },
		"Rollback": func(p *Plan) { p.Rollback = &Rollback{} }, "Fault": func(p *Plan) { p.Fault = &Reason{} },
	}
	for i := range reflect.TypeFor[Plan]().NumField() {
		name := reflect.TypeFor[Plan]().Field(i).Name
		change, ok := changes[name]
		require.True(t, ok, "field %s of Plan: say here how it changes the hash", name)
		plan := samplePlan()
		change(&plan)
		got, err := plan.Hash()
		require.NoError(t, err)
		require.NotEqual(t, want, got, "the hash does not cover %s", name)
	}
}

func TestThePlanHashSurvivesTheTripThroughJSON(t *testing.T) {
	plan := samplePlan()
	plan.Params = Params{"replicas": 4, "ratio": 0.5, "on": true, "name": "<x>"}
	want, err := plan.Hash()
	require.NoError(t, err)
	data, err := json.Marshal(plan)
	require.NoError(t, err)
	var back Plan
	require.NoError(t, json.Unmarshal(data, &back))
	got, err := back.Hash()
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestIdempotencyKey(t *testing.T) {
	require.Equal(t, "bd1-", IdempotencyKey("r", "s", "h")[:4])
	require.Len(t, IdempotencyKey("r", "s", "h"), 44)
	require.Equal(t, IdempotencyKey("r", "s", "h"), IdempotencyKey("r", "s", "h"))
	require.NotEqual(t, IdempotencyKey("r", "s", "h"), IdempotencyKey("r", "s", "h2"))
	require.NotEqual(t, IdempotencyKey("ab", "c", "h"), IdempotencyKey("a", "bc", "h"))
}

func TestNewGraphRefusesHoles(t *testing.T) {
	nodes := []Node{{Name: "a"}, {Name: "b"}, {Name: "h", Host: true}}
	for _, c := range []struct {
		nodes []Node
		edges []Edge
		want  string
	}{
		{append(nodes, Node{Name: "a"}), nil, "two nodes"},
		{nodes, []Edge{{"a", "ghost", Calls}}, "unknown"},
		{nodes, []Edge{{"ghost", "a", Calls}}, "unknown"},
		{nodes, []Edge{{"a", "h", Calls}}, "touches a host"},
		{nodes, []Edge{{"a", "b", RunsOn}}, "from a service to a host"},
		{nodes, []Edge{{"a", "b", "likes"}}, "unknown kind"},
	} {
		_, err := NewGraph(c.nodes, c.edges)
		require.ErrorContains(t, err, c.want)
	}
}

func TestGraphRows(t *testing.T) {
	g, err := NewGraph([]Node{{Name: "web"}, {Name: "broker"}, {Name: "mail"}, {Name: "h", Host: true}, {Name: "db", Protected: true}},
		[]Edge{{"web", "db", Calls}, {"web", "broker", Publishes}, {"mail", "broker", Consumes}, {"db", "h", RunsOn}})
	require.NoError(t, err)
	names := func(rows []int32) (out []string) {
		for _, n := range rows {
			out = append(out, g.Name(n))
		}
		return out
	}
	at := func(name string) int32 { n, ok := g.Number(name); require.True(t, ok); return n }
	require.Equal(t, []string{"web"}, names(g.Dependents(at("db"))))
	require.ElementsMatch(t, []string{"web", "mail"}, names(g.Dependents(at("broker"))))
	require.ElementsMatch(t, []string{"db", "broker"}, names(g.Flows(at("web"))))
	require.Equal(t, []string{"mail"}, names(g.Flows(at("broker"))))
	require.Equal(t, []string{"db"}, names(g.Residents(at("h"))))
	require.Equal(t, []string{"h"}, names(g.Hosts(at("db"))))
	require.True(t, g.IsProtected(at("db")))
}

func TestSame(t *testing.T) {
	require.False(t, Principal{}.Same(Principal{}), "two unknowns are not known to be one person")
	require.True(t, Principal{UserID: "U1"}.Same(Principal{UserID: "U1"}))
	require.True(t, Principal{UserID: "U1", EnterpriseUserID: "W1"}.Same(Principal{UserID: "U2", EnterpriseUserID: "W1"}))
	require.False(t, Principal{UserID: "U1"}.Same(Principal{UserID: "U2"}))
}

func TestFullMember(t *testing.T) {
	full := Principal{UserID: "U1", TeamID: "T1", Verified: true}
	require.True(t, full.FullMember())
	require.False(t, Principal{}.FullMember())
	for _, spoil := range []func(*Principal){func(p *Principal) { p.Verified = false }, func(p *Principal) { p.Bot = true },
		func(p *Principal) { p.Guest = true }, func(p *Principal) { p.External = true }, func(p *Principal) { p.Inactive = true }} {
		p := full
		spoil(&p)
		require.False(t, p.FullMember(), "%+v", p)
	}
}

func TestErrors(t *testing.T) {
	err := fmt.Errorf("draining host-a: %w", &Error{Code: ErrWorldMoved, Where: "x.yaml:3", Msg: "db has moved", Want: "plan again", Err: errors.New("cause")})
	require.True(t, ErrWorldMoved.Is(err))
	require.False(t, ErrConflict.Is(err))
	require.False(t, ErrConflict.Is(nil))
	require.Equal(t, "draining host-a: x.yaml:3: world_moved: db has moved (plan again): cause", err.Error())
	require.Equal(t, Code(""), CodeOf(errors.New("plain")))
}

func TestClosedSetsAreSnakeCaseAndUnique(t *testing.T) {
	var all [][]string
	add := func(codes []string) { all = append(all, codes) }
	add(texts(EventKinds()))
	add(texts(ReasonCodes()))
	add(texts(RefusalCodes()))
	add(texts(LoadErrors()))
	add(texts(StepStatuses()))
	add(texts(RunOutcomes()))
	add(texts(ApprovalStatuses()))
	add(texts(DeliveryKinds()))
	for _, set := range all {
		seen := map[string]bool{}
		for _, code := range set {
			require.False(t, seen[code], code)
			seen[code] = true
			require.Equal(t, strings.ToLower(code), code)
			require.NotContains(t, code, "-")
		}
	}
}

// TestListsOfClosedSetsAreComplete reads the constants from the source: a member
// that its list forgets would pass every check that goes through the list.
func TestListsOfClosedSetsAreComplete(t *testing.T) {
	lists := map[string][]string{"EventKind": texts(EventKinds()), "ReasonCode": texts(ReasonCodes()), "RefusalCode": texts(RefusalCodes()),
		"StepStatus": texts(StepStatuses()), "RunOutcome": texts(RunOutcomes()), "ApprovalStatus": texts(ApprovalStatuses()),
		"DeliveryKind": texts(DeliveryKinds())}
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	found := map[string][]string{}
	constant := regexp.MustCompile(`(?m)^\t\w+\s+(\w+)\s+= "([a-z_]+)"`)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range constant.FindAllStringSubmatch(string(data), -1) {
			found[m[1]] = append(found[m[1]], m[2])
		}
	}
	for name, list := range lists {
		require.NotEmpty(t, found[name], name)
		require.ElementsMatch(t, found[name], list, name)
	}
}

func texts[S ~string](in []S) (out []string) {
	for _, s := range in {
		out = append(out, string(s))
	}
	return out
}
