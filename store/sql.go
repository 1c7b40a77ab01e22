package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// querier is what both a connection and a transaction can do.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// busyTimeout is how long SQLite waits for a lock, in milliseconds. The only
// other writers are a person with a shell and a checkpoint.
const busyTimeout = "5000"

// dataSource builds the DSN. Settings go here because a pragma that is executed
// reaches one connection of a pool only.
func dataSource(path, mode string, pragmas ...string) string {
	query := url.Values{"mode": {mode}, "_pragma": {"busy_timeout(" + busyTimeout + ")"}}
	for _, pragma := range pragmas {
		query.Add("_pragma", pragma)
	}
	if mode != "ro" {
		query.Set("_txlock", "immediate")
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}).String()
}

// writeSource is the DSN of the write connection. With synchronous(FULL) a commit
// in WAL mode is on disk before it returns; NORMAL would lose acknowledged
// commits in a power cut. The longer WAL makes checkpoints rarer.
func writeSource(path, mode string) string {
	return dataSource(path, mode, "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)",
		"wal_autocheckpoint(4000)")
}

func readSource(path string) string { return dataSource(path, "ro", "query_only(1)") }

// reader is a pool of read-only connections with prepared statements.
type reader struct {
	db    *sql.DB
	mu    sync.Mutex
	stmts map[string]*sql.Stmt
}

func newReader(path string) (*reader, error) {
	db, err := sql.Open("sqlite", readSource(path))
	if err != nil {
		return nil, fmt.Errorf("opening %s for reading: %w", path, err)
	}
	db.SetMaxOpenConns(4)
	db.SetMaxIdleConns(4)
	return &reader{db: db, stmts: make(map[string]*sql.Stmt)}, nil
}

func (r *reader) stmt(ctx context.Context, query string) (*sql.Stmt, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if stmt, ok := r.stmts[query]; ok {
		return stmt, nil
	}
	stmt, err := r.db.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	r.stmts[query] = stmt
	return stmt, nil
}

func (r *reader) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	stmt, err := r.stmt(ctx, query)
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(ctx, args...)
}

// QueryRowContext falls back on an unprepared query where preparing fails, which
// then reports the same error.
func (r *reader) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	stmt, err := r.stmt(ctx, query)
	if err != nil {
		return r.db.QueryRowContext(ctx, query, args...)
	}
	return stmt.QueryRowContext(ctx, args...)
}

func (r *reader) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	errs := make([]error, 0, len(r.stmts)+1)
	for _, stmt := range r.stmts {
		errs = append(errs, stmt.Close())
	}
	return errors.Join(append(errs, r.db.Close())...)
}

// snapshot is one read transaction: everything read through it is of one instant.
type snapshot struct {
	tx     *sql.Tx
	reader *reader
}

func (s snapshot) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	stmt, err := s.reader.stmt(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.tx.StmtContext(ctx, stmt).QueryContext(ctx, args...)
}

func (s snapshot) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	stmt, err := s.reader.stmt(ctx, query)
	if err != nil {
		return s.tx.QueryRowContext(ctx, query, args...)
	}
	return s.tx.StmtContext(ctx, stmt).QueryRowContext(ctx, args...)
}

// inSnapshot runs read against one instant of the database.
func (r *reader) inSnapshot(ctx context.Context, read func(snapshot) error) error {
	tx, err := r.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return fmt.Errorf("beginning to read: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // nothing was written, so nothing can be lost
	return read(snapshot{tx: tx, reader: r})
}

// each calls visit for every row and closes the rows whatever happens.
func each(ctx context.Context, q querier, query string, args []any, visit func(*sql.Rows) error) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // rows.Err below has what matters
	for rows.Next() {
		if err := visit(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// collect returns one value per row.
func collect[T any](ctx context.Context, q querier, query string, args []any, scan func(*sql.Rows) (T, error)) ([]T, error) {
	var out []T
	err := each(ctx, q, query, args, func(rows *sql.Rows) error {
		value, err := scan(rows)
		if err == nil {
			out = append(out, value)
		}
		return err
	})
	return out, err
}

func scanString(rows *sql.Rows) (string, error) {
	var s string
	return s, rows.Scan(&s)
}

// nanos is how a time is stored; a zero time is NULL.
func nanos(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixNano()
}

// instant reads what nanos stored.
func instant(n sql.NullInt64) time.Time {
	if !n.Valid {
		return time.Time{}
	}
	return time.Unix(0, n.Int64).UTC()
}

// encodeList stores a list of names; decodeList gives nil back for an empty one.
func encodeList(names []string) (string, error) {
	if len(names) == 0 {
		return "[]", nil
	}
	data, err := json.Marshal(names)
	return string(data), err
}

func decodeList(text string) ([]string, error) {
	var names []string
	if err := json.Unmarshal([]byte(text), &names); err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, nil
	}
	return names, nil
}

// sqliteCode returns SQLite's primary result code of err (https://sqlite.org/rescode.html), or 0.
func sqliteCode(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// isConstraint reports whether a CHECK, UNIQUE, foreign key or trigger refused the statement.
func isConstraint(err error) bool { return sqliteCode(err) == sqlite3.SQLITE_CONSTRAINT }
