package simenv

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"blastdoor"
)

// Method is a call that a fault can strike.
type Method string

// The methods of the environment that can fail.
const (
	MethodDryRun  Method = "dry_run"
	MethodApply   Method = "apply"
	MethodLookup  Method = "lookup"
	MethodObserve Method = "observe"
)

// FaultKind says how a call goes wrong.
type FaultKind string

const (
	// FailBefore: nothing happens, and the caller gets an error that does not say so.
	FailBefore FaultKind = "fail_before"
	// FailAfter: the call does its work, but its answer is lost: an error instead.
	FailAfter FaultKind = "fail_after"
	// HangBefore: nothing happens, and the call does not return until its context ends.
	HangBefore FaultKind = "hang_before"
	// HangAfter: the call does its work, but does not return until its context ends.
	HangAfter FaultKind = "hang_after"
	// Unavailable: nothing happens, and the error says ErrUnavailable.
	Unavailable FaultKind = "unavailable"
	// LookupUnknown: Lookup answers OutcomeUnknown, without an error.
	LookupUnknown FaultKind = "lookup_unknown"
	// IgnoreKeys is a negative control and nothing else: the whole environment
	// behaves like an infrastructure without keys and versions. The ledger takes
	// any number of effects under one key, Lookup always answers NotApplied,
	// versions are neither compared nor moved, plans are not compared, and a
	// rehearsal does not show the restart counters. With it a test shows that it
	// would notice a doubled write. It has no method and no count; it lasts until
	// ClearFaults.
	IgnoreKeys FaultKind = "ignore_keys"
)

// Fault is one scripted fault. It is stored in the world's file, so that another
// process can set it. Faults of one method strike in the order they were added.
type Fault struct {
	Method Method    // empty for IgnoreKeys only
	Kind   FaultKind // LookupUnknown strikes MethodLookup only
	Times  int       // how often it strikes; 0: each time until ClearFaults
	Fired  int       // how often it has struck; not an input
}

// ErrFault is in the chain of every error that FailBefore or FailAfter caused.
var ErrFault = errors.New("connection reset (scripted fault)")

// AddFault scripts a fault; a combination that makes no sense is ErrUsage.
func (e *Env) AddFault(ctx context.Context, f Fault) error {
	if err := f.check(); err != nil {
		return err
	}
	return e.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO faults (method, kind, times) VALUES (?, ?, ?)`,
			string(f.Method), string(f.Kind), f.Times)
		if err != nil {
			return fmt.Errorf("adding fault %s: %w", f.Kind, err)
		}
		return nil
	})
}

func (f Fault) check() error {
	if f.Times < 0 {
		return blastdoor.Errorf(blastdoor.ErrUsage, "a fault cannot strike %d times", f.Times)
	}
	switch f.Kind {
	case IgnoreKeys:
		if f.Method != "" || f.Times != 0 {
			return blastdoor.Errorf(blastdoor.ErrUsage, "%s concerns the whole environment: it has no method and no count", f.Kind)
		}
		return nil
	case LookupUnknown:
		if f.Method != MethodLookup {
			return blastdoor.Errorf(blastdoor.ErrUsage, "%s can strike %s only", f.Kind, MethodLookup)
		}
	case FailBefore, FailAfter, HangBefore, HangAfter, Unavailable:
	default:
		return blastdoor.Errorf(blastdoor.ErrUsage, "there is no fault %q", f.Kind)
	}
	switch f.Method {
	case MethodDryRun, MethodApply, MethodLookup, MethodObserve:
		return nil
	default:
		return blastdoor.Errorf(blastdoor.ErrUsage, "there is no method %q", f.Method)
	}
}

// ClearFaults removes all faults, IgnoreKeys too. A call that hangs already goes
// on hanging until its context ends.
func (e *Env) ClearFaults(ctx context.Context) error {
	return e.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM faults`)
		return err
	})
}

// Faults returns the scripted faults, the used-up ones too, in the order they were added.
func (e *Env) Faults(ctx context.Context) ([]Fault, error) {
	tx, err := e.reader.BeginTx(ctx, nil)
	if err != nil {
		return nil, e.unavailable(err)
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	var out []Fault
	err = eachRow(ctx, tx, `SELECT method, kind, times, fired FROM faults ORDER BY id`, func(r *sql.Rows) error {
		var f Fault
		if err := r.Scan(&f.Method, &f.Kind, &f.Times, &f.Fired); err != nil {
			return err
		}
		out = append(out, f)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading faults: %w", err)
	}
	return out, nil
}

// strike uses up one stroke of the oldest fault of a method, durably, so that two
// processes do not both feel it. The returned fault has no kind when there is none.
func (e *Env) strike(ctx context.Context, m Method) (Fault, error) {
	var f Fault
	err := e.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, `UPDATE faults SET fired = fired + 1
			WHERE id = (SELECT min(id) FROM faults WHERE method = ? AND (times = 0 OR fired < times))
			RETURNING method, kind, times, fired`, string(m)).Scan(&f.Method, &f.Kind, &f.Times, &f.Fired)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	return f, err
}

// underFaults looks at the world and does the work of a call, unless a scripted
// fault has it otherwise. Without faults that is one short query.
func underFaults[T any](ctx context.Context, e *Env, m Method, work func(view) (T, error)) (T, error) {
	var none T
	v, err := e.look(ctx)
	if err != nil {
		return none, err
	}
	if !v.faults {
		return work(v)
	}
	f, err := e.strike(ctx, m)
	if err != nil {
		return none, e.unavailable(err)
	}
	if f.Kind == "" {
		// The faults have ended while this call waited for its turn; the world may have moved too.
		if v, err = e.look(ctx); err != nil {
			return none, err
		}
		return work(v)
	}
	if f.Kind == FailAfter || f.Kind == HangAfter {
		// Whatever the answer was, it is lost.
		_, _ = work(v)
	}
	e.onFault(f)
	switch f.Kind {
	case LookupUnknown:
		return none, nil
	case Unavailable:
		return none, e.unavailable(ErrFault)
	case HangBefore, HangAfter:
		<-ctx.Done()
		return none, fmt.Errorf("%s of the simulated infrastructure: %w", m, ctx.Err())
	default:
		return none, fmt.Errorf("%s of the simulated infrastructure: %w", m, ErrFault)
	}
}
