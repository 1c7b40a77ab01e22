package simenv_test

import (
	"database/sql"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"blastdoor"
	"blastdoor/simenv"
)

// rawDB opens a file as somebody with a SQL prompt would.
func rawDB(t *testing.T, path string) *sql.DB {
	t.Helper()
	name := url.URL{Scheme: "file", Path: path, RawQuery: "_pragma=foreign_keys(1)&_pragma=busy_timeout(5000)"}
	db, err := sql.Open("sqlite", name.String())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func TestCreateRefusesExistingFiles(t *testing.T) {
	t.Parallel()
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		path := filepath.Join(t.TempDir(), "world.db")
		require.NoError(t, os.WriteFile(path+suffix, []byte("precious"), 0o600))
		err := simenv.Create(t.Context(), path, defaultWorld(t))
		assert.Equal(t, blastdoor.ErrConflict, blastdoor.CodeOf(err), suffix)
		data, err := os.ReadFile(path + suffix)
		require.NoError(t, err)
		assert.Equal(t, "precious", string(data))
		onlyFile(t, path+suffix)
	}
}

// onlyFile checks that a directory holds nothing else: no draft was left behind.
func onlyFile(t *testing.T, path string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1, "%v", entries)
	assert.Equal(t, filepath.Base(path), entries[0].Name())
}

func TestCreateLeavesOneFile(t *testing.T) {
	t.Parallel()
	onlyFile(t, createWorld(t, defaultWorld(t)))
}

func TestCreateRefusesInvalidWorlds(t *testing.T) {
	t.Parallel()
	w := defaultWorld(t)
	w.Services[0].Host = "ghost"
	path := filepath.Join(t.TempDir(), "world.db")
	err := simenv.Create(t.Context(), path, w)
	assert.Equal(t, blastdoor.ErrUnknownDependency, blastdoor.CodeOf(err))
	assert.NoFileExists(t, path)
}

func TestCreateAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "world.db")
	w := defaultWorld(t)
	errs := make([]error, 8)
	var group sync.WaitGroup
	for i := range errs {
		group.Go(func() { errs[i] = simenv.Create(t.Context(), path, w) })
	}
	group.Wait()
	made := 0
	for _, err := range errs {
		if err == nil {
			made++
		}
	}
	assert.Equal(t, 1, made)
	assert.NotEmpty(t, snapshot(t, openWorld(t, path, simenv.Options{})))
}

func TestOpenRefusals(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "world.db")
	_, err := simenv.Open(t.Context(), missing, simenv.Options{})
	assert.Equal(t, blastdoor.ErrNotFound, blastdoor.CodeOf(err))
	assert.ErrorContains(t, err, "bot init")
	assert.NoFileExists(t, missing, "Open never creates")

	other := filepath.Join(t.TempDir(), "other.db")
	_, err = rawDB(t, other).ExecContext(t.Context(), `CREATE TABLE t (x)`)
	require.NoError(t, err)
	before, err := os.ReadFile(other)
	require.NoError(t, err)
	_, err = simenv.Open(t.Context(), other, simenv.Options{})
	assert.Equal(t, blastdoor.ErrIntegrity, blastdoor.CodeOf(err))
	assert.ErrorContains(t, err, "this is not a simulated world")
	after, err := os.ReadFile(other)
	require.NoError(t, err)
	assert.Equal(t, before, after, "a foreign database is not touched")

	text := filepath.Join(t.TempDir(), "text.db")
	require.NoError(t, os.WriteFile(text, []byte("these are the notes of somebody, not a database at all\n"), 0o600))
	_, err = simenv.Open(t.Context(), text, simenv.Options{})
	assert.ErrorContains(t, err, "text.db")

	newer := createWorld(t, defaultWorld(t))
	_, err = rawDB(t, newer).ExecContext(t.Context(), `PRAGMA user_version = 2`)
	require.NoError(t, err)
	_, err = simenv.Open(t.Context(), newer, simenv.Options{})
	assert.ErrorContains(t, err, "the simulated world has format 2, this program knows 1")
}

func TestStrangePaths(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"with space.db", "per%20cent.db", "what?.db", "hash#1.db", "ünïcode.db"} {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, simenv.Create(t.Context(), path, defaultWorld(t)), name)
		require.FileExists(t, path)
		assert.Len(t, ledger(t, openWorld(t, path, simenv.Options{})), 0)
	}
}

// TestDurabilitySettings: what makes a receipt true after a power cut is set on
// the connection that writes.
func TestDurabilitySettings(t *testing.T) {
	t.Parallel()
	db := rawDB(t, createWorld(t, defaultWorld(t)))
	var mode string
	require.NoError(t, db.QueryRowContext(t.Context(), `PRAGMA journal_mode`).Scan(&mode))
	assert.Equal(t, "wal", mode)
	assert.Equal(t, map[string]int{"synchronous": 2, "foreign_keys": 1, "busy_timeout": 5000},
		simenv.WriterSettings(t, newEnv(t)))
}

func TestClosedWorld(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	p := plan(t, env, "restart_service", blastdoor.Params{"service": "cache"})
	require.NoError(t, env.Close())
	require.NoError(t, env.Close(), "closing twice is fine")
	_, err := env.Apply(t.Context(), "key", p)
	assert.Equal(t, blastdoor.ErrUnavailable, blastdoor.CodeOf(err))
	outcome, _, err := env.Lookup(t.Context(), "key")
	assert.Equal(t, blastdoor.OutcomeUnknown, outcome)
	assert.Equal(t, blastdoor.ErrUnavailable, blastdoor.CodeOf(err))
	assert.Equal(t, blastdoor.ErrUnavailable, blastdoor.CodeOf(env.ClearFaults(t.Context())))
}
