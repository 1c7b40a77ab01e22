package simenv_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"blastdoor"
	"blastdoor/simenv"
)

func TestApplyScale(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	params := blastdoor.Params{"service": "auth-svc", "replicas": 4}
	receipt, err := env.Apply(t.Context(), "bd1-1", plan(t, env, "scale_service", params))
	require.NoError(t, err)
	assert.Equal(t, blastdoor.Receipt{Key: "bd1-1", Effect: "effect-1", At: then(),
		Summary: "Scaled auth-svc from 2 to 4 replicas."}, receipt)
	s := service(t, env, "auth-svc")
	assert.Equal(t, 4, s.Replicas)
	assert.Equal(t, int64(2), s.Revision)
	assert.Equal(t, []simenv.Effect{{Seq: 1, Key: "bd1-1", Action: "scale_service",
		Params:  blastdoor.Params{"service": "auth-svc", "replicas": 4.0},
		Changes: []blastdoor.Change{{Target: "auth-svc", Field: "replicas", Before: "2", After: "4"}},
		At:      then(), Summary: "Scaled auth-svc from 2 to 4 replicas."}}, ledger(t, env))
}

func TestApplyDrain(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	receipt, err := env.Apply(t.Context(), "key", plan(t, env, "drain_host", blastdoor.Params{"host": "host-a"}))
	require.NoError(t, err)
	assert.Equal(t, "Drained host-a: cache moved to host-e, db moved to host-f.", receipt.Summary)
	assert.Equal(t, "host-e", service(t, env, "cache").Host)
	assert.Equal(t, "host-f", service(t, env, "db").Host)
	assert.False(t, host(t, env, "host-a").Schedulable)
	for _, name := range []string{"host-a", "host-e", "host-f"} {
		assert.Equal(t, int64(2), host(t, env, name).Revision, name)
	}
	assert.Equal(t, int64(1), host(t, env, "host-b").Revision, "not concerned")
	_, err = env.DryRun(t.Context(), "drain_host", blastdoor.Params{"host": "host-a"})
	assert.Equal(t, blastdoor.ErrNothingToDo, blastdoor.CodeOf(err))
}

func TestApplyRestarts(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	for i, action := range []string{"restart_service", "restart_service", "rollout_restart"} {
		_, err := env.Apply(t.Context(), fmt.Sprint("key-", i), plan(t, env, action, blastdoor.Params{"service": "cache"}))
		require.NoError(t, err)
	}
	s := service(t, env, "cache")
	assert.Equal(t, []int64{2, 1, 4}, []int64{s.Restarts, s.Rollouts, s.Revision})
	l := ledger(t, env)
	assert.Equal(t, "Restarted cache.", l[1].Summary)
	assert.Equal(t, "Restarted cache one replica after the other.", l[2].Summary)
}

func TestDrainOfManyServicesHasShortSummary(t *testing.T) {
	t.Parallel()
	w := simenv.World{Hosts: []string{"h1", "h2"}}
	for i := range 8 {
		w.Services = append(w.Services, simenv.Service{Name: fmt.Sprint("s", i), Host: "h1", Replicas: 1})
	}
	env := openWorld(t, createWorld(t, w), simenv.Options{})
	receipt, err := env.Apply(t.Context(), "key", plan(t, env, "drain_host", blastdoor.Params{"host": "h1"}))
	require.NoError(t, err)
	assert.Equal(t, "Drained h1: s0 moved to h2, s1 moved to h2, s2 moved to h2, s3 moved to h2, s4 moved to h2, 3 more moved.", receipt.Summary)
}

// TestApplyOutlivesTheProcess: the first receipt comes back from a world that was
// closed and opened again, with the time of the first write.
func TestApplyOutlivesTheProcess(t *testing.T) {
	t.Parallel()
	path := createWorld(t, defaultWorld(t))
	env, err := simenv.Open(t.Context(), path, simenv.Options{Now: then})
	require.NoError(t, err)
	p := plan(t, env, "restart_service", blastdoor.Params{"service": "cache"})
	first, err := env.Apply(t.Context(), "key", p)
	require.NoError(t, err)
	require.NoError(t, env.Close())

	again := openWorld(t, path, simenv.Options{})
	second, err := again.Apply(t.Context(), "key", p)
	require.NoError(t, err)
	first.Replayed = true
	assert.Equal(t, first, second)
	assert.Len(t, ledger(t, again), 1)
}

