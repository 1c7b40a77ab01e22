package simenv_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"blastdoor"
	"blastdoor/simenv"
)

// TestDefaultWorld holds the shipped file to the table it was made from.
func TestDefaultWorld(t *testing.T) {
	t.Parallel()
	w := defaultWorld(t)
	var lines []string
	for _, s := range w.Services {
		var needs []string
		for _, d := range s.DependsOn {
			assert.Equal(t, blastdoor.Calls, d.Kind, s.Name)
			needs = append(needs, d.Name)
		}
		lines = append(lines, fmt.Sprintf("%s %d %t %s [%s]", s.Name, s.Replicas, s.Protected, s.Host, strings.Join(needs, " ")))
		for _, metric := range []string{"cpu_pct", "mem_pct", "error_rate_pct", "p95_ms"} {
			assert.Contains(t, s.Metrics, metric, s.Name)
		}
	}
	assert.Equal(t, []string{
		"db 3 true host-a []",
		"cache 2 false host-a []",
		"auth-svc 2 true host-b [db]",
		"api 4 false host-b [db cache auth-svc]",
		"web 4 false host-c [api]",
		"worker 2 false host-c [db cache]",
		"search 2 false host-d [cache]",
		"batch-report 1 false host-d [db]",
		"metrics-agent 1 false host-d []",
		"session-cache 2 false host-e []",
		"payment-svc 3 false host-f [session-cache]",
	}, lines)
	sessionCache, payment := w.Services[9], w.Services[10]
	assert.Equal(t, []float64{96, 41}, []float64{sessionCache.Metrics["memory_used_pct"], sessionCache.Metrics["hit_rate_pct"]})
	assert.InDelta(t, 9.8, payment.Metrics["error_rate_pct"], 0)
	assert.Equal(t, []string{"3.8.0", "3.7.9"}, []string{payment.Version, payment.PreviousVersion})
}

