package simenv_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"blastdoor"
	"blastdoor/simenv"
)

// childEnv tells a copy of the test binary to write to a world until it is killed.
const childEnv = "SIMENV_TEST_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		os.Exit(writeUntilKilled(path, os.Getenv(childEnv+"_ROUND")))
	}
	goleak.VerifyTestMain(m)
}

// then is the time of the tests' clock.
func then() time.Time { return time.Date(2026, 3, 14, 3, 9, 26, 535, time.UTC) }

func createWorld(t testing.TB, w simenv.World) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "world.db")
	require.NoError(t, simenv.Create(t.Context(), path, w))
	return path
}

func openWorld(t testing.TB, path string, opts simenv.Options) *simenv.Env {
	t.Helper()
	if opts.Now == nil {
		opts.Now = then
	}
	env, err := simenv.Open(t.Context(), path, opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, env.Close()) })
	return env
}

func defaultWorld(t testing.TB) simenv.World {
	t.Helper()
	w, err := simenv.DefaultWorld()
	require.NoError(t, err)
	return w
}

// newEnv opens the default world in a file of its own.
func newEnv(t testing.TB) *simenv.Env {
	t.Helper()
	return openWorld(t, createWorld(t, defaultWorld(t)), simenv.Options{})
}

func rehearse(t testing.TB, env *simenv.Env, action string, params blastdoor.Params) blastdoor.Rehearsal {
	t.Helper()
	r, err := env.DryRun(t.Context(), action, params)
	require.NoError(t, err)
	return r
}

// planFor rehearses a write and makes a plan of it, as far as an environment cares.
func planFor(ctx context.Context, env *simenv.Env, action string, params blastdoor.Params) (blastdoor.Plan, error) {
	r, err := env.DryRun(ctx, action, params)
	return blastdoor.Plan{Action: action, Kind: blastdoor.Write, Params: params, Targets: r.Targets,
		Changes: r.Changes, Versions: r.Versions}, err
}

func plan(t testing.TB, env *simenv.Env, action string, params blastdoor.Params) blastdoor.Plan {
	t.Helper()
	p, err := planFor(t.Context(), env, action, params)
	require.NoError(t, err)
	return p
}

func snapshot(t testing.TB, env *simenv.Env) string {
	t.Helper()
	s, err := env.Snapshot(t.Context())
	require.NoError(t, err)
	return string(s)
}

func ledger(t testing.TB, env *simenv.Env) []simenv.Effect {
	t.Helper()
	l, err := env.Ledger(t.Context())
	require.NoError(t, err)
	return l
}

func service(t testing.TB, env *simenv.Env, name string) simenv.ServiceState {
	t.Helper()
	all, err := env.Services(t.Context())
	require.NoError(t, err)
	for _, s := range all {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("there is no service %s", name)
	return simenv.ServiceState{}
}

func host(t testing.TB, env *simenv.Env, name string) simenv.HostState {
	t.Helper()
	all, err := env.Hosts(t.Context())
	require.NoError(t, err)
	for _, h := range all {
		if h.Name == name {
			return h
		}
	}
	t.Fatalf("there is no host %s", name)
	return simenv.HostState{}
}
