package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"blastdoor"
)

// CompareProjection says in words how what is stored of a run differs from what a
// fold of its events gives; nothing when they agree. Stored approvals that the
// fold does not list are those that a newer question replaced; they must be over.
func CompareProjection(stored, folded blastdoor.Projection) []string {
	var diffs []string
	differ := func(what string, stored, folded any) {
		if stored != folded {
			diffs = append(diffs, fmt.Sprintf("%s is stored as %v, the events give %v", what, stored, folded))
		}
	}
	differ("id", stored.Run.ID, folded.Run.ID)
	differ("runbook", stored.Run.Runbook, folded.Run.Runbook)
	differ("requester", stored.Run.Requester, folded.Run.Requester)
	differ("channel", stored.Run.Channel, folded.Run.Channel)
	differ("status", stored.Run.Status, folded.Run.Status)
	differ("length", stored.Run.Len, folded.Run.Len)
	differ("ended", stored.Ended, folded.Ended)
	differ("time of the last change", nanos(stored.Run.UpdatedAt), nanos(folded.Run.UpdatedAt))
	differ("time to wake", nanos(stored.WakeAt), nanos(folded.WakeAt))
	differ("flight", describeFlight(stored.Flight), describeFlight(folded.Flight))
	return append(diffs, compareApprovals(stored.Approvals, folded.Approvals)...)
}

func describeFlight(f *blastdoor.Flight) string {
	if f == nil {
		return "none"
	}
	return fmt.Sprintf("step %s on %s, felt by %s", f.StepID, strings.Join(f.Targets, " "), strings.Join(f.Affected, " "))
}

func compareApprovals(stored, folded []blastdoor.ApprovalRow) []string {
	var diffs []string
	for i := range folded {
		at := slices.IndexFunc(stored, func(a blastdoor.ApprovalRow) bool { return a.ID == folded[i].ID })
		if at < 0 {
			diffs = append(diffs, fmt.Sprintf("approval %s is not stored", folded[i].ID))
		} else if !sameApproval(&stored[at], &folded[i]) {
			diffs = append(diffs, fmt.Sprintf("approval %s is stored as %+v, the events give %+v", folded[i].ID, stored[at], folded[i]))
		}
	}
	for _, a := range stored {
		live := a.Status == blastdoor.PendingApproval || a.Status == blastdoor.GrantedApproval
		if live && !slices.ContainsFunc(folded, func(b blastdoor.ApprovalRow) bool { return a.ID == b.ID }) {
			diffs = append(diffs, fmt.Sprintf("approval %s is stored as %s, the events have replaced it", a.ID, a.Status))
		}
	}
	return diffs
}

// ReplaceProjections writes all projections anew: the rows of runs, approvals,
// flights and locks, in one transaction. It needs one projection of every run
// that has events, at its full length, else it is ErrConflict (something was
// committed since, or the fold is not of this database). Histories are verified
// on the way; ErrIntegrity when one is damaged. Approvals that the projections
// list no more are restored from the events.
func (s *Store) ReplaceProjections(ctx context.Context, projections []blastdoor.Projection) error {
	byID := make(map[string]*blastdoor.Projection, len(projections))
	for i := range projections {
		byID[projections[i].Run.ID] = &projections[i]
	}
	err := s.write(ctx, func(ses *session) error { return ses.replaceProjections(byID) })
	if err != nil {
		return fmt.Errorf("rebuilding projections: %w", err)
	}
	return nil
}

// replaceProjections lifts the triggers that guard the rows for the length of
// this transaction only: they are back before anything else can run, and a crash
// in between leaves the old rows under the old triggers.
func (s *session) replaceProjections(byID map[string]*blastdoor.Projection) error {
	ctx := context.Background()
	const guards = ` FROM sqlite_schema WHERE type = 'trigger' AND tbl_name IN ('runs', 'approvals') ORDER BY name`
	names, err := collect(ctx, s.conn, `SELECT name`+guards, nil, scanString)
	if err != nil {
		return fmt.Errorf("reading triggers: %w", err)
	}
	definitions, err := collect(ctx, s.conn, `SELECT sql`+guards, nil, scanString)
	if err != nil {
		return fmt.Errorf("reading triggers: %w", err)
	}
	var script []string
	for _, name := range names {
		script = append(script, `DROP TRIGGER `+name)
	}
	script = append(script, `DELETE FROM locks`, `DELETE FROM flights`, `DELETE FROM approvals`, `DELETE FROM runs`)
	if err := s.script(script); err != nil {
		return err
	}
	if err := s.projectAgain(ctx, byID); err != nil {
		return err
	}
	return s.script(definitions)
}

// script runs statements once, without keeping them prepared.
func (s *session) script(statements []string) error {
	for _, statement := range statements {
		if _, err := s.conn.ExecContext(context.Background(), statement); err != nil {
			return fmt.Errorf("running %q: %w", statement, err)
		}
	}
	return nil
}

func (s *session) projectAgain(ctx context.Context, byID map[string]*blastdoor.Projection) error {
	ids, err := collect(ctx, s.conn, `SELECT run_id FROM events WHERE seq = 1 ORDER BY leaf`, nil, scanString)
	if err != nil {
		return fmt.Errorf("listing runs: %w", err)
	}
	if len(ids) != len(byID) {
		return blastdoor.Errorf(blastdoor.ErrConflict, "%d runs have events, %d projections were given", len(ids), len(byID))
	}
	for _, id := range ids {
		if byID[id] == nil {
			return blastdoor.Errorf(blastdoor.ErrConflict, "run %s has events and no projection was given", id)
		}
		if err := s.projectRun(ctx, byID[id]); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) projectRun(ctx context.Context, p *blastdoor.Projection) error {
	id := p.Run.ID
	chain, source, length := blastdoor.Genesis(), "", 0
	approvals := newApprovalLedger(id)
	err := each(ctx, s.conn, selectEvents+` WHERE run_id = ? ORDER BY seq`, []any{id}, func(rows *sql.Rows) error {
		row, err := scanEvent(rows)
		if err != nil {
			return err
		}
		var event blastdoor.Event
		if event, chain, err = row.open(chain); err != nil {
			return err
		}
		if requested, ok := event.Body.(*blastdoor.RunRequested); ok {
			source = requested.SourceID
		}
		length++
		approvals.note(event)
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading run %s: %w", id, err)
	}
	if source == "" {
		return damagedRun(id, 1, "it is not the request of a run")
	}
	if length != p.Run.Len {
		return blastdoor.Errorf(blastdoor.ErrConflict, "run %s has %d events, the projection %d", id, length, p.Run.Len)
	}
	if err := s.insertRun(source, p, chain); err != nil {
		return err
	}
	for _, row := range append(approvals.superseded(p.Approvals), p.Approvals...) {
		if err := s.putApproval(id, &row); err != nil {
			return err
		}
	}
	return s.putFlight(id, p.Flight, false)
}
