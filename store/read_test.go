package store_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"blastdoor"
	"blastdoor/internal/storetest"
	"blastdoor/store"
)

// Many more readers than connections, none of whose statements is prepared yet,
// while somebody writes: nobody waits for ever.
func TestReadsAtOnce(t *testing.T) {
	s := create(t)
	c := begun(t, s, "r1")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a circle of waiters ends here, with an error
	defer cancel()
	errs := make([]error, 64)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = readEverything(ctx, s) })
	}
	for range 50 {
		c = storetest.Follow(c, &blastdoor.Observed{})
		require.NoError(t, s.Commit(ctx, c))
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
}

func readEverything(ctx context.Context, s *store.Store) error {
	var errs []error
	for _, err := range s.Projections(ctx) { // reading in the loop is allowed
		_, loadErr := s.Load(ctx, "r1")
		_, storedErr := s.StoredProjection(ctx, "r1")
		errs = append(errs, err, loadErr, storedErr)
	}
	_, err1 := s.Runs(ctx, store.RunFilter{})
	_, err2 := s.PendingDeliveries(ctx, time.Unix(0, 0))
	_, err3 := s.Verify(ctx, store.AuditOptions{})
	_, err4 := s.InFlight(ctx)
	return errors.Join(append(errs, err1, err2, err3, err4)...)
}

// A reader who gives up leaves the connection fit for the next.
func TestReadersGiveUp(t *testing.T) {
	path, _ := history(t)
	s, err := store.OpenReadOnly(t.Context(), path, options())
	require.NoError(t, err)
	for range 200 {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := s.Verify(ctx, store.AuditOptions{})
			done <- err
		}()
		cancel()
		if err := <-done; err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
	}
	for range 8 {
		_, err := s.Load(t.Context(), "r1")
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())
	_, err = s.Load(t.Context(), "r1")
	require.True(t, blastdoor.ErrUnavailable.Is(err), "%v", err)
}
