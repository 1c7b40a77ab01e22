package store_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"blastdoor/internal/storetest"
)

// TestManyColdReadersDoNotWaitForEachOther: readers in a snapshot hold a connection
// each; with nothing prepared yet, none may need a second one. (Preparing on the
// pool from within a snapshot hangs here.)
func TestManyColdReadersDoNotWaitForEachOther(t *testing.T) {
	for range 20 {
		s := create(t)
		_, _, err := s.Begin(t.Context(), "src", storetest.Begin("r1", "src"))
		require.NoError(t, err)
		var wg sync.WaitGroup
		errs := make([]error, 32)
		for i := range errs {
			wg.Go(func() { _, errs[i] = s.Load(t.Context(), "r1") })
			wg.Go(func() { _, _ = s.Unfinished(t.Context()) })
		}
		wg.Wait()
		for _, err := range errs {
			require.NoError(t, err)
		}
	}
}