// TestApplyComparesThePlan: a plan that is not what a rehearsal of this moment
// says is refused, and nothing is written.
func TestApplyComparesThePlan(t *testing.T) {
	t.Parallel()
	drain := blastdoor.Params{"host": "host-a"}
	for _, c := range []struct {
		name   string
		spoil  func(p *blastdoor.Plan)
		want   blastdoor.Code
		useKey string
	}{
		{"no key", func(p *blastdoor.Plan) {}, blastdoor.ErrNotApplied, ""},
		{"no versions", func(p *blastdoor.Plan) { p.Versions = nil }, blastdoor.ErrWorldMoved, "k"},
		{"a version left out", func(p *blastdoor.Plan) { delete(p.Versions, "db") }, blastdoor.ErrWorldMoved, "k"},
		{"a version too many", func(p *blastdoor.Plan) { p.Versions["web"] = "1" }, blastdoor.ErrWorldMoved, "k"},
		{"another version", func(p *blastdoor.Plan) { p.Versions["host-f"] = "2" }, blastdoor.ErrWorldMoved, "k"},
		{"a change left out", func(p *blastdoor.Plan) { p.Changes = p.Changes[:2] }, blastdoor.ErrWorldMoved, "k"},
		{"another change", func(p *blastdoor.Plan) { p.Changes[1].After = "host-b" }, blastdoor.ErrWorldMoved, "k"},
		{"another host", func(p *blastdoor.Plan) { p.Params = blastdoor.Params{"host": "host-b"} }, blastdoor.ErrWorldMoved, "k"},
		{"an unknown host", func(p *blastdoor.Plan) { p.Params = blastdoor.Params{"host": "ghost"} }, blastdoor.ErrWorldMoved, "k"},
		{"bad parameters", func(p *blastdoor.Plan) { p.Params = blastdoor.Params{"host": 1} }, blastdoor.ErrNotApplied, "k"},
		{"an unknown action", func(p *blastdoor.Plan) { p.Action = "explode" }, blastdoor.ErrNotApplied, "k"},
		{"a fault", func(p *blastdoor.Plan) { p.Fault = &blastdoor.Reason{Code: blastdoor.DryRunFailed} }, blastdoor.ErrNotApplied, "k"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			env := newEnv(t)
			before := snapshot(t, env)
			p := plan(t, env, "drain_host", drain)
			p.Versions = maps.Clone(p.Versions)
			c.spoil(&p)
			_, err := env.Apply(t.Context(), c.useKey, p)
			assert.Equal(t, c.want, blastdoor.CodeOf(err), "%v", err)
			assert.Equal(t, before, snapshot(t, env))
			assert.Empty(t, ledger(t, env))
		})
	}
}

func TestKeyReuseSaysSo(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	_, err := env.Apply(t.Context(), "key", plan(t, env, "restart_service", blastdoor.Params{"service": "cache"}))
	require.NoError(t, err)
	_, err = env.Apply(t.Context(), "key", plan(t, env, "restart_service", blastdoor.Params{"service": "web"}))
	assert.Equal(t, blastdoor.ErrNotApplied, blastdoor.CodeOf(err))
	assert.ErrorContains(t, err, `the key was used for restart_service {"service":"cache"}, so it cannot be used for restart_service {"service":"web"}`)
}

