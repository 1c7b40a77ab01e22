package corpus

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"blastdoor"
)

func decoded(text string) (map[string]any, error) {
	var out map[string]any
	err := json.Unmarshal([]byte(text), &out)
	return out, err
}

// tamper changes the database through the driver, as somebody with the file can.
// Triggers are in the way, so they are dropped first.
func tamper(ctx context.Context, path string, t Tamper) (err error) {
	name := url.URL{Scheme: "file", Path: path, RawQuery: "mode=rw&_txlock=immediate&_pragma=busy_timeout(5000)"}
	db, err := sql.Open("sqlite", name.String())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	if !t.KeepTriggers {
		if err := dropTriggers(ctx, tx); err != nil {
			return err
		}
	}
	if err := execute(ctx, tx, t); err != nil || t.Refused != "" {
		return err
	}
	if t.Rechain {
		if err := rechain(ctx, tx); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func dropTriggers(ctx context.Context, tx *sql.Tx) error {
	names, err := column(ctx, tx, `SELECT name FROM sqlite_schema WHERE type = 'trigger'`)
	for _, name := range names {
		if err == nil {
			_, err = tx.ExecContext(ctx, `DROP TRIGGER "`+name+`"`)
		}
	}
	return err
}

// execute runs the statements; each must touch a row, or the case would prove nothing.
func execute(ctx context.Context, tx *sql.Tx, t Tamper) error {
	for _, statement := range t.SQL {
		result, err := tx.ExecContext(ctx, statement)
		switch {
		case t.Refused != "" && err == nil:
			return fmt.Errorf("the database lets this happen: %s", statement)
		case t.Refused != "" && !strings.Contains(err.Error(), t.Refused):
			return fmt.Errorf("refused for another reason: %w", err)
		case t.Refused != "":
			continue
		case err != nil:
			return fmt.Errorf("tampering: %s: %w", statement, err)
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return fmt.Errorf("tampering: no row is touched by %s: %w", statement, errors.Join(err, errImpossible))
		}
	}
	return nil
}

// rechain makes every run's chain follow from its events again, and its row with it.
func rechain(ctx context.Context, tx *sql.Tx) error {
	runs, err := column(ctx, tx, `SELECT id FROM runs`)
	if err != nil {
		return err
	}
	for _, run := range runs {
		bodies, err := column(ctx, tx, `SELECT CAST(body AS TEXT) FROM events WHERE run_id = ? ORDER BY seq`, run)
		if err != nil {
			return err
		}
		chain := blastdoor.Genesis()
		for i, body := range bodies {
			chain = blastdoor.ChainHash(chain, []byte(body))
			if _, err := tx.ExecContext(ctx, `UPDATE events SET chain_hash = ? WHERE run_id = ? AND seq = ?`, chain[:], run, i+1); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, `UPDATE runs SET head = ?, len = ? WHERE id = ?`, chain[:], len(bodies), run); err != nil {
			return err
		}
	}
	return nil
}

func column(ctx context.Context, tx *sql.Tx, query string, args ...any) (out []string, err error) {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		out = append(out, text)
	}
	return out, rows.Err()
}
