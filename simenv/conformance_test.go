package simenv_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"blastdoor"
	"blastdoor/internal/envtest"
	"blastdoor/simenv"
)

func harness(env *simenv.Env) envtest.Harness {
	restart := envtest.Request{Action: "restart_service", Params: blastdoor.Params{"service": "cache"}}
	return envtest.Harness{
		Env:   env,
		Write: restart,
		Other: envtest.Request{Action: "scale_service", Params: blastdoor.Params{"service": "web", "replicas": 5}},
		NoOp:  envtest.Request{Action: "scale_service", Params: blastdoor.Params{"service": "web", "replicas": 4}},
		Read:  envtest.Request{Action: "get_metrics", Params: blastdoor.Params{"service": "cache"}},
		Move:  func(ctx context.Context) error { return env.SetReplicas(ctx, "cache", 7) },
		Effects: func(ctx context.Context) ([]string, error) {
			ledger, err := env.Ledger(ctx)
			var keys []string
			for _, e := range ledger {
				keys = append(keys, e.Key)
			}
			return keys, err
		},
		State: func(ctx context.Context) (string, error) {
			s, err := env.Snapshot(ctx)
			return string(s), err
		},
		Break: env.Close,
	}
}

func TestConformance(t *testing.T) {
	envtest.Run(t, func(t *testing.T) envtest.Harness { return harness(newEnv(t)) })
}

// TestConformanceNegativeControls breaks each sentence of the port on purpose:
// its check must notice.
func TestConformanceNegativeControls(t *testing.T) {
	controls := breakers()
	for _, check := range envtest.Checks() {
		t.Run(check.Name, func(t *testing.T) {
			t.Parallel()
			broken, ok := controls[check.Name]
			require.True(t, ok, "this check has no negative control")
			env := newEnv(t)
			h := harness(env)
			b := broken
			b.Env, b.sim = env, env
			h.Env = &b
			if b.unbreakable {
				h.Break = func() error { return nil } // the broken environment goes on answering
			}
			assert.Error(t, check.Run(t.Context(), h))
		})
	}
	assert.Len(t, controls, len(envtest.Checks()), "a control without a check")
}

// breaker is the simulated environment with some methods replaced.
type breaker struct {
	*simenv.Env
	sim     *simenv.Env
	actions func() []blastdoor.Action
	observe func(b *breaker, ctx context.Context, action string, p blastdoor.Params) (blastdoor.Observation, error)
	dryRun  func(b *breaker, ctx context.Context, action string, p blastdoor.Params) (blastdoor.Rehearsal, error)
	apply   func(b *breaker, ctx context.Context, key string, plan blastdoor.Plan) (blastdoor.Receipt, error)
	lookup  func(b *breaker, ctx context.Context, key string) (blastdoor.Outcome, blastdoor.Receipt, error)
	// unbreakable: Break does nothing, the environment goes on answering.
	unbreakable bool

	calls *atomic.Int64
	mu    *sync.Mutex
}

func (b *breaker) Actions() []blastdoor.Action {
	if b.actions != nil {
		return b.actions()
	}
	return b.sim.Actions()
}

func (b *breaker) Observe(ctx context.Context, action string, p blastdoor.Params) (blastdoor.Observation, error) {
	if b.observe != nil {
		return b.observe(b, ctx, action, p)
	}
	return b.sim.Observe(ctx, action, p)
}

func (b *breaker) DryRun(ctx context.Context, action string, p blastdoor.Params) (blastdoor.Rehearsal, error) {
	if b.dryRun != nil {
		return b.dryRun(b, ctx, action, p)
	}
	return b.sim.DryRun(ctx, action, p)
}

func (b *breaker) Apply(ctx context.Context, key string, plan blastdoor.Plan) (blastdoor.Receipt, error) {
	if b.apply != nil {
		return b.apply(b, ctx, key, plan)
	}
	return b.sim.Apply(ctx, key, plan)
}

func (b *breaker) Lookup(ctx context.Context, key string) (blastdoor.Outcome, blastdoor.Receipt, error) {
	if b.lookup != nil {
		return b.lookup(b, ctx, key)
	}
	return b.sim.Lookup(ctx, key)
}

// forceApply writes whatever the world looks like, under a key nobody else has.
func forceApply(b *breaker, ctx context.Context, key string, p blastdoor.Plan) (blastdoor.Receipt, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fresh, err := planFor(ctx, b.sim, p.Action, p.Params)
	if err != nil {
		return blastdoor.Receipt{}, err
	}
	r, err := b.sim.Apply(ctx, fmt.Sprintf("%s/%d", key, b.calls.Add(1)), fresh)
	r.Key = key
	return r, err
}

