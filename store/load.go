package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"blastdoor"
)

// storedEvent is a row of the history, as it is stored.
type storedEvent struct {
	Leaf  int64
	RunID string
	Seq   int
	At    int64
	Kind  string
	Body  []byte
	Chain []byte
	// Hashes are the tree's nodes that this leaf completes; see joinHashes.
	Hashes []byte
}

const selectEvents = `SELECT leaf, run_id, seq, at, kind, body, chain_hash, hashes FROM events`

func scanEvent(rows *sql.Rows) (storedEvent, error) {
	var e storedEvent
	err := rows.Scan(&e.Leaf, &e.RunID, &e.Seq, &e.At, &e.Kind, &e.Body, &e.Chain, &e.Hashes)
	return e, err
}

// open decodes the event and checks that it is what its row says and follows prev
// in its chain. It returns the event's own chain hash.
func (e *storedEvent) open(prev [32]byte) (blastdoor.Event, [32]byte, error) {
	chain := blastdoor.ChainHash(prev, e.Body)
	event, err := blastdoor.ParseEvent(e.Body)
	switch {
	case err != nil:
		return event, chain, e.damaged("its body does not parse", err)
	case event.RunID != e.RunID || event.Seq != e.Seq || event.At.UnixNano() != e.At || string(event.Body.Kind()) != e.Kind:
		return event, chain, e.damaged("its columns differ from its body", nil)
	case len(e.Chain) != 32 || chain != [32]byte(e.Chain):
		return event, chain, e.damaged("its chain hash does not follow from the events before it", nil)
	}
	return event, chain, nil
}

func (e *storedEvent) damaged(what string, cause error) error {
	return &blastdoor.Error{Code: blastdoor.ErrIntegrity, Where: place(e.RunID, e.Seq), Msg: what, Err: cause}
}

// place names a place in the history.
func place(runID string, seq int) string {
	if seq == 0 {
		return "run " + runID
	}
	return fmt.Sprintf("run %s, event %d", runID, seq)
}

// Load returns the whole history of a run. ErrIntegrity, with the place: a row
// does not parse, the chain has a gap or does not verify, or it differs from the
// run's projected length and head or from the run's approvals. ErrNotFound: there
// is neither an event nor a row of this run.
func (s *Store) Load(ctx context.Context, runID string) ([]blastdoor.Event, error) {
	h, err := viewed(ctx, s.read, func(q querier) (history, error) { return loadHistory(ctx, q, runID) })
	return h.events, err
}

// history is a verified history with the rows it was read from.
type history struct {
	events []blastdoor.Event
	rows   []storedEvent
}

func loadHistory(ctx context.Context, q querier, runID string) (history, error) {
	var h history
	var err error
	h.rows, err = collect(ctx, q, selectEvents+` WHERE run_id = ? ORDER BY seq`, []any{runID}, scanEvent)
	if err != nil {
		return history{}, fmt.Errorf("loading run %s: %w", runID, err)
	}
	chain := blastdoor.Genesis()
	approvals := newApprovalLedger(runID)
	for i := range h.rows {
		if h.rows[i].Seq != i+1 {
			return history{}, damagedRun(runID, i+1, "this event is missing")
		}
		var event blastdoor.Event
		if event, chain, err = h.rows[i].open(chain); err != nil {
			return history{}, err
		}
		approvals.note(event)
		h.events = append(h.events, event)
	}
	if err := matchRow(ctx, q, runID, len(h.events), chain); err != nil {
		return history{}, err
	}
	rows, err := readApprovals(ctx, q, runID)
	if err != nil {
		return history{}, err
	}
	if faults := approvals.compare(rows); len(faults) > 0 {
		return history{}, damagedRun(runID, 0, faults[0])
	}
	return h, nil
}

// matchRow holds a verified history against the run's row.
func matchRow(ctx context.Context, q querier, runID string, length int, chain [32]byte) error {
	var rowLength int
	var head []byte
	err := q.QueryRowContext(ctx, `SELECT len, head FROM runs WHERE id = ?`, runID).Scan(&rowLength, &head)
	switch {
	case errors.Is(err, sql.ErrNoRows) && length == 0:
		return blastdoor.Errorf(blastdoor.ErrNotFound, "there is no run %s", runID)
	case errors.Is(err, sql.ErrNoRows):
		return damagedRun(runID, 0, "it has events but no row")
	case err != nil:
		return fmt.Errorf("reading run %s: %w", runID, err)
	case rowLength != length:
		return damagedRun(runID, 0, fmt.Sprintf("its row says %d events, %d are stored", rowLength, length))
	case [32]byte(head) != chain:
		return damagedRun(runID, 0, "its row has another chain hash than its last event")
	}
	return nil
}

