package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"blastdoor"
)

// busyStart does something in the instant after the unfinished runs were listed.
type busyStart struct {
	Journal
	meanwhile func()
}

func (j busyStart) Unfinished(ctx context.Context) ([]string, error) {
	ids, err := j.Journal.Unfinished(ctx)
	j.meanwhile()
	return ids, errors.Join(err, ctx.Err())
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

// TestStoppedWhileTheRunnerStarts: being told to stop is no error, however early.
func TestStoppedWhileTheRunnerStarts(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.stop()
		ctx, cancel := context.WithCancel(t.Context())
		b.runner.Journal = busyStart{b.store, cancel}
		require.NoError(t, b.runner.Run(ctx))

		b.runner.Journal = brokenList{b.store}
		require.ErrorContains(t, b.runner.Run(t.Context()), "listing unfinished runs")
	})
}

// brokenList cannot say which runs are unfinished.
type brokenList struct{ Journal }

func (brokenList) Unfinished(context.Context) ([]string, error) {
	return nil, errors.New("the disk is gone")
}
