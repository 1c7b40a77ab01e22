package engine

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"blastdoor"
)

// busyStart begins a run in the instant after the unfinished ones were listed.
type busyStart struct {
	Journal
	begin func()
}

func (j busyStart) Unfinished(ctx context.Context) ([]string, error) {
	ids, err := j.Journal.Unfinished(ctx)
	j.begin()
	return ids, err
}

// TestARunBegunWhileTheRunnerStarts is driven, though it is not on the list that
// the runner has read.
func TestARunBegunWhileTheRunnerStarts(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.stop()
		b.runner.Journal = busyStart{b.store, func() {
			_, err := b.runner.Start(t.Context(), b.request("restart-solo"))
			require.NoError(t, err)
		}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.runner.Run(ctx) }()
		synctest.Wait()
		cancel()
		require.NoError(t, <-done)
		require.Equal(t, blastdoor.RunCompleted, b.run(b.store.History()[0].RunID).Outcome)
	})
}
