package simenv

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"blastdoor"
)

// Apply performs a plan under an idempotency key. The ledger row, the comparison
// of versions and the change are one transaction: all of it or nothing.
//
// ErrNotApplied and ErrWorldMoved say for certain that nothing was written; after
// any other error the caller must ask Lookup. A key that was used before gives
// the first receipt, marked as replayed, whatever has happened since; used for
// another action or other parameters it is ErrNotApplied.
func (e *Env) Apply(ctx context.Context, key string, plan blastdoor.Plan) (blastdoor.Receipt, error) {
	w, err := newWrite(key, plan)
	if err != nil {
		return blastdoor.Receipt{}, err
	}
	return underFaults(ctx, e, MethodApply, func(view) (blastdoor.Receipt, error) {
		var receipt blastdoor.Receipt
		err := e.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
			var err error
			receipt, err = e.applyOnce(ctx, tx, w)
			return err
		})
		if err != nil {
			return blastdoor.Receipt{}, err
		}
		return receipt, nil
	})
}

// write is one call of Apply, checked as far as that goes without the world.
type write struct {
	key    string
	req    request
	params string // canonical JSON
	plan   blastdoor.Plan
}

func newWrite(key string, plan blastdoor.Plan) (write, error) {
	if key == "" {
		return write{}, blastdoor.Errorf(blastdoor.ErrNotApplied, "there is no idempotency key")
	}
	if plan.Fault != nil {
		return write{}, blastdoor.Errorf(blastdoor.ErrNotApplied, "the plan has a fault: %s", plan.Fault.Code)
	}
	req, err := parseRequest(plan.Action, blastdoor.Write, plan.Params)
	if err != nil {
		return write{}, notApplied("the plan cannot be performed", err)
	}
	params, err := blastdoor.CanonicalJSON(plan.Params)
	if err != nil {
		return write{}, notApplied("the plan cannot be performed", err)
	}
	return write{key: key, req: req, params: string(params), plan: plan}, nil
}

func notApplied(msg string, cause error) error {
	return &blastdoor.Error{Code: blastdoor.ErrNotApplied, Msg: msg, Err: cause}
}

// applyOnce is the body of the transaction. A second call waits for the first
// one's commit (the transaction is immediate), and then finds the ledger row.
func (e *Env) applyOnce(ctx context.Context, tx *sql.Tx, w write) (blastdoor.Receipt, error) {
	st, err := scanState(tx.StmtContext(ctx, e.stmt.writerState).QueryRowContext(ctx))
	if err != nil {
		return blastdoor.Receipt{}, err
	}
	if !st.ignoreKeys {
		first, err := scanEffect(tx.StmtContext(ctx, e.stmt.writerFindEffect).QueryRowContext(ctx, w.key))
		if err == nil {
			return replay(first, w)
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return blastdoor.Receipt{}, err
		}
	}
	snap := e.cached.Load()
	if snap == nil || snap.version != st.version {
		if snap, err = loadSnapshot(ctx, tx, st.version); err != nil {
			return blastdoor.Receipt{}, err
		}
	}
	now, err := snap.rehearse(w.req)
	if st.ignoreKeys {
		return e.performBlindly(ctx, tx, w, now, err)
	}
	if err := compare(w.plan, now, err); err != nil {
		return blastdoor.Receipt{}, err
	}
	if err := e.perform(ctx, tx, now); err != nil {
		return blastdoor.Receipt{}, err
	}
	return e.record(ctx, tx, w.key, w, now.changes)
}

func replay(first effectRow, w write) (blastdoor.Receipt, error) {
	if first.action != w.req.action || first.params != w.params {
		return blastdoor.Receipt{}, blastdoor.Errorf(blastdoor.ErrNotApplied,
			"the key was used for %s %s, so it cannot be used for %s %s", first.action, first.params, w.req.action, w.params)
	}
	receipt := first.receipt()
	receipt.Replayed = true
	return receipt, nil
}

// compare holds the plan against the rehearsal of this very moment. It demands
// the same set of versions, not only equal ones: a plan that names fewer than it
// should (a service has come to the host since) must not pass either.
func compare(plan blastdoor.Plan, now rehearsal, err error) error {
	if blastdoor.ErrNothingToDo.Is(err) || blastdoor.ErrNotFound.Is(err) {
		return &blastdoor.Error{Code: blastdoor.ErrWorldMoved, Msg: "the plan no longer fits the world", Err: err}
	}
	if err != nil {
		return notApplied("the plan cannot be performed", err)
	}
	if !maps.Equal(plan.Versions, now.versions) {
		return blastdoor.Errorf(blastdoor.ErrWorldMoved, "moved since the rehearsal: %s",
			strings.Join(moved(plan.Versions, now.versions), ", "))
	}
	if !slices.Equal(plan.Changes, now.changes) {
		return blastdoor.Errorf(blastdoor.ErrWorldMoved, "the write would no longer change what the plan says")
	}
	return nil
}

