package store_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"blastdoor"
	"blastdoor/internal/storetest"
	"blastdoor/store"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness { return harness(t, create(t)) })
}

// options are those of every test database.
func options() store.Options { return store.Options{Origin: "blastdoor.example/test"} }

// create makes a database that is closed when the test ends.
func create(t testing.TB) *store.Store {
	t.Helper()
	s, err := store.Create(t.Context(), filepath.Join(t.TempDir(), "bot.db"), options())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func harness(t testing.TB, s *store.Store) storetest.Harness {
	return storetest.Harness{
		Journal: s, Board: s, Inbox: s, Outbox: s, Messages: s,
		Post: func(ctx context.Context, id string) error { return s.Delivered(ctx, id, "1700000000.000100", 1) },
		Reopen: func(ctx context.Context) (storetest.Harness, error) {
			return harness(t, crash(t, s)), nil
		},
	}
}

// crash opens what a crash at this moment would leave: a copy of the files as
// they are, the write-ahead log not yet in the database.
func crash(t testing.TB, s *store.Store) *store.Store {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bot.db")
	for _, suffix := range []string{"", "-wal", ".key"} {
		data, err := os.ReadFile(s.Path() + suffix)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path+suffix, data, 0o600))
	}
	again, err := store.Open(t.Context(), path, options())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, again.Close()) })
	return again
}

// reopen closes a database and opens it again.
func reopen(t testing.TB, s *store.Store) *store.Store {
	t.Helper()
	require.NoError(t, s.Close())
	again, err := store.Open(t.Context(), s.Path(), options())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, again.Close()) })
	return again
}

// begun opens a run.
func begun(t testing.TB, s *store.Store, runID string) blastdoor.Commit {
	t.Helper()
	c := storetest.Begin(runID, "src-"+runID)
	_, isNew, err := s.Begin(t.Context(), "src-"+runID, c)
	require.NoError(t, err)
	require.True(t, isNew)
	return c
}
