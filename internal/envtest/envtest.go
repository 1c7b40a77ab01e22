// Package envtest holds every implementation of the engine's Environment port to
// the sentences on that port: each must and each never is one check. A check is a
// function that returns an error, so that a test can also show that it notices an
// environment that breaks the sentence. The package must not know of the engine
// or of any particular environment.
package envtest

import (
	"context"
	"fmt"
	"testing"

	"blastdoor"
)

// Environment is the port, by shape.
type Environment interface {
	Actions() []blastdoor.Action
	Observe(ctx context.Context, action string, params blastdoor.Params) (blastdoor.Observation, error)
	DryRun(ctx context.Context, action string, params blastdoor.Params) (blastdoor.Rehearsal, error)
	Apply(ctx context.Context, key string, plan blastdoor.Plan) (blastdoor.Receipt, error)
	Lookup(ctx context.Context, key string) (blastdoor.Outcome, blastdoor.Receipt, error)
}

// Request is an action with parameters.
type Request struct {
	Action string
	Params blastdoor.Params
}

// Harness is one environment in a world of its own, and what a check must be able
// to do to it. Every field is needed.
type Harness struct {
	Env Environment
	// Write is possible, and is possible again after it has been made.
	Write Request
	// Other is another possible write.
	Other Request
	// NoOp is a write that would change nothing.
	NoOp Request
	// Read is a read.
	Read Request
	// Move changes something that Write is conditional on.
	Move func(ctx context.Context) error
	// Effects returns the key of every effect that ever happened, oldest first.
	Effects func(ctx context.Context) ([]string, error)
	// State returns the state of the world in a form that can be compared.
	State func(ctx context.Context) (string, error)
	// Break makes the environment impossible to ask, for good.
	Break func() error
}

// Check is one sentence of the port.
type Check struct {
	Name string
	Run  func(ctx context.Context, h Harness) error
}

// Run holds an environment to every check, each in a world of its own.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	for _, c := range Checks() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			if err := c.Run(t.Context(), open(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

// Checks returns all checks.
func Checks() []Check {
	return []Check{
		{"the table of actions is closed and its schemas are strict", checkActions},
		{"an action outside the table is refused", checkUnknownAction},
		{"Observe must never change anything", checkObserveChangesNothing},
		{"Observe refuses a write", checkObserveRefusesWrite},
		{"DryRun must never change anything", checkDryRunChangesNothing},
		{"DryRun refuses a read", checkDryRunRefusesRead},
		{"DryRun twice in the same world must answer the same", checkDryRunRepeats},
		{"DryRun after the world moved answers with other versions", checkDryRunSeesMoves},
		{"DryRun names its targets, versions and graph whole", checkRehearsalWhole},
		{"a write that would change nothing is ErrNothingToDo", checkNothingToDo},
		{"an environment that cannot be asked is ErrUnavailable", checkUnavailable},
		{"Apply has one effect and returns its receipt", checkApply},
		{"Apply twice with one key has the effect of once", checkApplyTwice},
		{"Apply with a used key returns the first receipt even after the world moved", checkReplayAfterMove},
		{"Apply many times at once with one key has the effect of once", checkApplyAtOnce},
		{"Apply with a used key for another write is ErrNotApplied", checkKeyReuse},
		{"Apply must fail with ErrWorldMoved when a version has moved", checkWorldMoved},
		{"of many writes at once on the same versions one wins", checkOneWins},
		{"after ErrWorldMoved the key is still unused", checkKeyUnusedAfterMove},
		{"Apply of a read is ErrNotApplied", checkApplyRefusesRead},
		{"Lookup says what became of a key", checkLookup},
		{"Lookup must answer Unknown rather than guess", checkLookupUnknown},
	}
}

// seal rehearses a request and makes a plan of it, as far as an environment cares.
func seal(ctx context.Context, env Environment, step string, r Request) (blastdoor.Plan, error) {
	rehearsal, err := env.DryRun(ctx, r.Action, r.Params)
	if err != nil {
		return blastdoor.Plan{}, fmt.Errorf("rehearsing %s: %w", r.Action, err)
	}
	return blastdoor.Plan{RunID: "envtest", StepID: step, Action: r.Action, Kind: blastdoor.Write, Params: r.Params,
		Targets: rehearsal.Targets, Changes: rehearsal.Changes, Versions: rehearsal.Versions}, nil
}

// apply rehearses a request and applies it under a key.
func apply(ctx context.Context, env Environment, key string, r Request) (blastdoor.Plan, blastdoor.Receipt, error) {
	plan, err := seal(ctx, env, key, r)
	if err != nil {
		return plan, blastdoor.Receipt{}, err
	}
	receipt, err := env.Apply(ctx, key, plan)
	if err != nil {
		return plan, receipt, fmt.Errorf("applying %s: %w", r.Action, err)
	}
	return plan, receipt, nil
}

// world is everything that a call might have changed.
type world struct {
	state   string
	effects []string
}

func observe(ctx context.Context, h Harness) (world, error) {
	state, err := h.State(ctx)
	if err != nil {
		return world{}, fmt.Errorf("reading the state: %w", err)
	}
	effects, err := h.Effects(ctx)
	if err != nil {
		return world{}, fmt.Errorf("reading the effects: %w", err)
	}
	return world{state, effects}, nil
}

// unchanged runs do and reports an error when the world is not as it was.
func unchanged(ctx context.Context, h Harness, do func() error) error {
	before, err := observe(ctx, h)
	if err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	after, err := observe(ctx, h)
	if err != nil {
		return err
	}
	if after.state != before.state {
		return fmt.Errorf("the state changed\nfrom %s\nto   %s", before.state, after.state)
	}
	if len(after.effects) != len(before.effects) {
		return fmt.Errorf("the effects went from %q to %q", before.effects, after.effects)
	}
	return nil
}

// refused runs do, which must fail with the code and change nothing.
func refused(ctx context.Context, h Harness, want blastdoor.Code, do func() error) error {
	return unchanged(ctx, h, func() error {
		if err := do(); !want.Is(err) {
			return fmt.Errorf("got error %v, want %s", err, want)
		}
		return nil
	})
}

func wantEffects(ctx context.Context, h Harness, want int) error {
	effects, err := h.Effects(ctx)
	if err != nil {
		return fmt.Errorf("reading the effects: %w", err)
	}
	if len(effects) != want {
		return fmt.Errorf("got effects %q, want %d", effects, want)
	}
	return nil
}
