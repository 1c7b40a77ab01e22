package simenv

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"blastdoor"
)

// Env is an open world. It may be used by many goroutines, and several processes
// may have the same file open.
type Env struct {
	path    string
	now     func() time.Time
	onFault func(Fault)

	writer *sql.DB // one connection: writes queue here instead of inside SQLite
	reader *sql.DB
	stmt   statements

	// cached is the newest snapshot that a reader has loaded. Whoever uses it has
	// read the version of the world first and compared.
	cached  atomic.Pointer[snapshot]
	loading sync.Mutex // so that a burst of readers loads a new snapshot once
}

// Open opens a world that Create has made; it never creates one.
func Open(ctx context.Context, path string, opts Options) (*Env, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, &blastdoor.Error{Code: blastdoor.ErrNotFound, Where: path, Msg: "there is no simulated world here",
			Want: "create one with `bot init`", Err: err}
	}
	e := &Env{path: path, now: opts.Now, onFault: opts.OnFault}
	if e.now == nil {
		e.now = time.Now
	}
	if e.onFault == nil {
		e.onFault = func(Fault) {}
	}
	if err := e.connect(ctx); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

func (e *Env) connect(ctx context.Context) (err error) {
	if e.reader, err = openDB(e.path, readerSettings); err != nil {
		return fmt.Errorf("opening simulated world %s: %w", e.path, err)
	}
	e.reader.SetMaxOpenConns(8)
	e.reader.SetMaxIdleConns(8)
	// Before the writer, whose settings would turn a foreign file into a WAL file.
	if err := checkHeader(ctx, e.reader, e.path); err != nil {
		return err
	}
	if e.writer, err = openDB(e.path, writerSettings); err != nil {
		return fmt.Errorf("opening simulated world %s: %w", e.path, err)
	}
	e.writer.SetMaxOpenConns(1)
	if err := e.stmt.prepare(ctx, e.reader, e.writer); err != nil {
		return fmt.Errorf("opening simulated world %s: %w", e.path, err)
	}
	return nil
}

// Close closes the world. Calls under way finish first; later ones fail.
func (e *Env) Close() error {
	var errs []error
	for _, db := range []*sql.DB{e.reader, e.writer} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}

// statements are the ones on the way of every rehearsal and every write.
type statements struct {
	state, findEffect                           *sql.Stmt // reader
	writerState, writerFindEffect, insertEffect *sql.Stmt // writer
	bumpWorld, bumpHost, bumpService            *sql.Stmt
	change                                      map[string]*sql.Stmt // by field
}

const (
	// A fault with times 0 stays until it is cleared.
	stateSQL = `SELECT version,
		(SELECT count(*) FROM faults WHERE kind <> 'ignore_keys' AND (times = 0 OR fired < times)),
		EXISTS (SELECT 1 FROM faults WHERE kind = 'ignore_keys')
		FROM world`
	findEffectSQL   = `SELECT seq, key, action, params, at, summary FROM effects WHERE enforced_key = ?`
	insertEffectSQL = `INSERT INTO effects (enforced_key, key, action, params, changes, at, summary)
		VALUES (?, ?, ?, ?, ?, ?, ?)`
	bumpWorldSQL   = `UPDATE world SET version = version + 1`
	bumpHostSQL    = `UPDATE hosts SET revision = revision + 1 WHERE name = ?`
	bumpServiceSQL = `UPDATE services SET revision = revision + 1 WHERE name = ?`
)

func (s *statements) prepare(ctx context.Context, reader, writer *sql.DB) error {
	s.change = make(map[string]*sql.Stmt)
	var errs []error
	prepare := func(db *sql.DB, into **sql.Stmt, query string) {
		var err error
		if *into, err = db.PrepareContext(ctx, query); err != nil {
			errs = append(errs, fmt.Errorf("preparing %q: %w", query, err))
		}
	}
	prepare(reader, &s.state, stateSQL)
	prepare(reader, &s.findEffect, findEffectSQL)
	prepare(writer, &s.writerState, stateSQL)
	prepare(writer, &s.writerFindEffect, findEffectSQL)
	prepare(writer, &s.insertEffect, insertEffectSQL)
	prepare(writer, &s.bumpWorld, bumpWorldSQL)
	prepare(writer, &s.bumpHost, bumpHostSQL)
	prepare(writer, &s.bumpService, bumpServiceSQL)
	for field, query := range changeSQL() {
		var st *sql.Stmt
		prepare(writer, &st, query)
		s.change[field] = st
	}
	return errors.Join(errs...)
}

// write runs do in one transaction. Waiting for other writes of this process ends
// with ctx, waiting for those of other processes after five seconds. Once begun, a
// write is finished, so that a caller who gives up does not make its outcome
// unknown. The error says ErrUnavailable when it was not begun.
func (e *Env) write(ctx context.Context, do func(ctx context.Context, tx *sql.Tx) error) error {
	conn, err := e.writer.Conn(ctx)
	if err != nil {
		return e.unavailable(err)
	}
	defer func() { _ = conn.Close() }() // back to the pool
	ctx = context.WithoutCancel(ctx)
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return e.unavailable(err)
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	if err := do(ctx, tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("committing to the simulated world: %w", err)
	}
	return nil
}

func (e *Env) unavailable(cause error) error {
	return &blastdoor.Error{Code: blastdoor.ErrUnavailable, Msg: "the simulated infrastructure does not answer", Err: cause}
}

// DryRun rehearses a write against the world as it is now. GraphAsOf is the time
// of the call, because the graph has just been compared with the file.
func (e *Env) DryRun(ctx context.Context, action string, params blastdoor.Params) (blastdoor.Rehearsal, error) {
	req, err := parseRequest(action, blastdoor.Write, params)
	if err != nil {
		return blastdoor.Rehearsal{}, err
	}
	return underFaults(ctx, e, MethodDryRun, func(v view) (blastdoor.Rehearsal, error) {
		r, err := v.snap.rehearse(req)
		if err != nil {
			return blastdoor.Rehearsal{}, err
		}
		if v.ignoreKeys {
			r = r.withoutVersions()
		}
		return blastdoor.Rehearsal{Targets: r.targets, Changes: r.changes, Versions: r.versions,
			Graph: v.snap.graph, GraphAsOf: e.now()}, nil
	})
}

// lookupAnswer is the pair that Lookup returns; its zero value is Unknown.
type lookupAnswer struct {
	outcome blastdoor.Outcome
	receipt blastdoor.Receipt
}

// Lookup says what the ledger holds under a key. Whatever keeps it from reading
// the ledger makes the outcome Unknown.
func (e *Env) Lookup(ctx context.Context, key string) (blastdoor.Outcome, blastdoor.Receipt, error) {
	a, err := underFaults(ctx, e, MethodLookup, func(v view) (lookupAnswer, error) {
		if v.ignoreKeys {
			return lookupAnswer{outcome: blastdoor.OutcomeNotApplied}, nil
		}
		row, err := scanEffect(e.stmt.findEffect.QueryRowContext(ctx, key))
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return lookupAnswer{outcome: blastdoor.OutcomeNotApplied}, nil
		case err != nil:
			return lookupAnswer{}, e.unavailable(err)
		}
		return lookupAnswer{outcome: blastdoor.OutcomeApplied, receipt: row.receipt()}, nil
	})
	if err != nil {
		return blastdoor.OutcomeUnknown, blastdoor.Receipt{}, err
	}
	return a.outcome, a.receipt, nil
}
