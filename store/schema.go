package store

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"blastdoor"
)

// Migrations are numbered from 1 without gaps, run forward only, one transaction
// each, and are never edited once they have shipped.
//
//go:embed migrations/*.sql
var migrationFiles embed.FS

// applicationID marks the file as ours ("BLDR" in ASCII), in the field that
// SQLite's file format reserves for that.
const applicationID = 0x424c4452

// migrations returns the statements of each schema version, version 1 first.
func migrations() ([]string, error) {
	names, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil {
		return nil, fmt.Errorf("listing migrations: %w", err)
	}
	scripts := make([]string, 0, len(names))
	for i, name := range names { // Glob sorts
		number, _, _ := strings.Cut(strings.TrimPrefix(name, "migrations/"), "_")
		if n, err := strconv.Atoi(number); err != nil || n != i+1 {
			return nil, fmt.Errorf("listing migrations: %s should have number %d", name, i+1)
		}
		script, err := fs.ReadFile(migrationFiles, name)
		if err != nil {
			return nil, fmt.Errorf("reading migration %s: %w", name, err)
		}
		scripts = append(scripts, string(script))
	}
	return scripts, nil
}

// schemaVersion checks that the database is ours and not from the future, and
// returns its version.
func schemaVersion(ctx context.Context, db querier, path string, known int) (int, error) {
	var id, version int
	if err := db.QueryRowContext(ctx, `PRAGMA application_id`).Scan(&id); err != nil {
		return 0, fmt.Errorf("reading the application id of %s: %w", path, err)
	}
	if id != applicationID {
		return 0, &blastdoor.Error{Code: blastdoor.ErrIntegrity, Where: path,
			Msg: "this is not a Blast Door database", Want: "create one with: bot init"}
	}
	if err := db.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version); err != nil {
		return 0, fmt.Errorf("reading the schema version of %s: %w", path, err)
	}
	if version > known {
		return 0, &blastdoor.Error{Code: blastdoor.ErrUnavailable, Where: path,
			Msg:  fmt.Sprintf("database is from a newer version of Blast Door: its schema is %d, this program knows up to %d", version, known),
			Want: "run the newer program; nothing was changed"}
	}
	return version, nil
}

// migrate brings the schema from version to the newest.
func migrate(ctx context.Context, conn *sql.Conn, version int, scripts []string) error {
	for ; version < len(scripts); version++ {
		tx, err := conn.BeginTx(ctx, nil)
		if err != nil {
			return fmt.Errorf("beginning migration %d: %w", version+1, err)
		}
		if err := applyMigration(ctx, tx, version+1, scripts[version]); err != nil {
			_ = tx.Rollback() // the first error is the one that matters
			return err
		}
		if err := tx.Commit(); err != nil {
			return fmt.Errorf("committing migration %d: %w", version+1, err)
		}
	}
	return nil
}

func applyMigration(ctx context.Context, tx *sql.Tx, number int, script string) error {
	if _, err := tx.ExecContext(ctx, script); err != nil {
		return fmt.Errorf("applying migration %d: %w", number, err)
	}
	if _, err := tx.ExecContext(ctx, `PRAGMA user_version = `+strconv.Itoa(number)); err != nil {
		return fmt.Errorf("numbering migration %d: %w", number, err)
	}
	return nil
}
