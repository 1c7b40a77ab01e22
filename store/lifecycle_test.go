package store_test

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"blastdoor"
	"blastdoor/internal/storetest"
	"blastdoor/store"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestCreateAndOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a dir with spaces & 100%?", "bot.db")
	require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))

	_, err := store.Open(t.Context(), path, options())
	require.True(t, blastdoor.ErrNotFound.Is(err))
	require.ErrorContains(t, err, "bot init")
	_, err = store.OpenReadOnly(t.Context(), path, options())
	require.True(t, blastdoor.ErrNotFound.Is(err))
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Empty(t, entries, "opening nothing leaves nothing behind")

	_, err = store.Create(t.Context(), path, store.Options{})
	require.ErrorContains(t, err, "origin")

	s, err := store.Create(t.Context(), path, options())
	require.NoError(t, err)
	require.Equal(t, "blastdoor.example/test", s.Origin())
	head, err := s.LatestHead(t.Context())
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(head, "blastdoor.example/test\n0\n"), "%s", head)
	info, err := os.Stat(path + ".key")
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	begun(t, s, "r1")
	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "closing again does nothing")
	require.NoFileExists(t, path+".lock.owner")
	require.NoFileExists(t, path+".new")
	require.NoFileExists(t, path+"-wal", "a clean end leaves no log behind")

	_, err = store.Create(t.Context(), path, options())
	require.True(t, blastdoor.ErrConflict.Is(err), "an existing database is refused: %v", err)
	s, err = store.Open(t.Context(), path, store.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	counts, err := s.Counts(t.Context())
	require.NoError(t, err)
	require.Equal(t, store.Counts{Runs: 1, Unfinished: 1, Events: 1}, counts)
}

func TestCreateRefusesALogLeftBehind(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bot.db")
	require.NoError(t, os.WriteFile(path+"-wal", []byte("old"), 0o600))
	_, err := store.Create(t.Context(), path, options())
	require.True(t, blastdoor.ErrConflict.Is(err), "%v", err)
}

func TestOpenRefuses(t *testing.T) {
	for _, tc := range []struct {
		name   string
		damage func(t *testing.T, path string)
		opts   store.Options
		code   blastdoor.Code
		words  string
	}{
		{"another deployment", func(*testing.T, string) {}, store.Options{Origin: "elsewhere"}, blastdoor.ErrIntegrity, `not of "elsewhere"`},
		{"a newer schema", func(t *testing.T, path string) { rawExec(t, path, `PRAGMA user_version = 7`) }, options(), blastdoor.ErrUnavailable,
			"database is from a newer version of Blast Door: its schema is 7, this program knows up to 1"},
		{"a database of something else", func(t *testing.T, path string) { rawExec(t, path, `PRAGMA application_id = 1`) }, options(),
			blastdoor.ErrIntegrity, "this is not a Blast Door database"},
		{"a file that is no database", func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("not a database. ", 100)), 0o600))
		}, options(), "", "not a database"},
		{"no key", func(t *testing.T, path string) { require.NoError(t, os.Remove(path+".key")) }, options(), "", "reading the signing key"},
		{"a damaged key", func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path+".key", []byte("PRIVATE+KEY+x"), 0o600))
		},
			options(), blastdoor.ErrIntegrity, "this is not a signing key"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path, _ := history(t)
			tc.damage(t, path)
			_, err := store.Open(t.Context(), path, tc.opts)
			require.Equal(t, tc.code, blastdoor.CodeOf(err), "%v", err)
			require.ErrorContains(t, err, tc.words)
			require.NoFileExists(t, path+".lock.owner", "a refused database is not owned")
		})
	}
}

func TestSecondOwnerIsRefused(t *testing.T) {
	s := create(t)
	_, err := store.Open(t.Context(), s.Path(), options())
	owned, ok := errors.AsType[*store.OwnedError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, os.Getpid(), owned.PID)
	require.ErrorContains(t, err, fmt.Sprintf("in use by process %d", os.Getpid()))
	require.NoError(t, s.Close())
	reopen(t, s)
}

