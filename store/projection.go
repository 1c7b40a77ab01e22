package store

import (
	"context"
	"database/sql"
	"fmt"
	"iter"

	"blastdoor"
)

func (s *session) insertRun(sourceID string, p *blastdoor.Projection, head [32]byte) error {
	r := &p.Run
	_, err := s.exec(`INSERT INTO runs (id, source_id, runbook, requester, channel, status, ended, updated_at, wake_at, len, head)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.ID, sourceID, r.Runbook, r.Requester, r.Channel, r.Status, p.Ended, nanos(r.UpdatedAt), nanos(p.WakeAt), r.Len, head[:])
	if isConstraint(err) {
		return &blastdoor.Error{Code: blastdoor.ErrConflict, Msg: fmt.Sprintf("run %s cannot begin with status %q", r.ID, r.Status), Err: err}
	}
	if err != nil {
		return fmt.Errorf("storing run %s: %w", r.ID, err)
	}
	return nil
}

// updateRun names ended only where it changes: an UPDATE that names it writes to
// the index of unfinished runs too, which would cost a page in every commit.
func (s *session) updateRun(p *blastdoor.Projection, head [32]byte, ended bool) error {
	r := &p.Run
	query := `UPDATE runs SET status = ?, updated_at = ?, wake_at = ?, len = ?, head = ? WHERE id = ?`
	args := []any{r.Status, nanos(r.UpdatedAt), nanos(p.WakeAt), r.Len, head[:], r.ID}
	if p.Ended != ended {
		query = `UPDATE runs SET status = ?, updated_at = ?, wake_at = ?, len = ?, head = ?, ended = ? WHERE id = ?`
		args = []any{r.Status, nanos(r.UpdatedAt), nanos(p.WakeAt), r.Len, head[:], p.Ended, r.ID}
	}
	_, err := s.exec(query, args...)
	if isConstraint(err) {
		return &blastdoor.Error{Code: blastdoor.ErrConflict, Msg: fmt.Sprintf("run %s cannot become %q", r.ID, r.Status), Err: err}
	}
	if err != nil {
		return fmt.Errorf("updating run %s: %w", r.ID, err)
	}
	return nil
}

// putApproval writes an approval's row. A row that says the same already is left
// alone, so that a spent approval may be carried along by every later commit; any
// change of it is a conflict. The triggers say the same once more.
func (s *session) putApproval(runID string, a *blastdoor.ApprovalRow) error {
	if a.RunID != runID {
		return fmt.Errorf("storing approval %s: it is of run %q, not %s", a.ID, a.RunID, runID)
	}
	var old blastdoor.ApprovalRow
	var expires, consumed sql.NullInt64
	found, err := s.find(`SELECT id, run_id, step_id, plan_hash, status, expires_at, consumed_at FROM approvals WHERE id = ?`,
		[]any{a.ID}, &old.ID, &old.RunID, &old.StepID, &old.PlanHash, &old.Status, &expires, &consumed)
	if err != nil {
		return fmt.Errorf("reading approval %s: %w", a.ID, err)
	}
	if !found {
		_, err = s.exec(`INSERT INTO approvals (id, run_id, step_id, plan_hash, status, expires_at, consumed_at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
			a.ID, a.RunID, a.StepID, a.PlanHash, string(a.Status), nanos(a.ExpiresAt), nanos(a.ConsumedAt))
		return approvalError(a, err)
	}
	old.ExpiresAt, old.ConsumedAt = instant(expires), instant(consumed)
	if sameApproval(&old, a) {
		return nil
	}
	if old.Status == blastdoor.ConsumedApproval {
		return blastdoor.Errorf(blastdoor.ErrConflict, "approval %s is spent", a.ID)
	}
	// All columns are named, so that the trigger sees an attempt to bind it anew.
	_, err = s.exec(`UPDATE approvals SET run_id = ?, step_id = ?, plan_hash = ?, status = ?, expires_at = ?, consumed_at = ? WHERE id = ?`,
		a.RunID, a.StepID, a.PlanHash, string(a.Status), nanos(a.ExpiresAt), nanos(a.ConsumedAt), a.ID)
	return approvalError(a, err)
}

func approvalError(a *blastdoor.ApprovalRow, err error) error {
	if isConstraint(err) {
		return &blastdoor.Error{Code: blastdoor.ErrConflict, Msg: fmt.Sprintf("approval %s cannot become %q", a.ID, a.Status), Err: err}
	}
	if err != nil {
		return fmt.Errorf("storing approval %s: %w", a.ID, err)
	}
	return nil
}

func sameApproval(a, b *blastdoor.ApprovalRow) bool {
	return a.ID == b.ID && a.RunID == b.RunID && a.StepID == b.StepID && a.PlanHash == b.PlanHash &&
		a.Status == b.Status && a.ExpiresAt.Equal(b.ExpiresAt) && a.ConsumedAt.Equal(b.ConsumedAt)
}

