package engine

import (
	"context"
	"time"

	"blastdoor"
)

// Environment is where actions happen. It may be asked by many goroutines at once.
type Environment interface {
	// Actions returns the closed table of what the environment can do.
	Actions() []blastdoor.Action

	// Observe performs a read. It must never change anything.
	Observe(ctx context.Context, action string, params blastdoor.Params) (blastdoor.Observation, error)

	// DryRun rehearses a write. It must never change anything. Twice in the same
	// world it must answer the same. A write that would change nothing is
	// ErrNothingToDo; an environment that cannot be asked is ErrUnavailable.
	DryRun(ctx context.Context, action string, params blastdoor.Params) (blastdoor.Rehearsal, error)

	// Apply writes what the plan says, under an idempotency key that the
	// environment enforces in the same transaction as the change. Twice with one
	// key it has the effect of once and returns the first receipt, marked as
	// replayed. It must fail with ErrWorldMoved, having written nothing, when a
	// version in plan.Versions has moved. ErrNotApplied and ErrWorldMoved say for
	// certain that nothing was written; any other error means "unknown".
	Apply(ctx context.Context, key string, plan blastdoor.Plan) (blastdoor.Receipt, error)

	// Lookup says what became of a key. It must answer OutcomeUnknown rather than
	// guess, also while a write under the key may still be on its way: NotApplied
	// lets a run end, and a write that lands after that is nobody's. The receipt is
	// set for OutcomeApplied.
	Lookup(ctx context.Context, key string) (blastdoor.Outcome, blastdoor.Receipt, error)
}

// Planner proposes. Its output is data; it decides nothing.
type Planner interface {
	Propose(ctx context.Context, run blastdoor.Run, step blastdoor.StepState) (blastdoor.Proposal, error)
}

// Journal is the durable history. It is the only source of truth.
type Journal interface {
	// Begin opens a run with its first events (At must be 0). The same source id
	// must return the same run, and then nothing is written but the settling of
	// the inbox row. The returned bool is true when the run is new.
	Begin(ctx context.Context, sourceID string, c blastdoor.Commit) (string, bool, error)

	// Commit appends. It must be all or nothing and durable on return. It must
	// fail with ErrConflict when the history is not c.At long or c.Settles is
	// settled already, and with ErrTargetLocked when another run holds a target of
	// c.Projection.Flight; then nothing is written. An approval row that has been
	// consumed can never be consumed again: that too is ErrConflict.
	Commit(ctx context.Context, c blastdoor.Commit) error

	// Load returns the whole history of a run, its hash chain verified and held
	// against the projection; ErrIntegrity when it does not verify, ErrNotFound
	// when there is none.
	Load(ctx context.Context, runID string) ([]blastdoor.Event, error)

	// Unfinished returns the ids of all runs that have not ended.
	Unfinished(ctx context.Context) ([]string, error)

	// Document returns the body stored under a digest, verified against it.
	Document(ctx context.Context, digest string) ([]byte, error)
}

// Board is what the engine must know of other runs and of posted messages.
type Board interface {
	// InFlight returns the live intents of all runs.
	InFlight(ctx context.Context) ([]blastdoor.Flight, error)

	// Posted returns the address of a delivered message: ErrNotPosted while its
	// posting is under way or due, ErrNotFound when there is no such delivery.
	Posted(ctx context.Context, deliveryID string) (blastdoor.MessageRef, error)

	// Settle marks an inbox row as answered without touching a run, adding
	// deliveries; ErrConflict when it is settled already.
	Settle(ctx context.Context, inboxID string, deliveries []blastdoor.Delivery) error
}

// Directory says who a principal is, fresh. Any failure must be an error: a
// doubtful answer is no answer.
type Directory interface {
	// Person looks the user up. The answer is for this very id, or an error.
	Person(ctx context.Context, userID, teamID string) (blastdoor.Principal, error)

	// Groups returns those of the given user groups that the user is a member of.
	// A disabled or unknown group has no members.
	Groups(ctx context.Context, userID string, groups []string) ([]string, error)
}

// Catalogue is what people wrote: the runbooks and the policy of now. It reads
// them fresh, so that a freeze begun a second ago counts.
type Catalogue interface {
	Runbook(ctx context.Context, name string) (blastdoor.Runbook, error) // ErrNotFound, with the nearest name in Want
	Policy(ctx context.Context) (blastdoor.Policy, error)
	// Resolve converts typed inputs and replaces ${{ inputs.x }}; ErrParamsInvalid or ErrUnknownInput.
	Resolve(rb blastdoor.Runbook, inputs map[string]string) (blastdoor.Params, []blastdoor.Step, error)
	// ValidateParams checks parameters against the action's schema; ErrParamsInvalid.
	ValidateParams(action blastdoor.Action, params blastdoor.Params) error
}

// Clock says what time it is. Timers are package time's.
type Clock func() time.Time
