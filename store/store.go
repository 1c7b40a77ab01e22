package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"
	"modernc.org/sqlite"

	"blastdoor"
)

// Options say how a database is created and opened.
type Options struct {
	// Origin names the deployment in signed heads ("blastdoor.example/prod": no
	// spaces, no plus). Create needs it; Open checks it unless it is empty.
	Origin string
	// KeyPath is the file of the signing key; empty: the database's path and ".key".
	KeyPath string
	// Now is the clock of what has no time of its own (when an envelope was
	// settled, when a head was signed); nil: time.Now.
	Now func() time.Time
}

func (o Options) withDefaults(path string) Options {
	if o.KeyPath == "" {
		o.KeyPath = path + ".key"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Store is an open database. Its methods may be called by many goroutines.
type Store struct {
	path      string
	origin    string
	signer    note.Signer // nil when opened for reading
	read      *reader
	committer *committer // nil when opened for reading
	ownership *ownership // nil when opened for reading
	now       func() time.Time

	subMu       sync.Mutex
	subscribers map[chan struct{}]bool

	closeOnce sync.Once
	closeErr  error
}

// Create makes a database, its signing key and its first signed head, and opens
// it. It refuses a path where something is already.
func Create(ctx context.Context, path string, o Options) (*Store, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("creating a database: %w", err)
	}
	o = o.withDefaults(path)
	if o.Origin == "" {
		return nil, errors.New("creating a database: its origin is missing")
	}
	owned, err := own(path)
	if err != nil {
		return nil, err
	}
	err = createFiles(ctx, path, o)
	if err := errors.Join(err, owned.release()); err != nil {
		return nil, err
	}
	return Open(ctx, path, o)
}

// createFiles builds the database under another name and gives it its own when
// it is whole, so that a crash leaves either none or a good one.
func createFiles(ctx context.Context, path string, o Options) error {
	// A write-ahead log left behind by a removed database would be replayed into the new one.
	for _, taken := range []string{path, path + "-wal", path + "-journal"} {
		if _, err := os.Lstat(taken); err == nil {
			return &blastdoor.Error{Code: blastdoor.ErrConflict, Where: taken,
				Msg: "there is a file already", Want: "an existing database is never overwritten: move it away first"}
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("creating a database: %w", err)
		}
	}
	if err := createKey(o.KeyPath, o.Origin); err != nil {
		return err
	}
	key, err := loadKey(o.KeyPath)
	if err != nil {
		return err
	}
	if key.signer.Name() != o.Origin {
		return &blastdoor.Error{Code: blastdoor.ErrIntegrity, Where: o.KeyPath,
			Msg: fmt.Sprintf("the signing key is of %q, not of %q", key.signer.Name(), o.Origin)}
	}
	draft := path + ".new"
	for _, leftover := range []string{draft, draft + "-wal", draft + "-shm", draft + "-journal"} {
		if err := os.Remove(leftover); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("creating a database: %w", err)
		}
	}
	if err := writeDraft(ctx, draft, key, o); err != nil {
		return errors.Join(err, os.Remove(draft))
	}
	if err := os.Rename(draft, path); err != nil {
		return fmt.Errorf("creating a database: %w", err)
	}
	return syncDir(filepath.Dir(path))
}

func writeDraft(ctx context.Context, draft string, key signingKey, o Options) error {
	ses, err := openSession(ctx, draft, "rwc", o.Now)
	if err != nil {
		return err
	}
	err = initialise(ctx, ses, key, o)
	return errors.Join(err, ses.close())
}

func initialise(ctx context.Context, ses *session, key signingKey, o Options) error {
	if _, err := ses.exec(fmt.Sprintf(`PRAGMA application_id = %d`, applicationID)); err != nil {
		return fmt.Errorf("marking the database: %w", err)
	}
	scripts, err := migrations()
	if err != nil {
		return err
	}
	if err := migrate(ctx, ses.conn, 0, scripts); err != nil {
		return err
	}
	_, err = ses.exec(`INSERT INTO deployment (one, origin, verifier_key, created_at) VALUES (1, ?, ?, ?)`,
		o.Origin, key.public, o.Now().UnixNano())
	if err != nil {
		return fmt.Errorf("writing the deployment: %w", err)
	}
	_, err = ses.signHead(o.Origin, key.signer)
	return err
}

// syncDir makes a new name in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("syncing %s: %w", dir, err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("syncing %s: %w", dir, err)
	}
	return nil
}

// Open opens a database for the one process that owns it. It never creates one.
// The newest signed head must verify and the events must have grown from it, else
// the error is ErrIntegrity. A database in use is an *OwnedError.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	path, err := existing(path)
	if err != nil {
		return nil, err
	}
	o = o.withDefaults(path)
	// Process-wide, and the same for every database: a commit needs the data and
	// the size of the file on the disk, not its modification time. Where there is
	// no fdatasync the driver's fsync stays, which is as safe.
	if _, err := sqlite.Fdatasync(true); err != nil && !errors.Is(err, sqlite.ErrFdatasyncUnavailable) {
		return nil, fmt.Errorf("choosing fdatasync: %w", err)
	}
	owned, err := own(path)
	if err != nil {
		return nil, err
	}
	s, err := openOwned(ctx, path, o)
	if err != nil {
		return nil, errors.Join(err, owned.release())
	}
	s.ownership = owned
	return s, nil
}

func openOwned(ctx context.Context, path string, o Options) (*Store, error) {
	key, err := loadKey(o.KeyPath)
	if err != nil {
		return nil, err
	}
	ses, err := openSession(ctx, path, "rw", o.Now)
	if err != nil {
		return nil, err
	}
	s := &Store{path: path, signer: key.signer, now: o.Now, subscribers: make(map[chan struct{}]bool)}
	if err := s.prepare(ctx, ses, key, o); err != nil {
		return nil, errors.Join(err, ses.close())
	}
	if s.read, err = newReader(path); err != nil {
		return nil, errors.Join(err, ses.close())
	}
	s.committer = startCommitter(ses, s.signal)
	return s, nil
}

