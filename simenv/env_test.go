package simenv_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"blastdoor"
	"blastdoor/simenv"
)

func TestDryRun(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	for _, c := range []struct {
		action   string
		params   blastdoor.Params
		targets  []string
		changes  []blastdoor.Change
		versions map[string]string
	}{
		{"restart_service", blastdoor.Params{"service": "cache"}, []string{"cache"},
			[]blastdoor.Change{{Target: "cache", Field: "restarts", Before: "0", After: "1"}}, map[string]string{"cache": "1"}},
		{"rollout_restart", blastdoor.Params{"service": "web"}, []string{"web"},
			[]blastdoor.Change{{Target: "web", Field: "rollouts", Before: "0", After: "1"}}, map[string]string{"web": "1"}},
		{"scale_service", blastdoor.Params{"service": "db", "replicas": 0}, []string{"db"},
			[]blastdoor.Change{{Target: "db", Field: "replicas", Before: "3", After: "0"}}, map[string]string{"db": "1"}},
		{"drain_host", blastdoor.Params{"host": "host-a"}, []string{"cache", "db", "host-a"},
			[]blastdoor.Change{
				{Target: "host-a", Field: "schedulable", Before: "true", After: "false"},
				{Target: "cache", Field: "host", Before: "host-a", After: "host-e"}, // 2 replicas there, the fewest
				{Target: "db", Field: "host", Before: "host-a", After: "host-f"},    // 3, for host-e has 4 by now
			}, map[string]string{"host-a": "1", "cache": "1", "db": "1", "host-e": "1", "host-f": "1"}},
	} {
		t.Run(c.action, func(t *testing.T) {
			t.Parallel()
			r := rehearse(t, env, c.action, c.params)
			assert.Equal(t, c.targets, r.Targets)
			assert.Equal(t, c.changes, r.Changes)
			assert.Equal(t, c.versions, r.Versions)
			assert.Equal(t, then(), r.GraphAsOf)
		})
	}
}

func TestDryRunRefusals(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	require.NoError(t, env.SetSchedulable(t.Context(), "host-e", false))
	require.NoError(t, env.AddService(t.Context(), simenv.Service{Name: "spare", Host: "host-e", Replicas: 1}))
	for _, c := range []struct {
		action string
		params blastdoor.Params
		want   blastdoor.Code
		text   string
	}{
		{"explode", nil, blastdoor.ErrUnknownAction, `there is no action "explode"`},
		{"restart_service", blastdoor.Params{"service": "ghost"}, blastdoor.ErrNotFound, `there is no service "ghost"`},
		{"restart_service", blastdoor.Params{"service": "host-a"}, blastdoor.ErrNotFound, `there is no service "host-a"`},
		{"drain_host", blastdoor.Params{"host": "cache"}, blastdoor.ErrNotFound, `there is no host "cache"`},
		{"drain_host", blastdoor.Params{"host": "web; rm -rf /"}, blastdoor.ErrParamsInvalid, `host is "web; rm -rf /"`},
		{"scale_service", blastdoor.Params{"service": "web", "replicas": 4}, blastdoor.ErrNothingToDo, "web has 4 replicas already"},
	} {
		_, err := env.DryRun(t.Context(), c.action, c.params)
		assert.Equal(t, c.want, blastdoor.CodeOf(err), "%s %v", c.action, c.params)
		assert.ErrorContains(t, err, c.text)
	}
}

func TestDrainOfClosedHost(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	drain := blastdoor.Params{"host": "host-e"}
	require.NoError(t, env.SetSchedulable(t.Context(), "host-e", false))
	assert.Equal(t, []blastdoor.Change{{Target: "session-cache", Field: "host", Before: "host-e", After: "host-f"}},
		rehearse(t, env, "drain_host", drain).Changes, "a closed host still has a service to lose")

	_, err := env.Apply(t.Context(), "key", plan(t, env, "drain_host", drain))
	require.NoError(t, err)
	_, err = env.DryRun(t.Context(), "drain_host", drain)
	assert.Equal(t, blastdoor.ErrNothingToDo, blastdoor.CodeOf(err))
}

func TestDrainWithNowhereToGo(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	for _, h := range []string{"host-b", "host-c", "host-d", "host-e", "host-f"} {
		require.NoError(t, env.SetSchedulable(t.Context(), h, false))
	}
	_, err := env.DryRun(t.Context(), "drain_host", blastdoor.Params{"host": "host-a"})
	assert.ErrorContains(t, err, "cache has nowhere to go: no other host is open")
}

