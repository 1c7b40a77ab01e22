package simenv_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"blastdoor"
	"blastdoor/simenv"
)

// call makes one call of a method and returns its error.
func call(ctx context.Context, env *simenv.Env, m simenv.Method, p blastdoor.Plan) error {
	var err error
	switch m {
	case simenv.MethodDryRun:
		_, err = env.DryRun(ctx, p.Action, p.Params)
	case simenv.MethodApply:
		_, err = env.Apply(ctx, "key", p)
	case simenv.MethodLookup:
		_, _, err = env.Lookup(ctx, "key")
	case simenv.MethodObserve:
		_, err = env.Observe(ctx, "list_services", nil)
	}
	return err
}

var methods = []simenv.Method{simenv.MethodDryRun, simenv.MethodApply, simenv.MethodLookup, simenv.MethodObserve}

// TestFaults: each kind on each method fails as it says, once, and of Apply leaves
// the effect that it says.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, m := range methods {
		for _, c := range []struct {
			kind   simenv.FaultKind
			want   error
			code   blastdoor.Code
			landed int
		}{
			{simenv.FailBefore, simenv.ErrFault, "", 0},
			{simenv.FailAfter, simenv.ErrFault, "", 1},
			{simenv.HangBefore, context.Canceled, "", 0},
			{simenv.HangAfter, context.Canceled, "", 1},
			{simenv.Unavailable, simenv.ErrFault, blastdoor.ErrUnavailable, 0},
		} {
			t.Run(string(m)+" "+string(c.kind), func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				path := createWorld(t, defaultWorld(t))
				var struck []simenv.Fault
				env := openWorld(t, path, simenv.Options{OnFault: func(f simenv.Fault) {
					struck = append(struck, f)
					cancel() // ends a hanging call; the others have failed by themselves
				}})
				p := plan(t, env, "restart_service", blastdoor.Params{"service": "cache"})
				other := openWorld(t, path, simenv.Options{}) // as another process
				require.NoError(t, other.AddFault(t.Context(), simenv.Fault{Method: m, Kind: c.kind, Times: 1}))

				err := call(ctx, env, m, p)
				require.ErrorIs(t, err, c.want)
				assert.Equal(t, c.code, blastdoor.CodeOf(err))
				assert.Equal(t, []simenv.Fault{{Method: m, Kind: c.kind, Times: 1, Fired: 1}}, struck)
				if m == simenv.MethodApply {
					assert.Len(t, ledger(t, env), c.landed)
				} else {
					assert.Empty(t, ledger(t, env))
				}
				require.NoError(t, call(t.Context(), env, m, p), "the fault is used up")
			})
		}
	}
}

func TestFaultsStrikeInOrderAndOnlyTheirMethod(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	ctx := t.Context()
	p := plan(t, env, "restart_service", blastdoor.Params{"service": "cache"})
	for _, f := range []simenv.Fault{
		{Method: simenv.MethodApply, Kind: simenv.FailBefore, Times: 2},
		{Method: simenv.MethodApply, Kind: simenv.Unavailable, Times: 1},
		{Method: simenv.MethodObserve, Kind: simenv.FailBefore, Times: 1},
	} {
		require.NoError(t, env.AddFault(ctx, f))
	}
	require.NoError(t, call(ctx, env, simenv.MethodDryRun, p))
	var codes []blastdoor.Code
	for range 3 {
		err := call(ctx, env, simenv.MethodApply, p)
		require.ErrorIs(t, err, simenv.ErrFault)
		codes = append(codes, blastdoor.CodeOf(err))
	}
	assert.Equal(t, []blastdoor.Code{"", "", blastdoor.ErrUnavailable}, codes)
	require.NoError(t, call(ctx, env, simenv.MethodApply, p))
	faults, err := env.Faults(ctx)
	require.NoError(t, err)
	assert.Equal(t, []int{2, 1, 0}, []int{faults[0].Fired, faults[1].Fired, faults[2].Fired})
}

func TestFaultWithoutCountStaysUntilCleared(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	require.NoError(t, env.AddFault(t.Context(), simenv.Fault{Method: simenv.MethodLookup, Kind: simenv.LookupUnknown}))
	for range 3 {
		outcome, receipt, err := env.Lookup(t.Context(), "key")
		require.NoError(t, err)
		assert.Equal(t, blastdoor.OutcomeUnknown, outcome)
		assert.Zero(t, receipt)
	}
	require.NoError(t, env.ClearFaults(t.Context()))
	outcome, _, err := env.Lookup(t.Context(), "key")
	require.NoError(t, err)
	assert.Equal(t, blastdoor.OutcomeNotApplied, outcome)
}