// putFlight replaces the run's live intent and its locks.
func (s *session) putFlight(runID string, f *blastdoor.Flight, was bool) error {
	if was {
		if _, err := s.exec(`DELETE FROM flights WHERE run_id = ?`, runID); err != nil { // its locks go with it
			return fmt.Errorf("ending the flight of run %s: %w", runID, err)
		}
	}
	if f == nil {
		return nil
	}
	if f.RunID != runID {
		return fmt.Errorf("storing a flight: it is of run %q, not %s", f.RunID, runID)
	}
	affected, err := encodeList(f.Affected)
	if err != nil {
		return fmt.Errorf("storing the flight of run %s: %w", runID, err)
	}
	if _, err := s.exec(`INSERT INTO flights (run_id, step_id, affected) VALUES (?, ?, ?)`, runID, f.StepID, affected); err != nil {
		return fmt.Errorf("storing the flight of run %s: %w", runID, err)
	}
	for place, target := range f.Targets {
		if err := s.lock(runID, target, place); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) lock(runID, target string, place int) error {
	var holder string
	found, err := s.find(`SELECT run_id FROM locks WHERE target = ?`, []any{target}, &holder)
	if err != nil {
		return fmt.Errorf("looking at the lock of %s: %w", target, err)
	}
	if found && holder != runID {
		return &blastdoor.Error{Code: blastdoor.ErrTargetLocked, Where: target,
			Msg: "run " + holder + " is writing to it", Want: "wait until that run is done"}
	}
	if found {
		return nil // named twice
	}
	if _, err := s.exec(`INSERT INTO locks (target, run_id, place) VALUES (?, ?, ?)`, target, runID, place); err != nil {
		return fmt.Errorf("locking %s for run %s: %w", target, runID, err)
	}
	return nil
}

const selectFlights = `SELECT f.run_id, f.step_id, f.affected, l.target FROM flights f
	JOIN runs r ON r.id = f.run_id LEFT JOIN locks l ON l.run_id = f.run_id`

// readFlights gathers the rows of selectFlights, ordered by run and place.
func readFlights(ctx context.Context, q querier, query string, args ...any) ([]blastdoor.Flight, error) {
	var flights []blastdoor.Flight
	err := each(ctx, q, query, args, func(rows *sql.Rows) error {
		var runID, stepID, affected string
		var target sql.NullString
		if err := rows.Scan(&runID, &stepID, &affected, &target); err != nil {
			return err
		}
		if n := len(flights); n == 0 || flights[n-1].RunID != runID {
			names, err := decodeList(affected)
			if err != nil {
				return err
			}
			flights = append(flights, blastdoor.Flight{RunID: runID, StepID: stepID, Affected: names})
		}
		if target.Valid {
			last := &flights[len(flights)-1]
			last.Targets = append(last.Targets, target.String)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading flights: %w", err)
	}
	return flights, nil
}

// InFlight returns the live intents of all runs, in the order in which the runs began.
func (s *Store) InFlight(ctx context.Context) ([]blastdoor.Flight, error) {
	return viewed(ctx, s.read, func(q querier) ([]blastdoor.Flight, error) {
		return readFlights(ctx, q, selectFlights+` ORDER BY r.n, l.place`)
	})
}

func readApprovals(ctx context.Context, q querier, runID string) ([]blastdoor.ApprovalRow, error) {
	rows, err := collect(ctx, q, `SELECT id, run_id, step_id, plan_hash, status, expires_at, consumed_at
		FROM approvals WHERE run_id = ? ORDER BY id`, []any{runID}, func(rows *sql.Rows) (blastdoor.ApprovalRow, error) {
		var a blastdoor.ApprovalRow
		var expires, consumed sql.NullInt64
		err := rows.Scan(&a.ID, &a.RunID, &a.StepID, &a.PlanHash, &a.Status, &expires, &consumed)
		a.ExpiresAt, a.ConsumedAt = instant(expires), instant(consumed)
		return a, err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the approvals of run %s: %w", runID, err)
	}
	return rows, nil
}

// StoredProjection returns what is projected of a run, its approvals ordered by
// id, to be compared with a fold of its events; ErrNotFound when there is none.
func (s *Store) StoredProjection(ctx context.Context, runID string) (blastdoor.Projection, error) {
	return viewed(ctx, s.read, func(q querier) (blastdoor.Projection, error) { return readProjection(ctx, q, runID) })
}

func readProjection(ctx context.Context, q querier, runID string) (blastdoor.Projection, error) {
	runs, err := collect(ctx, q, selectRuns+` WHERE id = ?`, []any{runID}, scanProjection)
	if err != nil {
		return blastdoor.Projection{}, fmt.Errorf("reading run %s: %w", runID, err)
	}
	if len(runs) == 0 {
		return blastdoor.Projection{}, blastdoor.Errorf(blastdoor.ErrNotFound, "there is no run %s", runID)
	}
	p := runs[0]
	if p.Approvals, err = readApprovals(ctx, q, runID); err != nil {
		return blastdoor.Projection{}, err
	}
	flights, err := readFlights(ctx, q, selectFlights+` WHERE f.run_id = ? ORDER BY l.place`, runID)
	if err != nil {
		return blastdoor.Projection{}, err
	}
	if len(flights) > 0 {
		p.Flight = &flights[0]
	}
	return p, nil
}

// Projections yields what is projected of every run, in the order in which the
// runs began, all of one instant. Approvals are ordered by id. After an error
// nothing more is yielded. The loop's body may read and write as it likes.
func (s *Store) Projections(ctx context.Context) iter.Seq2[blastdoor.Projection, error] {
	return func(yield func(blastdoor.Projection, error) bool) {
		// Read before the first is yielded, so that no connection is held meanwhile.
		all, err := viewed(ctx, s.read, func(q querier) ([]blastdoor.Projection, error) { return readProjections(ctx, q) })
		if err != nil {
			yield(blastdoor.Projection{}, err)
			return
		}
		for _, p := range all {
			if !yield(p, nil) {
				return
			}
		}
	}
}

func readProjections(ctx context.Context, q querier) ([]blastdoor.Projection, error) {
	ids, err := collect(ctx, q, `SELECT id FROM runs ORDER BY n`, nil, scanString)
	if err != nil {
		return nil, fmt.Errorf("listing runs: %w", err)
	}
	all := make([]blastdoor.Projection, len(ids))
	for i, id := range ids {
		if all[i], err = readProjection(ctx, q, id); err != nil {
			return nil, err
		}
	}
	return all, nil
}