func TestGraphIsSharedUntilTheWorldChanges(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	params := blastdoor.Params{"service": "metrics-agent"}
	first := rehearse(t, env, "restart_service", params)
	assert.Same(t, first.Graph, rehearse(t, env, "restart_service", params).Graph)
	assert.Equal(t, 1, dependents(first.Graph, first.Targets))

	require.NoError(t, env.AddDependency(t.Context(), "web", simenv.Dependency{Name: "metrics-agent", Kind: blastdoor.Calls}))
	second := rehearse(t, env, "restart_service", params)
	assert.NotSame(t, first.Graph, second.Graph)
	assert.Equal(t, 2, dependents(second.Graph, second.Targets), "the radius shows the new dependency")
	assert.Equal(t, 1, dependents(first.Graph, first.Targets), "and the old graph does not change")
}

// TestAnotherProcessChangesTheWorld: an environment that has the world cached
// sees what another one wrote to the same file.
func TestAnotherProcessChangesTheWorld(t *testing.T) {
	t.Parallel()
	path := createWorld(t, defaultWorld(t))
	bot, demo := openWorld(t, path, simenv.Options{}), openWorld(t, path, simenv.Options{})
	old := plan(t, bot, "restart_service", blastdoor.Params{"service": "cache"})
	require.NoError(t, demo.SetReplicas(t.Context(), "cache", 3))

	assert.Equal(t, map[string]string{"cache": "2"}, rehearse(t, bot, "restart_service", blastdoor.Params{"service": "cache"}).Versions)
	_, err := bot.Apply(t.Context(), "key", old)
	assert.Equal(t, blastdoor.ErrWorldMoved, blastdoor.CodeOf(err))
	assert.ErrorContains(t, err, "moved since the rehearsal: cache")
}

func TestObserve(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	for _, c := range []struct {
		action, service, want string
	}{
		{"get_service_status", "api", "api: 4 replicas on host-b, version 5.4.2\ndepends on auth-svc, cache, db\nrestarted 0 times, rolled out 0 times"},
		{"get_service_status", "db", "db: 3 replicas on host-a, version 15.4.0, protected\ndepends on nothing\nrestarted 0 times, rolled out 0 times"},
		{"get_metrics", "session-cache", "session-cache: cpu_pct 38, error_rate_pct 0.9, hit_rate_pct 41, mem_pct 96, memory_used_pct 96, p95_ms 21"},
	} {
		seen, err := env.Observe(t.Context(), c.action, blastdoor.Params{"service": c.service})
		require.NoError(t, err)
		assert.Equal(t, c.want, seen.Summary)
	}
	seen, err := env.Observe(t.Context(), "list_services", nil)
	require.NoError(t, err)
	assert.Len(t, seen.Data, 11)
	assert.Len(t, strings.Split(seen.Summary, "\n"), 12)

	_, err = env.Observe(t.Context(), "get_metrics", blastdoor.Params{"service": "ghost"})
	assert.Equal(t, blastdoor.ErrNotFound, blastdoor.CodeOf(err))
}

func TestObserveOfManyServicesIsShort(t *testing.T) {
	t.Parallel()
	env := openWorld(t, createWorld(t, simenv.GenerateWorld(1, 100, 200)), simenv.Options{})
	seen, err := env.Observe(t.Context(), "list_services", nil)
	require.NoError(t, err)
	lines := strings.Split(seen.Summary, "\n")
	assert.Equal(t, []string{"100 services on 14 hosts", "and 80 more"}, []string{lines[0], lines[len(lines)-1]})
	assert.Len(t, seen.Data, 100)
}

// TestAnswersAreCopies: what a caller does to an answer does not reach the next one.
func TestAnswersAreCopies(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	before := snapshot(t, env)
	all, err := env.Services(t.Context())
	require.NoError(t, err)
	for _, s := range all {
		s.Metrics["cpu_pct"] = -1
		for i := range s.DependsOn {
			s.DependsOn[i].Name = "x"
		}
	}
	seen, err := env.Observe(t.Context(), "get_metrics", blastdoor.Params{"service": "web"})
	require.NoError(t, err)
	clear(seen.Data.(map[string]float64))
	rehearse(t, env, "restart_service", blastdoor.Params{"service": "web"}).Versions["web"] = "x"
	assert.Equal(t, before, snapshot(t, env))
	assert.Equal(t, "1", rehearse(t, env, "restart_service", blastdoor.Params{"service": "web"}).Versions["web"])
}

