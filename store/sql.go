package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
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

// readers is how many reads go on at once.
const readers = 4

// reader is a fixed set of read-only connections, each with its own prepared
// statements. A read holds one connection from beginning to end and asks for no
// second one, so that reads can never wait for each other in a circle.
type reader struct {
	db     *sql.DB
	idle   chan *readConn // all of them, when nobody reads
	closed chan struct{}
}

func newReader(path string) (*reader, error) {
	db, err := sql.Open("sqlite", readSource(path))
	if err != nil {
		return nil, fmt.Errorf("opening %s for reading: %w", path, err)
	}
	db.SetMaxOpenConns(readers)
	r := &reader{db: db, idle: make(chan *readConn, readers), closed: make(chan struct{})}
	for range readers {
		r.idle <- &readConn{}
	}
	return r, nil
}

// view runs read in one read transaction: everything it reads is of one instant.
// It must not call view again.
func (r *reader) view(ctx context.Context, read func(querier) error) error {
	var c *readConn
	select {
	case <-r.closed:
		return errClosed()
	default:
	}
	select {
	case c = <-r.idle:
	case <-r.closed:
		return errClosed()
	case <-ctx.Done():
		return fmt.Errorf("waiting to read: %w", ctx.Err())
	}
	defer func() { r.idle <- c }()
	if err := c.begin(ctx, r.db); err != nil {
		return fmt.Errorf("beginning to read: %w", err)
	}
	defer c.end()
	return read(c)
}

// close waits for the reads that are going on.
func (r *reader) close() error {
	close(r.closed)
	var errs []error
	for range readers {
		errs = append(errs, (<-r.idle).close())
	}
	return errors.Join(append(errs, r.db.Close())...)
}

// readConn is one connection; it is opened when it is first needed.
type readConn struct {
	conn  *sql.Conn
	stmts map[string]*sql.Stmt
}

func (c *readConn) begin(ctx context.Context, db *sql.DB) error {
	if c.conn == nil {
		conn, err := db.Conn(ctx)
		if err != nil {
			return err
		}
		c.conn, c.stmts = conn, make(map[string]*sql.Stmt)
	}
	stmt, err := c.stmt(ctx, `BEGIN`)
	if err == nil {
		_, err = stmt.ExecContext(ctx)
	}
	if err != nil {
		_ = c.close() // it may be in any state: the next read opens a new one
	}
	return err
}

// end ends the transaction whatever became of the caller's context; nothing was
// written, so nothing can be lost.
func (c *readConn) end() {
	stmt, err := c.stmt(context.Background(), `ROLLBACK`)
	if err == nil {
		_, err = stmt.ExecContext(context.Background())
	}
	if err != nil {
		_ = c.close()
	}
}

func (c *readConn) close() error {
	if c.conn == nil {
		return nil
	}
	errs := make([]error, 0, len(c.stmts)+1)
	for _, stmt := range c.stmts {
		errs = append(errs, stmt.Close())
	}
	err := errors.Join(append(errs, c.conn.Close())...)
	c.conn, c.stmts = nil, nil
	return err
}

func (c *readConn) stmt(ctx context.Context, query string) (*sql.Stmt, error) {
	if stmt, ok := c.stmts[query]; ok {
		return stmt, nil
	}
	stmt, err := c.conn.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	c.stmts[query] = stmt
	return stmt, nil
}

// QueryContext implements querier.
func (c *readConn) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	stmt, err := c.stmt(ctx, query)
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(ctx, args...)
}

// QueryRowContext implements querier. Where preparing fails, the unprepared query
// fails in the same way.
func (c *readConn) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	stmt, err := c.stmt(ctx, query)
	if err != nil {
		return c.conn.QueryRowContext(ctx, query, args...)
	}
	return stmt.QueryRowContext(ctx, args...)
}

// viewed returns what read returns, in one read transaction.
func viewed[T any](ctx context.Context, r *reader, read func(querier) (T, error)) (T, error) {
	var out T
	err := r.view(ctx, func(q querier) (err error) {
		out, err = read(q)
		return err
	})
	return out, err
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

// list is collect in a read transaction of its own.
func list[T any](ctx context.Context, r *reader, query string, args []any, scan func(*sql.Rows) (T, error)) ([]T, error) {
	return viewed(ctx, r, func(q querier) ([]T, error) { return collect(ctx, q, query, args, scan) })
}

// scanRow scans the one row of a query in a read transaction of its own.
func scanRow(ctx context.Context, r *reader, query string, args []any, into ...any) error {
	return r.view(ctx, func(q querier) error { return q.QueryRowContext(ctx, query, args...).Scan(into...) })
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