// moved lists the names whose versions differ, or are on one side only.
func moved(expected, actual map[string]string) []string {
	var names []string
	for name, version := range actual {
		if expected[name] != version {
			names = append(names, name)
		}
	}
	for name := range expected {
		if _, ok := actual[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// changeSQL returns the statement of each field that a write may change. Each
// repeats the value before, so that it changes one row or none.
func changeSQL() map[string]string {
	return map[string]string{
		fieldRestarts:           `UPDATE services SET restarts = CAST(?3 AS INTEGER) WHERE name = ?1 AND restarts = CAST(?2 AS INTEGER)`,
		fieldRollouts:           `UPDATE services SET rollouts = CAST(?3 AS INTEGER) WHERE name = ?1 AND rollouts = CAST(?2 AS INTEGER)`,
		blastdoor.FieldReplicas: `UPDATE services SET replicas = CAST(?3 AS INTEGER) WHERE name = ?1 AND replicas = CAST(?2 AS INTEGER)`,
		fieldHost:               `UPDATE services SET host = ?3 WHERE name = ?1 AND host = ?2`,
		fieldSchedulable:        `UPDATE hosts SET schedulable = (?3 = 'true') WHERE name = ?1 AND schedulable = (?2 = 'true')`,
	}
}

// perform makes the changes and moves the versions that they were conditional on.
func (e *Env) perform(ctx context.Context, tx *sql.Tx, r rehearsal) error {
	if err := e.change(ctx, tx, r.changes); err != nil {
		return err
	}
	for name := range r.versions {
		for _, bump := range []*sql.Stmt{e.stmt.bumpService, e.stmt.bumpHost} { // a name is one or the other
			if _, err := tx.StmtContext(ctx, bump).ExecContext(ctx, name); err != nil {
				return fmt.Errorf("moving the version of %s: %w", name, err)
			}
		}
	}
	return nil
}

func (e *Env) change(ctx context.Context, tx *sql.Tx, changes []blastdoor.Change) error {
	for _, c := range changes {
		result, err := tx.StmtContext(ctx, e.stmt.change[c.Field]).ExecContext(ctx, c.Target, c.Before, c.After)
		if err != nil {
			return fmt.Errorf("changing %s of %s: %w", c.Field, c.Target, err)
		}
		if n, err := result.RowsAffected(); err != nil || n != 1 {
			return blastdoor.Errorf(blastdoor.ErrIntegrity, "changing %s of %s from %s to %s touched %d rows (%v)",
				c.Field, c.Target, c.Before, c.After, n, err)
		}
	}
	_, err := tx.StmtContext(ctx, e.stmt.bumpWorld).ExecContext(ctx)
	return err
}

// performBlindly is what happens under IgnoreKeys: no key, no comparison, no
// versions. A write that changes nothing is performed and recorded all the same.
func (e *Env) performBlindly(ctx context.Context, tx *sql.Tx, w write, now rehearsal, err error) (blastdoor.Receipt, error) {
	if err != nil && !blastdoor.ErrNothingToDo.Is(err) {
		return blastdoor.Receipt{}, notApplied("the plan cannot be performed", err)
	}
	if err := e.change(ctx, tx, now.changes); err != nil {
		return blastdoor.Receipt{}, err
	}
	var next int64
	if err := tx.QueryRowContext(ctx, `SELECT coalesce(max(seq), 0) + 1 FROM effects`).Scan(&next); err != nil {
		return blastdoor.Receipt{}, fmt.Errorf("numbering an effect: %w", err)
	}
	return e.record(ctx, tx, fmt.Sprintf("%s (unenforced %d)", w.key, next), w, now.changes)
}

// record appends the ledger row and returns its receipt.
func (e *Env) record(ctx context.Context, tx *sql.Tx, enforcedKey string, w write, changes []blastdoor.Change) (blastdoor.Receipt, error) {
	if changes == nil {
		changes = []blastdoor.Change{}
	}
	text, err := blastdoor.CanonicalJSON(changes)
	if err != nil {
		return blastdoor.Receipt{}, err
	}
	row := effectRow{key: w.key, action: w.req.action, params: w.params, at: e.now().UTC().Round(0), summary: summary(w.req, changes)}
	result, err := tx.StmtContext(ctx, e.stmt.insertEffect).ExecContext(ctx,
		enforcedKey, row.key, row.action, row.params, string(text), formatTime(row.at), row.summary)
	if err != nil {
		return blastdoor.Receipt{}, fmt.Errorf("appending to the ledger: %w", err)
	}
	if row.seq, err = result.LastInsertId(); err != nil {
		return blastdoor.Receipt{}, fmt.Errorf("appending to the ledger: %w", err)
	}
	return row.receipt(), nil
}