func TestReadOnlyBesideTheOwner(t *testing.T) {
	s := create(t)
	c := begun(t, s, "r1")
	reader, err := store.OpenReadOnly(t.Context(), s.Path(), options())
	require.NoError(t, err)
	defer func() { require.NoError(t, reader.Close()) }()
	require.NoError(t, s.Commit(t.Context(), storetest.Follow(c, &blastdoor.Observed{})))
	events, err := reader.Load(t.Context(), "r1")
	require.NoError(t, err)
	require.Len(t, events, 2, "it sees what was committed since")
	_, err = reader.Accept(t.Context(), blastdoor.InboxItem{ID: "x", ReceivedAt: time.Unix(1, 0)})
	require.True(t, blastdoor.ErrNotAllowed.Is(err))
	_, err = reader.SignHead(t.Context())
	require.True(t, blastdoor.ErrNotAllowed.Is(err))
}

func TestMigrationGolden(t *testing.T) {
	path, _ := history(t)
	statements := texts(t, path, `SELECT sql || ';' FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type DESC, name`)
	dump := strings.Join(statements, "\n\n") + "\n"
	golden := filepath.Join("testdata", "schema.golden.sql")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(golden, []byte(dump), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), dump, "a migration that has shipped is never edited: add one")
}

// The closed sets of the schema are those of the vocabulary.
func TestSchemaKnowsTheClosedSets(t *testing.T) {
	path, _ := history(t)
	statements := func(table string) string {
		return texts(t, path, `SELECT sql FROM sqlite_schema WHERE name = '`+table+`'`)[0]
	}
	kinds := map[string]bool{}
	for _, kind := range blastdoor.EventKinds() {
		kinds[string(kind)] = true
	}
	requireSet(t, kinds, statements("events"), "kind = ")
	statuses := map[string]bool{blastdoor.RunActive: true, blastdoor.RunWaiting: true}
	for _, outcome := range blastdoor.RunOutcomes() {
		statuses[string(outcome)] = true
	}
	requireSet(t, statuses, statements("runs"), "status = ")
	approvals, deliveries := map[string]bool{}, map[string]bool{}
	for _, status := range blastdoor.ApprovalStatuses() {
		approvals[string(status)] = true
	}
	for _, kind := range blastdoor.DeliveryKinds() {
		deliveries[string(kind)] = true
	}
	requireSet(t, approvals, statements("approvals"), "status = ")
	requireSet(t, deliveries, statements("deliveries"), "kind = ")
}

// requireSet compares a closed set with the words that a CHECK compares a column with.
func requireSet(t *testing.T, want map[string]bool, statement, comparison string) {
	t.Helper()
	got := map[string]bool{}
	for _, word := range strings.Split(statement, comparison+"'")[1:] {
		word, _, _ = strings.Cut(word, "'")
		got[word] = true
	}
	require.Equal(t, want, got)
}

