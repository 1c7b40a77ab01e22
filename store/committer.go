package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"blastdoor"
)

// maxBatch bounds how many requests share one transaction, and so how long the
// first of them waits for the last.
const maxBatch = 256

// request is one all-or-nothing change. do runs on the committer's goroutine.
type request struct {
	do     func(*session) error
	err    error
	answer chan error
}

// committer owns the write connection. It drains its queue into one transaction:
// what comes in while a commit is syncing shares the next sync. It never waits
// for more to come, so one caller alone pays nothing for the others.
type committer struct {
	session *session
	changed func() // called after something was committed

	mu     sync.RWMutex // held for reading at the door, so that close lets in who stands there
	closed bool
	queue  chan *request
	done   chan struct{}
}

func startCommitter(s *session, changed func()) *committer {
	c := &committer{session: s, changed: changed, queue: make(chan *request, maxBatch), done: make(chan struct{})}
	go c.run()
	return c
}

// submit makes a change durable. A context that ends before the change is queued
// stops it; once queued the outcome is awaited, because a caller that does not
// know whether it wrote can do nothing right.
func (c *committer) submit(ctx context.Context, do func(*session) error) error {
	r := &request{do: do, answer: make(chan error, 1)}
	if err := c.enqueue(ctx, r); err != nil {
		return err
	}
	return <-r.answer
}

func (c *committer) enqueue(ctx context.Context, r *request) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed {
		return errClosed()
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("queueing a commit: %w", err)
	}
	select {
	case c.queue <- r:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("queueing a commit: %w", ctx.Err())
	}
}

// stop refuses new requests and waits until the queued ones are answered.
func (c *committer) stop() {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.queue)
	}
	c.mu.Unlock()
	<-c.done
}

func (c *committer) run() {
	defer close(c.done)
	batch := make([]*request, 0, maxBatch)
	for first := range c.queue {
		batch = c.drain(append(batch[:0], first))
		err := c.session.commit(batch)
		wrote := false
		for _, r := range batch {
			if r.err == nil {
				r.err = err
			}
			wrote = wrote || r.err == nil
			r.answer <- r.err
		}
		if wrote {
			c.changed()
		}
	}
}

func (c *committer) drain(batch []*request) []*request {
	for len(batch) < maxBatch {
		select {
		case r, ok := <-c.queue:
			if !ok {
				return batch
			}
			batch = append(batch, r)
		default:
			return batch
		}
	}
	return batch
}

// session is the write connection with its prepared statements and the edge of
// the tree. Only the committer's goroutine uses it. It takes no context: a commit
// that has begun is finished or rolled back, never abandoned half-way.
type session struct {
	db     *sql.DB
	conn   *sql.Conn
	stmts  map[string]*sql.Stmt
	tree   tree
	now    func() time.Time
	broken error // set: the outcome of a sync is unknown, nothing may be written any more
}

func openSession(ctx context.Context, path, mode string, now func() time.Time) (*session, error) {
	db, err := sql.Open("sqlite", writeSource(path, mode))
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening %s: %w", path, err), db.Close())
	}
	return &session{db: db, conn: conn, stmts: make(map[string]*sql.Stmt), now: now}, nil
}

func (s *session) close() error {
	errs := make([]error, 0, len(s.stmts)+2)
	for _, stmt := range s.stmts {
		errs = append(errs, stmt.Close())
	}
	return errors.Join(append(errs, s.conn.Close(), s.db.Close())...)
}

// stmt returns the prepared statement of a query; there is a fixed set of them.
func (s *session) stmt(query string) (*sql.Stmt, error) {
	if stmt, ok := s.stmts[query]; ok {
		return stmt, nil
	}
	stmt, err := s.conn.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, err
	}
	s.stmts[query] = stmt
	return stmt, nil
}

// exec returns the number of rows changed.
func (s *session) exec(query string, args ...any) (int64, error) {
	stmt, err := s.stmt(query)
	if err != nil {
		return 0, err
	}
	result, err := stmt.ExecContext(context.Background(), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// find scans one row and reports whether there was one.
func (s *session) find(query string, args []any, into ...any) (bool, error) {
	stmt, err := s.stmt(query)
	if err != nil {
		return false, err
	}
	err = stmt.QueryRowContext(context.Background(), args...).Scan(into...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// commit runs a batch in one transaction. A request that fails by itself has its
// own err set and leaves no trace; the error returned is that of the transaction
// and counts for all the others.
func (s *session) commit(batch []*request) error {
	if s.broken != nil {
		return s.broken
	}
	if _, err := s.exec(`BEGIN IMMEDIATE`); err != nil {
		return fmt.Errorf("beginning a transaction: %w", err)
	}
	wrote := false
	for _, r := range batch {
		if err := s.attempt(r, len(batch) == 1); err != nil {
			return s.abandon(err)
		}
		wrote = wrote || r.err == nil
	}
	if !wrote {
		return s.abandon(nil)
	}
	// COMMIT POINT: before this statement returns, a crash leaves nothing of the
	// batch; after it, everything. When it fails nobody is told of success.
	if _, err := s.exec(`COMMIT`); err != nil {
		return s.abandon(fmt.Errorf("committing: %w", err))
	}
	return nil
}

// attempt runs one request under a savepoint; alone it needs none, because its
// failure ends the transaction anyway. An error means that the transaction is gone.
func (s *session) attempt(r *request, alone bool) error {
	if alone {
		r.err = r.do(s)
		return nil
	}
	if _, err := s.exec(`SAVEPOINT request`); err != nil {
		return fmt.Errorf("setting a savepoint: %w", err)
	}
	before := s.tree
	if r.err = r.do(s); r.err != nil {
		s.tree = before
		// A full disk or an I/O error makes SQLite roll back everything by itself;
		// then this fails, and the rest of the batch must not run outside a transaction.
		if _, err := s.exec(`ROLLBACK TO request`); err != nil {
			return fmt.Errorf("rolling back one request (%w): %w", r.err, err)
		}
	}
	if _, err := s.exec(`RELEASE request`); err != nil {
		return fmt.Errorf("releasing a savepoint: %w", err)
	}
	return nil
}

// abandon rolls back and reads the edge of the tree again, because what the
// session holds in memory is ahead of the database now. After an I/O error it is
// unknown what is on the disk (a failed sync may have written), so that nothing
// more is written until the database has been opened and checked again.
func (s *session) abandon(cause error) error {
	_, _ = s.exec(`ROLLBACK`) // fails where SQLite has rolled back already
	fresh, err := readTree(context.Background(), s.conn)
	if err != nil || sqliteCode(cause) == sqlite3.SQLITE_IOERR {
		s.broken = &blastdoor.Error{Code: blastdoor.ErrUnavailable, Msg: "the database cannot be written any more",
			Want: "check the disk and start again", Err: errors.Join(cause, err)}
		return s.broken
	}
	s.tree = fresh
	return cause
}

func errClosed() error {
	return blastdoor.Errorf(blastdoor.ErrUnavailable, "the database is closed")
}