// prepare migrates the schema and checks what is stored before anything is done on it.
func (s *Store) prepare(ctx context.Context, ses *session, key signingKey, o Options) error {
	scripts, err := migrations()
	if err != nil {
		return err
	}
	version, err := schemaVersion(ctx, ses.conn, s.path, len(scripts))
	if err != nil {
		return err
	}
	if err := migrate(ctx, ses.conn, version, scripts); err != nil {
		return err
	}
	origin, public, err := readDeployment(ctx, ses.conn)
	if err != nil {
		return err
	}
	if o.Origin != "" && o.Origin != origin {
		return &blastdoor.Error{Code: blastdoor.ErrIntegrity, Where: s.path,
			Msg: fmt.Sprintf("this is the database of %q, not of %q", origin, o.Origin)}
	}
	if public != key.public {
		return &blastdoor.Error{Code: blastdoor.ErrIntegrity, Where: o.KeyPath,
			Msg: "this is not the signing key that the database was created with"}
	}
	s.origin = origin
	if err := checkCounts(ctx, ses.conn); err != nil {
		return err
	}
	if ses.tree, err = readTree(ctx, ses.conn); err != nil {
		return err
	}
	return checkHead(ctx, ses.conn, &ses.tree, origin, key.verifier)
}

// OpenReadOnly opens a database beside its owner, or while nobody owns it, for
// commands that only read. It takes no lock, needs no signing key, migrates
// nothing and checks no head: Verify reports on those. Every writing method of
// the returned Store fails with ErrNotAllowed.
func OpenReadOnly(ctx context.Context, path string, o Options) (*Store, error) {
	path, err := existing(path)
	if err != nil {
		return nil, err
	}
	o = o.withDefaults(path)
	s := &Store{path: path, now: o.Now, subscribers: make(map[chan struct{}]bool)}
	if s.read, err = newReader(path); err != nil {
		return nil, err
	}
	if err := s.read.view(ctx, func(q querier) error { return s.prepareReading(ctx, q, o) }); err != nil {
		return nil, errors.Join(err, s.read.close())
	}
	return s, nil
}

func (s *Store) prepareReading(ctx context.Context, q querier, o Options) error {
	scripts, err := migrations()
	if err != nil {
		return err
	}
	version, err := schemaVersion(ctx, q, s.path, len(scripts))
	if err != nil {
		return err
	}
	if version < len(scripts) {
		return &blastdoor.Error{Code: blastdoor.ErrUnavailable, Where: s.path,
			Msg:  fmt.Sprintf("database has schema %d, this program reads %d", version, len(scripts)),
			Want: "start the bot once: it migrates"}
	}
	origin, _, err := readDeployment(ctx, q)
	if err != nil {
		return err
	}
	if o.Origin != "" && o.Origin != origin {
		return &blastdoor.Error{Code: blastdoor.ErrIntegrity, Where: s.path,
			Msg: fmt.Sprintf("this is the database of %q, not of %q", origin, o.Origin)}
	}
	s.origin = origin
	return nil
}

func existing(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("opening a database: %w", err)
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", &blastdoor.Error{Code: blastdoor.ErrNotFound, Where: path,
			Msg: "there is no database", Want: "create one with: bot init"}
	} else if err != nil {
		return "", fmt.Errorf("opening a database: %w", err)
	}
	return path, nil
}

func readDeployment(ctx context.Context, q querier) (origin, public string, err error) {
	err = q.QueryRowContext(ctx, `SELECT origin, verifier_key FROM deployment`).Scan(&origin, &public)
	if err != nil {
		return "", "", fmt.Errorf("reading the deployment: %w", err)
	}
	return origin, public, nil
}

// Close waits for the commits that are queued, closes the connections and gives
// up the ownership. Calling it again does nothing and returns the same error.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		// Readers first: the write connection, closed last, then checkpoints and
		// removes the write-ahead log.
		var errs []error
		if s.committer != nil {
			s.committer.stop()
		}
		errs = append(errs, s.read.close())
		if s.committer != nil {
			errs = append(errs, s.committer.session.close())
		}
		if s.ownership != nil {
			errs = append(errs, s.ownership.release())
		}
		if err := errors.Join(errs...); err != nil {
			s.closeErr = fmt.Errorf("closing %s: %w", s.path, err)
		}
	})
	return s.closeErr
}

// Path returns the absolute path of the database.
func (s *Store) Path() string { return s.path }

// Origin returns the name of the deployment.
func (s *Store) Origin() string { return s.origin }

// write hands a change to the committer.
func (s *Store) write(ctx context.Context, do func(*session) error) error {
	if s.committer == nil {
		return blastdoor.Errorf(blastdoor.ErrNotAllowed, "the database was opened for reading")
	}
	return s.committer.submit(ctx, do)
}

// Subscribe returns a channel that receives after commits, at least once after
// the last of several: a hint to look again, not a count. Call cancel when done.
func (s *Store) Subscribe() (changed <-chan struct{}, cancel func()) {
	ch := make(chan struct{}, 1)
	s.subMu.Lock()
	s.subscribers[ch] = true
	s.subMu.Unlock()
	return ch, func() {
		s.subMu.Lock()
		delete(s.subscribers, ch)
		s.subMu.Unlock()
	}
}

func (s *Store) signal() {
	s.subMu.Lock()
	defer s.subMu.Unlock()
	for ch := range s.subscribers {
		select {
		case ch <- struct{}{}:
		default: // a hint is waiting already
		}
	}
}