// TestTwoProcessesOneKey: the key holds between processes, not only between the
// goroutines of one.
func TestTwoProcessesOneKey(t *testing.T) {
	t.Parallel()
	path := createWorld(t, defaultWorld(t))
	envs := []*simenv.Env{openWorld(t, path, simenv.Options{}), openWorld(t, path, simenv.Options{})}
	p := plan(t, envs[0], "restart_service", blastdoor.Params{"service": "cache"})
	var group sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		group.Go(func() { _, errs[i] = envs[i%2].Apply(t.Context(), "key", p) })
	}
	group.Wait()
	require.NoError(t, errors.Join(errs...))
	assert.Len(t, ledger(t, envs[0]), 1)
	assert.Equal(t, int64(1), service(t, envs[1], "cache").Restarts)
}

// TestReadersDuringWrites: a rehearsal always sees one state of the world, never
// half of a write: its versions and its changes belong together.
func TestReadersDuringWrites(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	done := make(chan error, 1)
	go func() {
		for i := range 50 {
			p, err := planFor(t.Context(), env, "restart_service", blastdoor.Params{"service": "cache"})
			if err == nil {
				_, err = env.Apply(t.Context(), fmt.Sprint("key-", i), p)
			}
			if err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for finished := false; !finished; {
		select {
		case err := <-done:
			require.NoError(t, err)
			finished = true
		default:
		}
		r := rehearse(t, env, "restart_service", blastdoor.Params{"service": "cache"})
		require.Equal(t, r.Changes[0].After, r.Versions["cache"], "after n restarts the revision is n+1")
	}
	assert.Equal(t, int64(50), service(t, env, "cache").Restarts)
}

// TestStoredWorldIsGuarded: the file itself refuses what no code path should do.
func TestStoredWorldIsGuarded(t *testing.T) {
	t.Parallel()
	path := createWorld(t, defaultWorld(t))
	env := openWorld(t, path, simenv.Options{})
	_, err := env.Apply(t.Context(), "key", plan(t, env, "restart_service", blastdoor.Params{"service": "cache"}))
	require.NoError(t, err)
	db := rawDB(t, filepath.Clean(path))
	for _, c := range []struct{ query, want string }{
		{`UPDATE effects SET summary = 'nothing happened'`, "the ledger is append-only"},
		{`DELETE FROM effects`, "the ledger is append-only"},
		{`INSERT OR REPLACE INTO effects SELECT * FROM effects`, "the ledger holds this key already"},
		{`INSERT INTO effects SELECT seq + 1, enforced_key, key, action, params, changes, at, summary FROM effects`, "the ledger holds this key already"},
		{`INSERT INTO effects SELECT seq + 1, 'k2', '', action, params, changes, at, summary FROM effects`, "CHECK"},
		{`INSERT INTO effects SELECT seq + 1, 'k2', 'k2', 'explode', params, changes, at, summary FROM effects`, "CHECK"},
		{`UPDATE world SET version = version`, "the version of the world only grows"},
		{`UPDATE services SET revision = 1 WHERE name = 'cache'`, "a revision only grows"},
		{`UPDATE hosts SET revision = 0`, "a revision only grows"},
		{`UPDATE services SET replicas = 51`, "CHECK"},
		{`UPDATE services SET replicas = 'many'`, "cannot store TEXT value in INTEGER column"},
		{`UPDATE services SET host = 'ghost'`, "FOREIGN KEY"},
		{`INSERT INTO hosts VALUES ('Host A', 1, 1)`, "CHECK"},
		{`INSERT INTO dependencies VALUES ('web', 'web', 'calls')`, "CHECK"},
		{`INSERT INTO dependencies VALUES ('web', 'db', 'likes')`, "CHECK"},
		{`INSERT INTO faults (method, kind, times) VALUES ('apply', 'ignore_keys', 0)`, "CHECK"},
		{`INSERT INTO faults (method, kind, times) VALUES ('', 'fail_after', 1)`, "CHECK"},
		{`INSERT INTO faults (method, kind, times) VALUES ('apply', 'lookup_unknown', 1)`, "CHECK"},
		{`INSERT INTO faults (method, kind, times, fired) VALUES ('apply', 'fail_after', 1, 2)`, "CHECK"},
		{`INSERT INTO world VALUES (2, 1)`, "CHECK"},
	} {
		_, err := db.ExecContext(t.Context(), c.query)
		assert.ErrorContains(t, err, c.want, c.query)
	}
}

// TestApplyIsAllOrNothing: when the ledger does not take the row, the change that
// was made before it in the same transaction is gone too.
func TestApplyIsAllOrNothing(t *testing.T) {
	t.Parallel()
	path := createWorld(t, defaultWorld(t))
	env := openWorld(t, path, simenv.Options{})
	_, err := rawDB(t, path).ExecContext(t.Context(), `CREATE TRIGGER full BEFORE INSERT ON effects
		WHEN NEW.key = 'unlucky' BEGIN SELECT RAISE(ABORT, 'the ledger is full'); END`)
	require.NoError(t, err)
	before := snapshot(t, env)
	p := plan(t, env, "drain_host", blastdoor.Params{"host": "host-a"})
	_, err = env.Apply(t.Context(), "unlucky", p)
	require.ErrorContains(t, err, "the ledger is full")
	assert.Equal(t, before, snapshot(t, env))
	outcome, _, err := env.Lookup(t.Context(), "unlucky")
	require.NoError(t, err)
	assert.Equal(t, blastdoor.OutcomeNotApplied, outcome)

	_, err = env.Apply(t.Context(), "lucky", p)
	require.NoError(t, err)
	assert.NotEqual(t, before, snapshot(t, env))
}

// TestWritesChangeWhatTheySay makes many random writes: each changes exactly what
// its plan said, and moves exactly the versions that it was conditional on.
func TestWritesChangeWhatTheySay(t *testing.T) {
	t.Parallel()
	const seed = 42
	rng := rand.New(rand.NewPCG(seed, 0))
	w := simenv.GenerateWorld(seed, 30, 60)
	env := openWorld(t, createWorld(t, w), simenv.Options{})
	for i := range 200 {
		name := w.Services[rng.IntN(len(w.Services))].Name
		r := []request{
			{"restart_service", blastdoor.Params{"service": name}},
			{"rollout_restart", blastdoor.Params{"service": name}},
			{"scale_service", blastdoor.Params{"service": name, "replicas": rng.IntN(51)}},
			{"drain_host", blastdoor.Params{"host": w.Hosts[rng.IntN(len(w.Hosts))]}},
		}[rng.IntN(4)]
		if rng.IntN(3) == 0 {
			require.NoError(t, env.SetSchedulable(t.Context(), w.Hosts[rng.IntN(len(w.Hosts))], true))
		}
		p, err := planFor(t.Context(), env, r.action, r.params)
		if blastdoor.ErrNothingToDo.Is(err) || blastdoor.ErrNotApplied.Is(err) {
			continue // drained already, or no other host is open
		}
		require.NoError(t, err)
		before, revisions := everything(t, env)
		for _, c := range p.Changes {
			place := [2]string{c.Target, c.Field}
			require.Equal(t, before[place], c.Before)
			before[place] = c.After
		}
		for target := range p.Versions {
			revisions[target]++
		}
		_, err = env.Apply(t.Context(), fmt.Sprint("key-", i), p)
		require.NoError(t, err)
		after, revisionsAfter := everything(t, env)
		require.Equal(t, before, after, "seed %d, write %d: %v", seed, i, r)
		require.Equal(t, revisions, revisionsAfter, "seed %d, write %d: %v", seed, i, r)
	}
	assert.Greater(t, len(ledger(t, env)), 120)
}

type request struct {
	action string
	params blastdoor.Params
}

// everything returns all fields that writes can change, and all revisions.
func everything(t *testing.T, env *simenv.Env) (map[[2]string]string, map[string]int64) {
	t.Helper()
	values, err := currentFields(t.Context(), env)
	require.NoError(t, err)
	services, err := env.Services(t.Context())
	require.NoError(t, err)
	hosts, err := env.Hosts(t.Context())
	require.NoError(t, err)
	revisions := make(map[string]int64)
	for _, s := range services {
		revisions[s.Name] = s.Revision
	}
	for _, h := range hosts {
		revisions[h.Name] = h.Revision
	}
	return values, revisions
}