// TestEditsMoveVersions: each edit makes the plans it concerns fail, and no others.
func TestEditsMoveVersions(t *testing.T) {
	t.Parallel()
	restart := func(s string) [2]string { return [2]string{"restart_service", s} }
	drain := func(h string) [2]string { return [2]string{"drain_host", h} }
	for _, c := range []struct {
		name        string
		edit        func(ctx context.Context, env *simenv.Env) error
		moves, keep [][2]string
	}{
		{"SetReplicas", func(ctx context.Context, env *simenv.Env) error { return env.SetReplicas(ctx, "cache", 9) },
			[][2]string{restart("cache"), drain("host-a")}, [][2]string{restart("db"), restart("api")}},
		{"SetProtected", func(ctx context.Context, env *simenv.Env) error { return env.SetProtected(ctx, "cache", true) },
			[][2]string{restart("cache"), drain("host-a")}, [][2]string{restart("db")}},
		{"SetSchedulable", func(ctx context.Context, env *simenv.Env) error { return env.SetSchedulable(ctx, "host-e", false) },
			[][2]string{drain("host-e"), drain("host-a")}, [][2]string{restart("session-cache")}},
		{"AddDependency", func(ctx context.Context, env *simenv.Env) error {
			return env.AddDependency(ctx, "payment-svc", simenv.Dependency{Name: "cache", Kind: blastdoor.Publishes})
		}, [][2]string{restart("cache"), restart("payment-svc")}, [][2]string{restart("db")}},
		{"RemoveDependency", func(ctx context.Context, env *simenv.Env) error {
			return env.RemoveDependency(ctx, "search", simenv.Dependency{Name: "cache", Kind: blastdoor.Calls})
		}, [][2]string{restart("cache"), restart("search")}, [][2]string{restart("db")}},
		{"AddService", func(ctx context.Context, env *simenv.Env) error {
			return env.AddService(ctx, simenv.Service{Name: "new", Host: "host-a", Replicas: 1,
				DependsOn: []simenv.Dependency{{Name: "db", Kind: blastdoor.Calls}}})
		}, [][2]string{drain("host-a"), restart("db")}, [][2]string{restart("cache")}},
		{"SetMetric", func(ctx context.Context, env *simenv.Env) error { return env.SetMetric(ctx, "cache", "cpu_pct", 99) },
			nil, [][2]string{restart("cache"), drain("host-a")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, w := range slices.Concat(c.moves, c.keep) {
				env := newEnv(t)
				params := blastdoor.Params{"service": w[1]}
				if w[0] == "drain_host" {
					params = blastdoor.Params{"host": w[1]}
				}
				p := plan(t, env, w[0], params)
				before := snapshot(t, env)
				require.NoError(t, c.edit(t.Context(), env))
				assert.NotEqual(t, before, snapshot(t, env), "the edit shows")
				_, err := env.Apply(t.Context(), "key", p)
				if slices.Contains(c.moves, w) {
					assert.Equal(t, blastdoor.ErrWorldMoved, blastdoor.CodeOf(err), "%v: %v", w, err)
				} else {
					assert.NoError(t, err, "%v", w)
				}
			}
		})
	}
}

func TestEditRefusals(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	before := snapshot(t, env)
	ctx := t.Context()
	for name, c := range map[string]struct {
		err  error
		want blastdoor.Code
	}{
		"replicas of a ghost":      {env.SetReplicas(ctx, "ghost", 1), blastdoor.ErrNotFound},
		"too many replicas":        {env.SetReplicas(ctx, "web", 51), blastdoor.ErrParamsInvalid},
		"protecting a ghost":       {env.SetProtected(ctx, "ghost", true), blastdoor.ErrNotFound},
		"closing a ghost":          {env.SetSchedulable(ctx, "cache", false), blastdoor.ErrNotFound},
		"metric of a ghost":        {env.SetMetric(ctx, "ghost", "cpu_pct", 1), blastdoor.ErrNotFound},
		"metric of a strange name": {env.SetMetric(ctx, "web", "CPU %", 1), blastdoor.ErrParamsInvalid},
		"dependency of a ghost":    {env.AddDependency(ctx, "ghost", simenv.Dependency{Name: "web", Kind: blastdoor.Calls}), blastdoor.ErrNotFound},
		"dependency on a ghost":    {env.AddDependency(ctx, "web", simenv.Dependency{Name: "ghost", Kind: blastdoor.Calls}), blastdoor.ErrNotFound},
		"dependency that exists":   {env.AddDependency(ctx, "web", simenv.Dependency{Name: "api", Kind: blastdoor.Calls}), blastdoor.ErrNothingToDo},
		"no such dependency":       {env.RemoveDependency(ctx, "web", simenv.Dependency{Name: "db", Kind: blastdoor.Calls}), blastdoor.ErrNotFound},
		"service that exists":      {env.AddService(ctx, simenv.Service{Name: "web", Host: "host-a", Replicas: 1}), blastdoor.ErrDuplicateID},
		"service on a ghost":       {env.AddService(ctx, simenv.Service{Name: "new", Host: "ghost", Replicas: 1}), blastdoor.ErrUnknownDependency},
	} {
		assert.Equal(t, c.want, blastdoor.CodeOf(c.err), "%s: %v", name, c.err)
	}
	assert.Equal(t, before, snapshot(t, env), "nothing was changed on the way to a refusal")
}
