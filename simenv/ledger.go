package simenv

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"blastdoor"
)

// Effect is one row of the ledger: a write that happened.
type Effect struct {
	Seq     int64              `json:"seq"` // from 1, without gaps
	Key     string             `json:"key"`
	Action  string             `json:"action"`
	Params  blastdoor.Params   `json:"params"`
	Changes []blastdoor.Change `json:"changes"`
	At      time.Time          `json:"at"`
	Summary string             `json:"summary"`
}

// effectRow is a ledger row as far as receipts need it.
type effectRow struct {
	seq                          int64
	key, action, params, summary string
	at                           time.Time
}

// scanEffect reads the columns of findEffectSQL; sql.ErrNoRows comes through.
func scanEffect(row *sql.Row) (effectRow, error) {
	var r effectRow
	var at string
	err := row.Scan(&r.seq, &r.key, &r.action, &r.params, &at, &r.summary)
	if err != nil {
		return effectRow{}, fmt.Errorf("reading the ledger: %w", err)
	}
	r.at, err = parseTime(at)
	return r, err
}

func (r effectRow) receipt() blastdoor.Receipt {
	return blastdoor.Receipt{Key: r.key, Effect: fmt.Sprintf("effect-%d", r.seq), At: r.at, Summary: r.summary}
}

// Ledger returns all effects, oldest first.
func (e *Env) Ledger(ctx context.Context) ([]Effect, error) {
	tx, err := e.reader.BeginTx(ctx, nil)
	if err != nil {
		return nil, e.unavailable(err)
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	var out []Effect
	const query = `SELECT seq, key, action, params, changes, at, summary FROM effects ORDER BY seq`
	err = eachRow(ctx, tx, query, func(r *sql.Rows) error {
		var f Effect
		var params, changes, at string
		if err := r.Scan(&f.Seq, &f.Key, &f.Action, &params, &changes, &at, &f.Summary); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(params), &f.Params); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(changes), &f.Changes); err != nil {
			return err
		}
		if f.At, err = parseTime(at); err != nil {
			return err
		}
		out = append(out, f)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the ledger: %w", err)
	}
	return out, nil
}
