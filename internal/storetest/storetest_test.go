package storetest_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"blastdoor"
	"blastdoor/internal/memstore"
	"blastdoor/internal/storetest"
	"blastdoor/store"
)

// The journal in memory that the engine's tests rest on keeps the same promises.
func TestMemoryKeepsThePromises(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Harness {
		s := memstore.New()
		return storetest.Harness{Journal: s, Board: s,
			Post: func(_ context.Context, id string) error { _, err := s.Post(id); return err }}
	})
}

// harness is a good store, to be broken.
func harness(t *testing.T) (storetest.Harness, *store.Store) {
	s, err := store.Create(t.Context(), filepath.Join(t.TempDir(), "bot.db"), store.Options{Origin: "blastdoor.example/test"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return storetest.Harness{Journal: s, Board: s, Inbox: s, Outbox: s, Messages: s,
		Post: func(ctx context.Context, id string) error { return s.Delivered(ctx, id, "17.1", 1) }}, s
}

// Each of these stores breaks one promise in the way that a plausible bug would.
type (
	// forgetfulSource opens a new run for a source that has one.
	forgetfulSource struct{ *store.Store }
	// lastWriteWins repeats a commit that is behind at the length of now.
	lastWriteWins struct{ *store.Store }
	// noLocks stores intents without their targets.
	noLocks struct{ *store.Store }
	// settlesTwice calls a settled envelope good.
	settlesTwice struct{ *store.Store }
	// halfCommit writes the deliveries of a commit that fails.
	halfCommit struct{ *store.Store }
	// respends lets a spent approval pass, by leaving it out.
	respends struct{ *store.Store }
	// noMemory is an inbox that takes everything for new.
	noMemory struct{ *store.Store }
	// noThreads delivers messages before those they hang under.
	noThreads struct{ *store.Store }
	// forgetsDoubt closes an attempt whose outcome is unknown.
	forgetsDoubt struct{ *store.Store }
	// undead goes on delivering what was dropped.
	undead struct{ *store.Store }
)

func (s forgetfulSource) Begin(ctx context.Context, source string, c blastdoor.Commit) (string, bool, error) {
	body := *c.Events[0].Body.(*blastdoor.RunRequested)
	body.SourceID = source + c.RunID
	c.Events[0].Body = &body
	return s.Store.Begin(ctx, body.SourceID, c)
}

func (s lastWriteWins) Commit(ctx context.Context, c blastdoor.Commit) error {
	err := s.Store.Commit(ctx, c)
	for blastdoor.ErrConflict.Is(err) {
		events, loadErr := s.Load(ctx, c.RunID)
		if loadErr != nil {
			return loadErr
		}
		c.At = len(events)
		for i := range c.Events {
			c.Events[i].Seq = c.At + i + 1
		}
		c.Projection.Run.Len = c.At + len(c.Events)
		err = s.Store.Commit(ctx, c)
	}
	return err
}

func (s noLocks) Commit(ctx context.Context, c blastdoor.Commit) error {
	c.Projection.Flight = nil
	return s.Store.Commit(ctx, c)
}

func (s settlesTwice) Settle(ctx context.Context, id string, d []blastdoor.Delivery) error {
	err := s.Store.Settle(ctx, id, d)
	if blastdoor.ErrConflict.Is(err) {
		return nil
	}
	return err
}

func (s halfCommit) Commit(ctx context.Context, c blastdoor.Commit) error {
	err := s.Store.Commit(ctx, c)
	if err != nil && c.Settles != "" {
		_ = s.Settle(ctx, c.Settles, c.Deliveries) // the bug
	}
	return err
}

func (s respends) Commit(ctx context.Context, c blastdoor.Commit) error {
	err := s.Store.Commit(ctx, c)
	if blastdoor.ErrConflict.Is(err) {
		c.Projection.Approvals = nil
		return s.Store.Commit(ctx, c)
	}
	return err
}

func (s noMemory) Accept(ctx context.Context, item blastdoor.InboxItem) (bool, error) {
	_, err := s.Store.Accept(ctx, item)
	return true, err
}

func (s noThreads) PendingDeliveries(ctx context.Context, now time.Time) ([]blastdoor.OutboxRow, error) {
	rows, err := s.Store.PendingDeliveries(ctx, now)
	if child, childErr := s.Delivery(ctx, "list"); childErr == nil && child.TS == "" && len(rows) > 0 {
		rows = append([]blastdoor.OutboxRow{child}, rows...)
	}
	return rows, err
}

func (s forgetsDoubt) Retry(ctx context.Context, id string, notBefore time.Time, reason string, _ bool) error {
	return s.Store.Retry(ctx, id, notBefore, reason, false)
}

func (s undead) Drop(context.Context, string, string) error { return nil }

// A check that cannot fail proves nothing: each broken store is noticed by the
// check of the promise that it breaks.
func TestChecksNoticeBrokenStores(t *testing.T) {
	for _, broken := range []struct {
		check string
		wrap  func(h *storetest.Harness, s *store.Store)
	}{
		{"Begin must return the same run for the same source", func(h *storetest.Harness, s *store.Store) { h.Journal = forgetfulSource{s} }},
		{"Begin of a known source must write nothing but the settling", func(h *storetest.Harness, s *store.Store) { h.Journal = forgetfulSource{s} }},
		{"Begin many times at once must open one run", func(h *storetest.Harness, s *store.Store) { h.Journal = forgetfulSource{s} }},
		{"Commit must fail with ErrConflict at a stale length", func(h *storetest.Harness, s *store.Store) { h.Journal = lastWriteWins{s} }},
		{"Commit at one length many times at once must succeed once", func(h *storetest.Harness, s *store.Store) { h.Journal = lastWriteWins{s} }},
		{"Commit must fail with ErrTargetLocked when another run holds a target", func(h *storetest.Harness, s *store.Store) { h.Journal = noLocks{s} }},
		{"InFlight must return the live intents of all runs", func(h *storetest.Harness, s *store.Store) { h.Journal = noLocks{s} }},
		{"Settle must fail with ErrConflict the second time and add nothing", func(h *storetest.Harness, s *store.Store) { h.Board = settlesTwice{s} }},
		{"Commit must be all or nothing", func(h *storetest.Harness, s *store.Store) { h.Journal = halfCommit{s} }},
		{"Commit must never consume an approval twice", func(h *storetest.Harness, s *store.Store) { h.Journal = respends{s} }},
		{"Commit must never bring a consumed approval back", func(h *storetest.Harness, s *store.Store) { h.Journal = respends{s} }},
		{"Accept must know an envelope again, settled or not", func(h *storetest.Harness, s *store.Store) { h.Inbox = noMemory{s} }},
		{"Accept must lose and double nothing when 200 come at once", func(h *storetest.Harness, s *store.Store) { h.Inbox = noMemory{s} }},
		{"A message in a thread must wait for the one it hangs under", func(h *storetest.Harness, s *store.Store) { h.Outbox = noThreads{s} }},
		{"Retry must wait, and keep the attempt open only in doubt", func(h *storetest.Harness, s *store.Store) { h.Outbox = forgetsDoubt{s} }},
		{"Drop must never be delivered and never be lost", func(h *storetest.Harness, s *store.Store) { h.Outbox = undead{s} }},
	} {
		t.Run(broken.check, func(t *testing.T) {
			check := named(t, broken.check)
			good, _ := harness(t)
			require.NoError(t, check.Run(t.Context(), good), "the control: a good store passes")
			h, s := harness(t)
			broken.wrap(&h, s)
			require.Error(t, check.Run(t.Context(), h))
		})
	}
}

func named(t *testing.T, name string) storetest.Check {
	t.Helper()
	for _, check := range storetest.Checks() {
		if check.Name == name {
			return check
		}
	}
	t.Fatalf("there is no check %q", name)
	return storetest.Check{}
}
