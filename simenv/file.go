package simenv

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the database driver "sqlite"

	"blastdoor"
)

//go:embed schema.sql
var schema string

// The file header says what the file is, so that another database is never
// taken for a world: application_id spells "bdsw".
const (
	applicationID = 0x62647377
	schemaVersion = 1
)

// Options are what a process brings to an open world.
type Options struct {
	// Now is the clock of receipts and rehearsals; nil means time.Now.
	Now func() time.Time
	// OnFault is told of each scripted fault as it strikes, before the call fails
	// or hangs; nil means nobody is told. It may be called by many goroutines.
	OnFault func(Fault)
}

// Create writes a new world to a new file. It refuses a world that does not
// validate, and a path where a file, or a leftover of one, exists. The file
// appears whole or not at all.
func Create(ctx context.Context, path string, world World) error {
	if err := world.Validate(); err != nil {
		return err
	}
	for _, leftover := range []string{path, path + "-wal", path + "-shm", path + "-journal"} {
		switch _, err := os.Lstat(leftover); {
		case err == nil:
			return &blastdoor.Error{Code: blastdoor.ErrConflict, Where: leftover,
				Msg: "a simulated world is never created over an existing file", Want: "remove it, or choose another path"}
		case !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("creating simulated world: %w", err)
		}
	}
	draft, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new-*")
	if err != nil {
		return fmt.Errorf("creating simulated world %s: %w", path, err)
	}
	defer func() { _ = os.Remove(draft.Name()) }() // the draft's name only; the file lives on under path
	if err := draft.Close(); err != nil {
		return fmt.Errorf("creating simulated world %s: %w", path, err)
	}
	if err := fill(ctx, draft.Name(), world); err != nil {
		return fmt.Errorf("creating simulated world %s: %w", path, err)
	}
	// A link, unlike a rename, fails when another process was faster.
	if err := os.Link(draft.Name(), path); err != nil {
		return fmt.Errorf("creating simulated world: %w", err)
	}
	return syncDir(filepath.Dir(path))
}

func fill(ctx context.Context, path string, world World) (err error) {
	db, err := openDB(path, writerSettings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	header := fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d;", applicationID, schemaVersion)
	if _, err := tx.ExecContext(ctx, header+schema); err != nil {
		return fmt.Errorf("creating tables: %w", err)
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO world (id, version) VALUES (1, 1)`); err != nil {
		return err
	}
	if err := insertWorld(ctx, tx, world); err != nil {
		return err
	}
	return tx.Commit()
}

func insertWorld(ctx context.Context, tx *sql.Tx, world World) error {
	for _, host := range world.Hosts {
		if _, err := tx.ExecContext(ctx, `INSERT INTO hosts (name, schedulable, revision) VALUES (?, 1, 1)`, host); err != nil {
			return fmt.Errorf("inserting host %s: %w", host, err)
		}
	}
	for i := range world.Services {
		if err := insertService(ctx, tx, &world.Services[i]); err != nil {
			return err
		}
	}
	for i := range world.Services { // only now, since a dependency may name a later service
		if err := insertDependencies(ctx, tx, &world.Services[i]); err != nil {
			return err
		}
	}
	return nil
}

func insertService(ctx context.Context, tx *sql.Tx, s *Service) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO services
		(name, host, replicas, protected, version, previous_version, restarts, rollouts, revision)
		VALUES (?, ?, ?, ?, ?, ?, 0, 0, 1)`, s.Name, s.Host, s.Replicas, s.Protected, s.Version, s.PreviousVersion)
	if err != nil {
		return fmt.Errorf("inserting service %s: %w", s.Name, err)
	}
	for name, value := range s.Metrics {
		if _, err := tx.ExecContext(ctx, `INSERT INTO metrics (service, name, value) VALUES (?, ?, ?)`,
			s.Name, name, value); err != nil {
			return fmt.Errorf("inserting metric %s of %s: %w", name, s.Name, err)
		}
	}
	return nil
}

func insertDependencies(ctx context.Context, tx *sql.Tx, s *Service) error {
	for _, d := range s.DependsOn {
		if _, err := tx.ExecContext(ctx, `INSERT INTO dependencies (service, depends_on, kind) VALUES (?, ?, ?)`,
			s.Name, d.Name, string(d.Kind)); err != nil {
			return fmt.Errorf("inserting dependency of %s on %s: %w", s.Name, d.Name, err)
		}
	}
	return nil
}

// Settings are per connection, so they are in the name that every connection is
// opened by. synchronous(FULL) is what makes a receipt true after a power cut.
const (
	writerSettings = "_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)" +
		"&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
	readerSettings = "_pragma=busy_timeout(5000)&_pragma=query_only(1)"
)

// openDB opens an existing file (mode=rw never creates one).
func openDB(path, settings string) (*sql.DB, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	name := url.URL{Scheme: "file", Path: filepath.ToSlash(abs), RawQuery: "mode=rw&" + settings}
	return sql.Open("sqlite", name.String())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("making the new file durable: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}

// checkHeader refuses files that are not worlds, and worlds of a newer program.
func checkHeader(ctx context.Context, db *sql.DB, path string) error {
	var id, version int
	if err := db.QueryRowContext(ctx, `SELECT application_id, user_version FROM pragma_application_id, pragma_user_version`).
		Scan(&id, &version); err != nil {
		return fmt.Errorf("opening simulated world %s: %w", path, err)
	}
	switch {
	case id != applicationID:
		return &blastdoor.Error{Code: blastdoor.ErrIntegrity, Where: path, Msg: "this is not a simulated world",
			Want: "name the file that `bot init` created"}
	case version != schemaVersion:
		return &blastdoor.Error{Code: blastdoor.ErrIntegrity, Where: path,
			Msg:  fmt.Sprintf("the simulated world has format %d, this program knows %d", version, schemaVersion),
			Want: "use the program that created it, or create a new world"}
	}
	return nil
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func parseTime(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("reading a stored time: %w", err)
	}
	return t, nil
}