func damagedRun(runID string, seq int, what string) error {
	return &blastdoor.Error{Code: blastdoor.ErrIntegrity, Where: place(runID, seq), Msg: what}
}

// Document returns the body stored under a digest: ErrNotFound when there is
// none, ErrIntegrity when it does not have that digest.
func (s *Store) Document(ctx context.Context, digest string) ([]byte, error) {
	var body []byte
	err := scanRow(ctx, s.read, `SELECT body FROM documents WHERE digest = ?`, []any{digest}, &body)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, blastdoor.Errorf(blastdoor.ErrNotFound, "there is no document %s", digest)
	}
	if err != nil {
		return nil, fmt.Errorf("reading document %s: %w", digest, err)
	}
	if got := blastdoor.DigestBytes(body); got != digest {
		return nil, blastdoor.Errorf(blastdoor.ErrIntegrity, "document %s has the digest %s", digest, got)
	}
	return body, nil
}

// Unfinished returns the ids of all runs that have not ended, the oldest first.
func (s *Store) Unfinished(ctx context.Context) ([]string, error) {
	ids, err := list(ctx, s.read, selectUnfinished, nil, scanString)
	if err != nil {
		return nil, fmt.Errorf("listing unfinished runs: %w", err)
	}
	return ids, nil
}

const selectUnfinished = `SELECT id FROM runs WHERE ended = 0 ORDER BY n`

const selectRuns = `SELECT id, runbook, requester, channel, status, updated_at, len, ended, wake_at FROM runs`

func scanProjection(rows *sql.Rows) (blastdoor.Projection, error) {
	var p blastdoor.Projection
	var updated, wake sql.NullInt64
	err := rows.Scan(&p.Run.ID, &p.Run.Runbook, &p.Run.Requester, &p.Run.Channel, &p.Run.Status,
		&updated, &p.Run.Len, &p.Ended, &wake)
	p.Run.UpdatedAt, p.WakeAt = instant(updated), instant(wake)
	return p, err
}

// RunFilter says which runs to list. The zero value is all of them.
type RunFilter struct {
	Channel    string // empty: every channel
	Unfinished bool   // only runs that have not ended
	Limit      int    // 0 or less: no limit
}

// Runs lists runs, the newest first.
func (s *Store) Runs(ctx context.Context, f RunFilter) ([]blastdoor.RunSummary, error) {
	query, args := selectRuns+` WHERE 1`, []any(nil)
	if f.Channel != "" {
		query += ` AND channel = ?`
		args = append(args, f.Channel)
	}
	if f.Unfinished {
		query += ` AND ended = 0`
	}
	query += ` ORDER BY n DESC`
	if f.Limit > 0 {
		query += ` LIMIT ?`
		args = append(args, f.Limit)
	}
	runs, err := list(ctx, s.read, query, args, func(rows *sql.Rows) (blastdoor.RunSummary, error) {
		p, err := scanProjection(rows)
		return p.Run, err
	})
	if err != nil {
		return nil, fmt.Errorf("listing runs: %w", err)
	}
	return runs, nil
}

// Counts is the store at a glance.
type Counts struct {
	Runs       int `json:"runs"`
	Unfinished int `json:"unfinished"`
	Waiting    int `json:"waiting"` // for a second person
	Events     int `json:"events"`
	InFlight   int `json:"in_flight"` // live intents
	Unsettled  int `json:"unsettled"` // envelopes not answered yet
	Pending    int `json:"pending"`   // deliveries due or to be tried
	Dropped    int `json:"dropped"`   // deliveries given up
}

// Counts counts.
func (s *Store) Counts(ctx context.Context) (Counts, error) {
	var c Counts
	err := scanRow(ctx, s.read, `SELECT (SELECT count(*) FROM runs),
		(SELECT count(*) FROM runs WHERE ended = 0), (SELECT count(*) FROM runs WHERE ended = 0 AND status = 'waiting'),
		(SELECT coalesce(max(leaf) + 1, 0) FROM events), (SELECT count(*) FROM flights),
		(SELECT count(*) FROM inbox WHERE settled_at IS NULL),
		(SELECT count(*) FROM deliveries WHERE pending = 1), (SELECT count(*) FROM deliveries WHERE dead IS NOT NULL)`, nil,
		&c.Runs, &c.Unfinished, &c.Waiting, &c.Events, &c.InFlight, &c.Unsettled, &c.Pending, &c.Dropped)
	if err != nil {
		return Counts{}, fmt.Errorf("counting: %w", err)
	}
	return c, nil
}