// dependents walks the graph from the direct services of a rehearsal.
func dependents(g *blastdoor.Graph, targets []string) int {
	seen := make(map[int32]bool)
	var queue []int32
	for _, name := range targets {
		if n, ok := g.Number(name); ok && !g.IsHost(n) {
			seen[n] = true
			queue = append(queue, n)
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, n := range g.Dependents(queue[0]) {
			if !seen[n] {
				seen[n] = true
				queue = append(queue, n)
			}
		}
	}
	return len(seen)
}

func TestAffectedInDefaultWorld(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	for _, c := range []struct {
		action string
		params blastdoor.Params
		want   int
	}{
		{"restart_service", blastdoor.Params{"service": "cache"}, 5},
		{"scale_service", blastdoor.Params{"service": "auth-svc", "replicas": 4}, 3},
		{"drain_host", blastdoor.Params{"host": "host-a"}, 8},
	} {
		r := rehearse(t, env, c.action, c.params)
		assert.Equal(t, c.want, dependents(r.Graph, r.Targets), c.action)
	}
}

func TestParseWorldErrors(t *testing.T) {
	t.Parallel()
	const head = "hosts: [h1, h2]\nservices:\n"
	const a = "  - {name: a, host: h1, replicas: 1}\n"
	for _, c := range []struct {
		name, yaml, want string
		code             blastdoor.Code
	}{
		{"empty file", "", `w.yaml: params_invalid: the file is empty (hosts and services)`, blastdoor.ErrParamsInvalid},
		{"no service", "hosts: [h1]\nservices: []\n",
			`w.yaml:2: params_invalid: there is no service (list at least one under services)`, blastdoor.ErrParamsInvalid},
		{"no host", "hosts: []\nservices:\n" + a,
			`w.yaml:3: unknown_dependency: service "a" is on unknown host "h1" (a name from hosts)`, blastdoor.ErrUnknownDependency},
		{"tab", "hosts:\n\t- h1\n",
			`w.yaml:2: params_invalid: found character that cannot start any token (YAML as in worlds/default.yaml)`, blastdoor.ErrParamsInvalid},
		{"unknown key of the world", head + a + "colour: red\n",
			`w.yaml:4: params_invalid: unknown key "colour" (one of hosts, services)`, blastdoor.ErrParamsInvalid},
		{"unknown key of a service", head + "  - name: a\n    host: h1\n    replcas: 3\n",
			`w.yaml:5: params_invalid: unknown key "replcas" (one of name, replicas, protected, host, depends_on, version, previous_version, metrics)`,
			blastdoor.ErrParamsInvalid},
		{"unknown key of a dependency", head + a + "  - {name: b, host: h1, replicas: 1, depends_on: [{name: a, sort: calls}]}\n",
			`w.yaml:4: params_invalid: unknown key "sort" (one of name, kind)`, blastdoor.ErrParamsInvalid},
		{"a key twice", head + "  - name: a\n    name: b\n",
			`w.yaml:4: params_invalid: mapping key "name" already defined at line 3 (YAML as in worlds/default.yaml)`, blastdoor.ErrParamsInvalid},
		{"wrong type", head + "  - {name: a, host: h1, replicas: many}\n",
			"w.yaml:3: params_invalid: cannot unmarshal !!str `many` into int (YAML as in worlds/default.yaml)", blastdoor.ErrParamsInvalid},
		{"two documents", head + a + "---\nhosts: []\n",
			`w.yaml: params_invalid: there is more than one document (one world per file)`, blastdoor.ErrParamsInvalid},
		{"missing key", head + "  - {name: a, host: h1}\n",
			"w.yaml:3: params_invalid: service 1 has no replicas (add `replicas:`)", blastdoor.ErrParamsInvalid},
		{"a key's name as a value", head + "  - {name: replicas, host: h1}\n",
			"w.yaml:3: params_invalid: service 1 has no replicas (add `replicas:`)", blastdoor.ErrParamsInvalid},
		{"bad name", head + "  - {name: Web_1, host: h1, replicas: 1}\n",
			`w.yaml:3: params_invalid: "Web_1" is not a name (lower-case letters, digits and hyphens, at most 63, not starting with a hyphen)`,
			blastdoor.ErrParamsInvalid},
		{"duplicate service", head + a + a,
			`w.yaml:4: duplicate_id: service "a" is the second thing of that name (hosts and services each need a name of their own)`,
			blastdoor.ErrDuplicateID},
		{"service named like a host", head + "  - {name: h2, host: h1, replicas: 1}\n",
			`w.yaml:3: duplicate_id: service "h2" is the second thing of that name (hosts and services each need a name of their own)`,
			blastdoor.ErrDuplicateID},
		{"unknown host", head + "  - name: a\n    replicas: 1\n    host: h9\n",
			`w.yaml:5: unknown_dependency: service "a" is on unknown host "h9" (a name from hosts)`, blastdoor.ErrUnknownDependency},
		{"unknown dependency", head + a + "  - name: b\n    host: h1\n    replicas: 1\n    depends_on:\n      - a\n      - ghost\n",
			`w.yaml:9: unknown_dependency: service "b" depends on unknown service "ghost" (the name of a service in this world)`,
			blastdoor.ErrUnknownDependency},
		{"unknown kind", head + a + "  - {name: b, host: h1, replicas: 1, depends_on: [{name: a, kind: likes}]}\n",
			`w.yaml:4: params_invalid: dependency of "b" on "a" has unknown kind "likes" (calls, publishes or consumes)`,
			blastdoor.ErrParamsInvalid},
		{"depends on itself", head + "  - {name: a, host: h1, replicas: 1, depends_on: [a]}\n",
			`w.yaml:3: cycle: service "a" depends on itself (drop it)`, blastdoor.ErrCycle},
		{"dependency twice", head + a + "  - {name: b, host: h1, replicas: 1, depends_on: [a, {name: a}]}\n",
			`w.yaml:4: duplicate_id: service "b" names its dependency on "a" twice (once is enough)`, blastdoor.ErrDuplicateID},
		{"dependency of a strange shape", head + a + "  - {name: b, host: h1, replicas: 1, depends_on: [[a]]}\n",
			`w.yaml:4: params_invalid: a dependency is a name, or a mapping of name and kind (YAML as in worlds/default.yaml)`,
			blastdoor.ErrParamsInvalid},
		{"too many replicas", head + "  - {name: a, host: h1, replicas: 51}\n",
			`w.yaml:3: params_invalid: service "a" has 51 replicas (a whole number from 0 to 50)`, blastdoor.ErrParamsInvalid},
		{"metric that is no number", head + "  - name: a\n    host: h1\n    replicas: 1\n    metrics: {cpu_pct: .nan}\n",
			`w.yaml:6: params_invalid: service "a" has metric "cpu_pct" = NaN (a name of lower-case letters, digits and underscores, and a finite number)`,
			blastdoor.ErrParamsInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := simenv.ParseWorld("w.yaml", []byte(c.yaml))
			require.Error(t, err)
			assert.Equal(t, c.want, strings.SplitN(err.Error(), "\n", 2)[0])
			assert.Equal(t, c.code, blastdoor.CodeOf(err))
		})
	}
}