// forceWorldMoved writes and says that it did not.
func forceWorldMoved(b *breaker, ctx context.Context, key string, p blastdoor.Plan) (blastdoor.Receipt, error) {
	if r, err := b.sim.Apply(ctx, key, p); !blastdoor.ErrWorldMoved.Is(err) {
		return r, err
	}
	_, _ = forceApply(b, ctx, key, p)
	return blastdoor.Receipt{}, blastdoor.Errorf(blastdoor.ErrWorldMoved, "moved")
}

// firstOf remembers nothing and calls every receipt a first one.
func firstOf(b *breaker, ctx context.Context, key string, p blastdoor.Plan) (blastdoor.Receipt, error) {
	r, err := b.sim.Apply(ctx, key, p)
	r.Replayed = false
	return r, err
}

func changeSomething(b *breaker, ctx context.Context) error {
	return b.sim.SetMetric(ctx, "cache", "touched", 1)
}

func breakers() map[string]breaker {
	counted := func(b breaker) breaker {
		b.calls, b.mu = new(atomic.Int64), new(sync.Mutex)
		return b
	}
	doubleApply := counted(breaker{apply: forceApply})
	lookupGuess := func(*breaker, context.Context, string) (blastdoor.Outcome, blastdoor.Receipt, error) {
		return blastdoor.OutcomeNotApplied, blastdoor.Receipt{}, nil
	}
	m := map[string]breaker{
		"the table of actions is closed and its schemas are strict": {actions: func() []blastdoor.Action {
			all := simenv.Actions()
			delete(all[0].Schema, "additionalProperties")
			return all
		}},
		"Apply has one effect and returns its receipt": {apply: func(b *breaker, ctx context.Context, key string, p blastdoor.Plan) (blastdoor.Receipt, error) {
			return blastdoor.Receipt{Key: key, Effect: "none", Summary: "Nothing.", At: then()}, nil
		}},
		"Apply twice with one key has the effect of once":                            doubleApply,
		"Apply many times at once with one key has the effect of once":               counted(breaker{apply: forceApply}),
		"Apply with a used key returns the first receipt even after the world moved": {apply: firstOf},
		"Apply with a used key for another write is ErrNotApplied":                   counted(breaker{apply: forceApply}),
		"Apply must fail with ErrWorldMoved when a version has moved":                counted(breaker{apply: forceWorldMoved}),
		"of many writes at once on the same versions one wins":                       counted(breaker{apply: forceApply}),
		"after ErrWorldMoved the key is still unused":                                counted(breaker{apply: forceWorldMoved}),
		"Lookup says what became of a key":                                           {lookup: lookupGuess},
		"Lookup must answer Unknown rather than guess":                               {lookup: lookupGuess, unbreakable: true},
		"Apply of a read is ErrNotApplied": {apply: func(b *breaker, ctx context.Context, key string, p blastdoor.Plan) (blastdoor.Receipt, error) {
			return blastdoor.Receipt{Key: key}, nil
		}},
		"an environment that cannot be asked is ErrUnavailable": {unbreakable: true, dryRun: func(*breaker, context.Context, string, blastdoor.Params) (blastdoor.Rehearsal, error) {
			return blastdoor.Rehearsal{}, nil
		}},
	}
	readBreakers(m)
	return m
}

func readBreakers(m map[string]breaker) {
	answerAll := breaker{
		observe: func(*breaker, context.Context, string, blastdoor.Params) (blastdoor.Observation, error) {
			return blastdoor.Observation{Summary: "fine"}, nil
		},
		dryRun: func(*breaker, context.Context, string, blastdoor.Params) (blastdoor.Rehearsal, error) {
			return blastdoor.Rehearsal{}, nil
		},
	}
	for _, name := range []string{"an action outside the table is refused", "Observe refuses a write",
		"DryRun refuses a read", "a write that would change nothing is ErrNothingToDo",
		"DryRun names its targets, versions and graph whole", "DryRun after the world moved answers with other versions"} {
		m[name] = answerAll
	}
	m["Observe must never change anything"] = breaker{observe: func(b *breaker, ctx context.Context, action string, p blastdoor.Params) (blastdoor.Observation, error) {
		if err := changeSomething(b, ctx); err != nil {
			return blastdoor.Observation{}, err
		}
		return b.sim.Observe(ctx, action, p)
	}}
	touching := func(b *breaker, ctx context.Context, action string, p blastdoor.Params) (blastdoor.Rehearsal, error) {
		if err := changeSomething(b, ctx); err != nil {
			return blastdoor.Rehearsal{}, err
		}
		return b.sim.DryRun(ctx, action, p)
	}
	m["DryRun must never change anything"] = breaker{dryRun: touching}
	m["DryRun twice in the same world must answer the same"] = breaker{dryRun: func(b *breaker, ctx context.Context, action string, p blastdoor.Params) (blastdoor.Rehearsal, error) {
		r, err := b.sim.DryRun(ctx, action, p)
		if err == nil {
			err = b.sim.SetReplicas(ctx, "cache", 9)
		}
		return r, err
	}}
}