// TestLostAnswerIsFoundAgain: after a write whose answer was lost, Lookup knows,
// and a second write under the key is the first one.
func TestLostAnswerIsFoundAgain(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	require.NoError(t, env.AddFault(t.Context(), simenv.Fault{Method: simenv.MethodApply, Kind: simenv.FailAfter, Times: 1}))
	p := plan(t, env, "restart_service", blastdoor.Params{"service": "cache"})
	require.ErrorIs(t, call(t.Context(), env, simenv.MethodApply, p), simenv.ErrFault)
	outcome, receipt, err := env.Lookup(t.Context(), "key")
	require.NoError(t, err)
	assert.Equal(t, blastdoor.OutcomeApplied, outcome)
	again, err := env.Apply(t.Context(), "key", p)
	require.NoError(t, err)
	receipt.Replayed = true
	assert.Equal(t, receipt, again)
	assert.Len(t, ledger(t, env), 1)
}

// TestIgnoreKeys: the negative control does what a naive infrastructure does, so
// that a doubled write can be seen at all.
func TestIgnoreKeys(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	ctx := t.Context()
	require.NoError(t, env.AddFault(ctx, simenv.Fault{Kind: simenv.IgnoreKeys}))
	restart := blastdoor.Params{"service": "cache"}
	before := rehearse(t, env, "restart_service", restart)
	assert.Empty(t, before.Versions)
	p := plan(t, env, "restart_service", restart)
	for range 2 {
		receipt, err := env.Apply(ctx, "key", p)
		require.NoError(t, err)
		assert.Equal(t, "key", receipt.Key)
		assert.False(t, receipt.Replayed)
		outcome, _, err := env.Lookup(ctx, "key")
		require.NoError(t, err)
		assert.Equal(t, blastdoor.OutcomeNotApplied, outcome)
	}
	l := ledger(t, env)
	assert.Equal(t, []string{"key", "key"}, []string{l[0].Key, l[1].Key})
	s := service(t, env, "cache")
	assert.Equal(t, []int64{2, 1}, []int64{s.Restarts, s.Revision}, "restarted twice, no version moved")
	after := rehearse(t, env, "restart_service", restart)
	assert.Equal(t, before.Changes, after.Changes, "the counter does not show")

	drain := plan(t, env, "drain_host", blastdoor.Params{"host": "host-a"})
	for range 2 {
		_, err := env.Apply(ctx, "drain", drain)
		require.NoError(t, err, "a second drain does nothing, and is done all the same")
	}
	assert.Len(t, ledger(t, env), 4)

	require.NoError(t, env.ClearFaults(ctx))
	assert.Equal(t, map[string]string{"cache": "1"}, rehearse(t, env, "restart_service", restart).Versions)
}

func TestAddFaultRefusals(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	for _, f := range []simenv.Fault{
		{},
		{Method: simenv.MethodApply},
		{Kind: simenv.FailAfter},
		{Method: "reboot", Kind: simenv.FailAfter},
		{Method: simenv.MethodApply, Kind: "explode"},
		{Method: simenv.MethodApply, Kind: simenv.FailAfter, Times: -1},
		{Method: simenv.MethodApply, Kind: simenv.LookupUnknown},
		{Method: simenv.MethodApply, Kind: simenv.IgnoreKeys},
		{Kind: simenv.IgnoreKeys, Times: 1},
	} {
		assert.Equal(t, blastdoor.ErrUsage, blastdoor.CodeOf(env.AddFault(t.Context(), f)), "%+v", f)
	}
	faults, err := env.Faults(t.Context())
	require.NoError(t, err)
	assert.Empty(t, faults)
}

// TestEndedContext: a call that is not begun says so, and Lookup does not guess.
func TestEndedContext(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	p := plan(t, env, "restart_service", blastdoor.Params{"service": "cache"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, m := range methods {
		err := call(ctx, env, m, p)
		require.ErrorIs(t, err, context.Canceled, m)
		assert.Equal(t, blastdoor.ErrUnavailable, blastdoor.CodeOf(err), m)
	}
	outcome, _, _ := env.Lookup(ctx, "key")
	assert.Equal(t, blastdoor.OutcomeUnknown, outcome)
	assert.Empty(t, ledger(t, env))
}

// TestGivingUpDuringAWrite: a caller whose context ends in the middle of a write
// still gets the receipt. The clock is read inside the transaction, which is
// where this context is ended.
func TestGivingUpDuringAWrite(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	path := createWorld(t, defaultWorld(t))
	p := plan(t, openWorld(t, path, simenv.Options{}), "restart_service", blastdoor.Params{"service": "cache"})
	env := openWorld(t, path, simenv.Options{Now: func() time.Time { cancel(); return then() }})
	receipt, err := env.Apply(ctx, "key", p)
	require.NoError(t, err)
	assert.Equal(t, "effect-1", receipt.Effect)
	require.Error(t, ctx.Err())
	assert.Len(t, ledger(t, env), 1)
}
