package simenv_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"blastdoor"
	"blastdoor/simenv"
)

// writeUntilKilled is the child of TestKilledWhileWriting: it makes one write
// after the other and prints the key of each that was acknowledged.
func writeUntilKilled(path, round string) int {
	ctx := context.Background()
	env, err := simenv.Open(ctx, path, simenv.Options{})
	for i := 0; err == nil; i++ {
		key := fmt.Sprintf("round-%s-%d", round, i)
		if err = writeOne(ctx, env, key, i); err == nil {
			fmt.Println(key)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// writeOne goes through all kinds of writes. Nobody opens a drained host again, so
// that only the first drains find something to do; then it restarts something.
func writeOne(ctx context.Context, env *simenv.Env, key string, i int) error {
	requests := []struct {
		action string
		params blastdoor.Params
	}{
		{"drain_host", blastdoor.Params{"host": "host-" + string(rune('a'+i/4%5))}}, // host-f stays open
		{"restart_service", blastdoor.Params{"service": "cache"}},
		{"scale_service", blastdoor.Params{"service": "web", "replicas": i % 50}},
		{"rollout_restart", blastdoor.Params{"service": "payment-svc"}},
	}
	r := requests[i%len(requests)]
	p, err := planFor(ctx, env, r.action, r.params)
	if blastdoor.ErrNothingToDo.Is(err) {
		p, err = planFor(ctx, env, "restart_service", blastdoor.Params{"service": "api"})
	}
	if err == nil {
		_, err = env.Apply(ctx, key, p)
	}
	return err
}

// TestKilledWhileWriting kills a writing process with SIGKILL again and again.
// Afterwards every acknowledged write is in the ledger once, and the state of the
// world is exactly what the ledger says. (A kill does not lose what the kernel
// has; only a cut of the power would tell whether the writes were synced.)
func TestKilledWhileWriting(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Parallel()
	w := defaultWorld(t)
	path := createWorld(t, w)
	var acknowledged []string
	for round := range 8 {
		acknowledged = append(acknowledged, killAfter(t, path, round, 5+7*round)...)
	}
	env := openWorld(t, path, simenv.Options{})
	effects := ledger(t, env)
	count := make(map[string]int)
	for _, e := range effects {
		count[e.Key]++
	}
	for _, key := range acknowledged {
		assert.Equal(t, 1, count[key], key)
		outcome, _, err := env.Lookup(t.Context(), key)
		require.NoError(t, err)
		assert.Equal(t, blastdoor.OutcomeApplied, outcome)
	}
	assert.GreaterOrEqual(t, len(effects), len(acknowledged))
	require.NoError(t, agrees(t.Context(), env, w))

	// Negative control: a state that the ledger does not account for is noticed.
	require.NoError(t, env.SetReplicas(t.Context(), "db", 9))
	require.Error(t, agrees(t.Context(), env, w))
}

// killAfter starts a child and kills it once it has acknowledged n writes. It
// returns all keys that were acknowledged.
func killAfter(t *testing.T, path string, round, n int) []string {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), childEnv+"="+path, childEnv+"_ROUND="+strconv.Itoa(round))
	var stderr strings.Builder
	child.Stderr = &stderr
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	var keys []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		keys = append(keys, lines.Text())
		if len(keys) == n {
			require.NoError(t, child.Process.Kill())
		}
	}
	require.Error(t, child.Wait(), "it was killed")
	require.GreaterOrEqual(t, len(keys), n, stderr.String())
	return keys
}

// agrees plays the ledger over the world at its start and reports an error when
// the state is not the same.
func agrees(ctx context.Context, env *simenv.Env, start simenv.World) error {
	effects, err := env.Ledger(ctx)
	if err != nil {
		return err
	}
	want := make(map[[2]string]string)
	for _, h := range start.Hosts {
		want[[2]string{h, "schedulable"}] = "true"
	}
	for _, s := range start.Services {
		for field, value := range fields(simenv.ServiceState{Service: s}) {
			want[[2]string{s.Name, field}] = value
		}
	}
	for _, e := range effects {
		for _, c := range e.Changes {
			place := [2]string{c.Target, c.Field}
			if want[place] != c.Before {
				return fmt.Errorf("effect %d found %v at %s, the ledger before it says %s", e.Seq, place, c.Before, want[place])
			}
			want[place] = c.After
		}
	}
	got, err := currentFields(ctx, env)
	if err != nil {
		return err
	}
	for place, value := range want {
		if got[place] != value {
			return fmt.Errorf("%v is %s, the ledger says %s", place, got[place], value)
		}
	}
	return nil
}

func fields(s simenv.ServiceState) map[string]string {
	return map[string]string{"replicas": strconv.Itoa(s.Replicas), "host": s.Host,
		"restarts": strconv.FormatInt(s.Restarts, 10), "rollouts": strconv.FormatInt(s.Rollouts, 10)}
}

func currentFields(ctx context.Context, env *simenv.Env) (map[[2]string]string, error) {
	services, err := env.Services(ctx)
	if err != nil {
		return nil, err
	}
	hosts, err := env.Hosts(ctx)
	if err != nil {
		return nil, err
	}
	got := make(map[[2]string]string)
	for _, s := range services {
		for field, value := range fields(s) {
			got[[2]string{s.Name, field}] = value
		}
	}
	for _, h := range hosts {
		got[[2]string{h.Name, "schedulable"}] = strconv.FormatBool(h.Schedulable)
	}
	return got, nil
}