func TestParseWorldReportsAllProblems(t *testing.T) {
	t.Parallel()
	_, err := simenv.ParseWorld("w.yaml", []byte("hosts: [h1]\nservices:\n  - {name: a, host: h2, replicas: -1, depends_on: [b]}\n"))
	require.Error(t, err)
	assert.Len(t, strings.Split(err.Error(), "\n"), 3, err)
}

func TestValidateNamesThePlace(t *testing.T) {
	t.Parallel()
	w := defaultWorld(t)
	w.Services[3].DependsOn[1].Name = "ghost"
	w.Services[2].Metrics["cpu_pct"] = math.Inf(1)
	err := w.Validate()
	require.Error(t, err)
	assert.Contains(t, err.Error(), `services[3].depends_on[1]: unknown_dependency: service "api" depends on unknown service "ghost"`)
	assert.Contains(t, err.Error(), "services[2].metrics: params_invalid:")
}

func FuzzParseWorld(f *testing.F) {
	f.Add([]byte("hosts: [h1]\nservices:\n  - {name: a, host: h1, replicas: 1, depends_on: [{name: b}]}\n"))
	f.Add([]byte("hosts: &h [h1]\nservices: *h\n"))
	f.Add([]byte("- 1\n- 2\n"))
	f.Add([]byte("hosts: [h1]\nservices: &s\n  - &x {name: a, host: h1, replicas: 1}\n  - *x\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		w, err := simenv.ParseWorld("w.yaml", data)
		if err == nil {
			require.NoError(t, w.Validate())
		} else {
			require.NotEmpty(t, blastdoor.CodeOf(err))
		}
	})
}

func TestGenerateWorld(t *testing.T) {
	t.Parallel()
	w := simenv.GenerateWorld(7, 501, 1500)
	require.NoError(t, w.Validate())
	assert.Equal(t, w, simenv.GenerateWorld(7, 501, 1500), "the same seed gives the same world")
	assert.NotEqual(t, w, simenv.GenerateWorld(8, 501, 1500))
	edges := 0
	for _, s := range w.Services {
		edges += len(s.DependsOn)
	}
	assert.Equal(t, 1500, edges)

	env := openWorld(t, createWorld(t, w), simenv.Options{})
	r := rehearse(t, env, "restart_service", blastdoor.Params{"service": "svc-000000"})
	assert.Equal(t, 501, dependents(r.Graph, r.Targets), "itself and 500 dependents")
}

func TestGenerateWorldBounds(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]int{{1, 0, 0}, {2, 100, 1}, {5, 1000, 10}, {40, 780, 780}} {
		w := simenv.GenerateWorld(1, c[0], c[1])
		require.NoError(t, w.Validate())
		edges := 0
		for _, s := range w.Services {
			edges += len(s.DependsOn)
		}
		assert.Equal(t, c[2], edges, "%d services, %d edges asked for", c[0], c[1])
	}
}