// The database itself refuses what must never happen, whoever asks.
func TestDatabaseRefuses(t *testing.T) {
	for name, statement := range map[string]string{
		"event changed":                    `UPDATE events SET at = 0`,
		"event deleted":                    `DELETE FROM events`,
		"event out of order":               `INSERT INTO events SELECT leaf + 2, run_id, seq + 1, at, kind, body, chain_hash, hashes FROM events ORDER BY leaf DESC LIMIT 1`,
		"event doubled":                    `INSERT INTO events SELECT leaf + 1, run_id, seq, at, kind, body, chain_hash, hashes FROM events ORDER BY leaf DESC LIMIT 1`,
		"event replaced":                   `REPLACE INTO events SELECT leaf, run_id, seq, 0, kind, body, chain_hash, hashes FROM events ORDER BY leaf DESC LIMIT 1`,
		"event of unknown kind":            `INSERT INTO events SELECT leaf + 1, run_id, seq + 1, at, 'wish', body, chain_hash, hashes FROM events ORDER BY leaf DESC LIMIT 1`,
		"head changed":                     `UPDATE heads SET note = 'x'`,
		"head deleted":                     `DELETE FROM heads`,
		"head smaller":                     `INSERT INTO heads SELECT 1, root, note, signed_at FROM heads LIMIT 1`,
		"document changed":                 `UPDATE documents SET body = X'00'`,
		"document deleted":                 `DELETE FROM documents`,
		"deployment changed":               `UPDATE deployment SET origin = 'x'`,
		"run shortened":                    `UPDATE runs SET len = len - 1 WHERE len > 1`,
		"run revived":                      `UPDATE runs SET ended = 0, status = 'running' WHERE ended = 1`,
		"run deleted":                      `DELETE FROM runs`,
		"run ended without outcome":        `UPDATE runs SET ended = 1 WHERE ended = 0`,
		"consumed approval changed":        `UPDATE approvals SET status = 'granted', consumed_at = NULL`,
		"approval bound anew":              `UPDATE approvals SET plan_hash = 'x'`,
		"approval deleted":                 `DELETE FROM approvals`,
		"approval consumed without a time": `INSERT INTO approvals VALUES ('ap9', 'r1', 's', 'h', 'consumed', 1, NULL)`,
		"approval with a time, unconsumed": `INSERT INTO approvals VALUES ('ap9', 'r1', 's', 'h', 'granted', 1, 1)`,
		"approval of no run":               `INSERT INTO approvals VALUES ('ap9', 'ghost', 's', 'h', 'granted', 1, NULL)`,
		"target locked twice":              `INSERT INTO locks VALUES ('db', 'r3', 0)`,
		"lock without a flight":            `INSERT INTO locks VALUES ('web', 'r3', 0)`,
		"envelope settled twice":           `UPDATE inbox SET settled_at = 2 WHERE settled_at IS NOT NULL`,
		"unsettled envelope deleted":       `DELETE FROM inbox WHERE settled_at IS NULL`,
		"delivery wants less":              `UPDATE deliveries SET want = want - 1`,
		"delivery deleted":                 `DELETE FROM deliveries`,
		"delivery due and not pending":     `UPDATE deliveries SET pending = 0`,
		"delivery of unknown kind":         `UPDATE deliveries SET kind = 'shout'`,
	} {
		t.Run(name, func(t *testing.T) {
			path, _ := history(t)
			s, err := store.Open(t.Context(), path, options())
			require.NoError(t, err)
			defer func() { require.NoError(t, s.Close()) }()
			for _, id := range []string{"settled", "open"} {
				_, err := s.Accept(t.Context(), blastdoor.InboxItem{ID: id, Kind: "interactive", ReceivedAt: time.Unix(1, 0)})
				require.NoError(t, err)
			}
			require.NoError(t, s.Settle(t.Context(), "settled", []blastdoor.Delivery{storetest.Card("r1", 3)}))
			db, err := sql.Open("sqlite", path+"?_pragma=foreign_keys(1)&_pragma=busy_timeout(5000)")
			require.NoError(t, err)
			defer func() { require.NoError(t, db.Close()) }()
			_, err = db.Exec(statement)
			require.ErrorContains(t, err, "constraint failed")
		})
	}
}

func rawExec(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	_, err = db.Exec(statement)
	require.NoError(t, errors.Join(err, db.Close()))
}

// 64 runs at once: nothing is lost, and everything verifies.
func TestManyAtOnce(t *testing.T) {
	s := create(t)
	changed, cancel := s.Subscribe()
	defer cancel()
	var wg sync.WaitGroup
	errs := make([]error, 64)
	for i := range errs {
		wg.Go(func() { errs[i] = liveOneLife(t.Context(), s, fmt.Sprintf("r%d", i)) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	select {
	case <-changed:
	default:
		t.Error("nobody said that something was committed")
	}
	counts, err := s.Counts(t.Context())
	require.NoError(t, err)
	require.Equal(t, store.Counts{Runs: 64, Unfinished: 64, Events: 64 * 21, InFlight: 64, Pending: 64}, counts)
	report, err := s.Verify(t.Context(), store.AuditOptions{})
	require.NoError(t, err)
	require.Empty(t, report.Findings)
	require.EqualValues(t, 64*21, report.Events)
}

// liveOneLife commits 21 events, and between them commits that must fail.
func liveOneLife(ctx context.Context, s *store.Store, runID string) error {
	c := storetest.Begin(runID, "src-"+runID)
	if _, _, err := s.Begin(ctx, "src-"+runID, c); err != nil {
		return err
	}
	for range 20 {
		stale := c
		c = storetest.Fly(storetest.Follow(c, &blastdoor.Observed{Summary: runID}), "target-"+runID)
		c.Deliveries = []blastdoor.Delivery{storetest.Card(runID, c.At+1)}
		if err := s.Commit(ctx, c); err != nil {
			return err
		}
		if err := s.Commit(ctx, storetest.Follow(stale, &blastdoor.Observed{})); !blastdoor.ErrConflict.Is(err) {
			return fmt.Errorf("a stale commit to %s: %w", runID, err)
		}
	}
	return nil
}
