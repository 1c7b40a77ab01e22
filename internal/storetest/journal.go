package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"blastdoor"
)

func journalChecks() []Check {
	return []Check{
		{Name: "Begin must return the same run for the same source", Run: checkSameSource},
		{Name: "Begin of a known source must write nothing but the settling", Run: checkKnownSourceWritesNothing},
		{Name: "Begin many times at once must open one run", Run: checkBeginAtOnce},
		{Name: "Begin must refuse an envelope that is settled", Run: checkBeginSettled},
		{Name: "Commit must be all or nothing", Mailbox: true, Run: checkAllOrNothing},
		{Name: "Commit must be durable on return", Durable: true, Run: checkDurable},
		{Name: "Commit must fail with ErrConflict at a stale length", Run: checkStaleLength},
		{Name: "Commit must fail with ErrConflict on a run that has not begun", Run: checkNotBegun},
		{Name: "Commit at one length many times at once must succeed once", Run: checkCommitAtOnce},
		{Name: "Commit must fail with ErrConflict when its envelope is settled", Run: checkCommitSettled},
		{Name: "Commit must fail with ErrTargetLocked when another run holds a target", Run: checkTargetLocked},
		{Name: "Commit must free the targets when the flight is over", Run: checkTargetFreed},
		{Name: "Load must return the whole history as it was committed", Run: checkLoad},
		{Name: "Load must fail with ErrNotFound when there is no run", Run: checkLoadNothing},
		{Name: "Unfinished must return all runs that have not ended and no other", Run: checkUnfinished},
		{Name: "Document must return the body under its digest", Run: checkDocument},
	}
}

func checkSameSource(ctx context.Context, h Harness) error {
	_, err := begun(ctx, h, "r1")
	if err != nil {
		return err
	}
	id, isNew, err := h.Journal.Begin(ctx, "src-r1", Begin("r2", "src-r1"))
	if err != nil {
		return err
	}
	if id != "r1" || isNew {
		return fmt.Errorf("a second Begin returned run %q, new: %t", id, isNew)
	}
	return wantLength(ctx, h, "r2", 0)
}

func checkKnownSourceWritesNothing(ctx context.Context, h Harness) error {
	if _, err := begun(ctx, h, "r1"); err != nil {
		return err
	}
	again := Begin("r2", "src-r1")
	again.Settles = "again"
	again.Deliveries = []blastdoor.Delivery{Card("r2", 1)}
	if err := accepted(ctx, h, "again"); err != nil {
		return err
	}
	if _, _, err := h.Journal.Begin(ctx, "src-r1", again); err != nil {
		return err
	}
	_, err := h.Board.Posted(ctx, "card-r2")
	err = first(wantCode("the message of a repeated Begin", err, blastdoor.ErrNotFound),
		wantLength(ctx, h, "r1", 1),
		wantCode("settling again", h.Board.Settle(ctx, "again", nil), blastdoor.ErrConflict))
	if err != nil {
		return err
	}
	if id, _, err := h.Journal.Begin(ctx, "src-r1", again); err != nil || id != "r1" {
		return fmt.Errorf("a third Begin, its envelope settled by the second, returned run %q: %w", id, err)
	}
	return nil
}

func checkBeginAtOnce(ctx context.Context, h Harness) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	ids, opened := map[string]bool{}, 0
	var failed error
	for i := range 16 {
		wg.Go(func() {
			id, isNew, err := h.Journal.Begin(ctx, "src", Begin(fmt.Sprintf("r%d", i), "src"))
			mu.Lock()
			defer mu.Unlock()
			ids[id] = true
			if isNew {
				opened++
			}
			failed = errors.Join(failed, err)
		})
	}
	wg.Wait()
	if failed == nil && (len(ids) != 1 || opened != 1) {
		return fmt.Errorf("16 at once opened %d runs and returned %d ids", opened, len(ids))
	}
	return failed
}

func checkBeginSettled(ctx context.Context, h Harness) error {
	c := Begin("r1", "src-r1")
	c.Settles = "click"
	if err := first(accepted(ctx, h, "click"), h.Board.Settle(ctx, "click", nil)); err != nil {
		return err
	}
	_, _, err := h.Journal.Begin(ctx, "src-r1", c)
	return first(wantCode("beginning with a settled envelope", err, blastdoor.ErrConflict), wantLength(ctx, h, "r1", 0))
}

// checkAllOrNothing makes the last thing that a commit writes fail, and looks for
// traces of everything before it.
func checkAllOrNothing(ctx context.Context, h Harness) error {
	one, err1 := begun(ctx, h, "r1")
	other, err2 := begun(ctx, h, "r2")
	if err := first(err1, err2, accepted(ctx, h, "click"), h.Journal.Commit(ctx, Fly(Follow(other, observed()), "db"))); err != nil {
		return err
	}
	c := Fly(Follow(one, observed()), "web", "db")
	body := []byte(`{"policy":1}`)
	c.Settles = "click"
	c.Documents = []blastdoor.Document{{Digest: blastdoor.DigestBytes(body), Body: body}}
	c.Deliveries = []blastdoor.Delivery{Card("r1", 2)}
	if err := wantCode("a commit to a locked target", h.Journal.Commit(ctx, c), blastdoor.ErrTargetLocked); err != nil {
		return err
	}
	_, docErr := h.Journal.Document(ctx, blastdoor.DigestBytes(body))
	_, postErr := h.Board.Posted(ctx, "card-r1")
	pending, inboxErr := h.Inbox.PendingInbox(ctx)
	flights, flightErr := h.Board.InFlight(ctx)
	err := first(wantLength(ctx, h, "r1", 1), wantCode("its document", docErr, blastdoor.ErrNotFound),
		wantCode("its delivery", postErr, blastdoor.ErrNotFound), inboxErr, flightErr)
	if err != nil {
		return err
	}
	if len(pending) != 1 || len(flights) != 1 || flights[0].RunID != "r2" {
		return fmt.Errorf("after a failed commit %d envelopes are pending and the flights are %v", len(pending), flights)
	}
	// The target it named before the locked one is free.
	return h.Journal.Commit(ctx, Fly(Follow(one, observed()), "web"))
}

func checkDurable(ctx context.Context, h Harness) error {
	c, err := begun(ctx, h, "r1")
	if err != nil {
		return err
	}
	c = Fly(Follow(c, observed()), "db")
	c.Deliveries = []blastdoor.Delivery{Card("r1", 2)}
	if err := h.Journal.Commit(ctx, c); err != nil {
		return err
	}
	h, err = h.Reopen(ctx)
	if err != nil {
		return err
	}
	flights, err := h.Board.InFlight(ctx)
	if err != nil {
		return err
	}
	if len(flights) != 1 || !slices.Equal(flights[0].Targets, []string{"db"}) {
		return fmt.Errorf("after reopening the flights are %v", flights)
	}
	_, postErr := h.Board.Posted(ctx, "card-r1")
	return first(wantLength(ctx, h, "r1", 2), wantCode("the message", postErr, blastdoor.ErrNotPosted))
}

func checkStaleLength(ctx context.Context, h Harness) error {
	c, err := begun(ctx, h, "r1")
	if err != nil {
		return err
	}
	if err := h.Journal.Commit(ctx, Follow(c, observed())); err != nil {
		return err
	}
	stale := Follow(c, observed(), observed())
	stale.Deliveries = []blastdoor.Delivery{Card("r1", 3)}
	ahead := Follow(Follow(Follow(c, observed()), observed()), observed())
	staleErr, aheadErr := h.Journal.Commit(ctx, stale), h.Journal.Commit(ctx, ahead)
	_, postErr := h.Board.Posted(ctx, "card-r1")
	return first(wantCode("a commit at a stale length", staleErr, blastdoor.ErrConflict),
		wantCode("a commit ahead of the history", aheadErr, blastdoor.ErrConflict),
		wantLength(ctx, h, "r1", 2), wantCode("its delivery", postErr, blastdoor.ErrNotFound))
}

func checkNotBegun(ctx context.Context, h Harness) error {
	return first(wantCode("a commit to nothing at 0", h.Journal.Commit(ctx, Begin("r1", "src")), blastdoor.ErrConflict),
		wantCode("a commit to nothing at 1", h.Journal.Commit(ctx, Follow(Begin("r1", "src"), observed())), blastdoor.ErrConflict),
		wantLength(ctx, h, "r1", 0))
}

func checkCommitAtOnce(ctx context.Context, h Harness) error {
	c, err := begun(ctx, h, "r1")
	if err != nil {
		return err
	}
	errs := make([]error, 32)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = h.Journal.Commit(ctx, Follow(c, observed())) })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if err := wantCode("a commit that lost", err, blastdoor.ErrConflict); err != nil {
			return err
		}
	}
	if won != 1 {
		return fmt.Errorf("%d of 32 commits at one length succeeded", won)
	}
	return wantLength(ctx, h, "r1", 2)
}

func checkCommitSettled(ctx context.Context, h Harness) error {
	c, err := begun(ctx, h, "r1")
	if err != nil {
		return err
	}
	c = Follow(c, observed())
	c.Settles = "click"
	if err := first(accepted(ctx, h, "click"), h.Journal.Commit(ctx, c)); err != nil {
		return err
	}
	c = Follow(c, observed())
	c.Settles = "click"
	return first(wantCode("a commit with a settled envelope", h.Journal.Commit(ctx, c), blastdoor.ErrConflict),
		wantLength(ctx, h, "r1", 2))
}

func checkTargetLocked(ctx context.Context, h Harness) error {
	one, err1 := begun(ctx, h, "r1")
	two, err2 := begun(ctx, h, "r2")
	one = Fly(Follow(one, observed()), "cache", "db")
	if err := first(err1, err2, h.Journal.Commit(ctx, one)); err != nil {
		return err
	}
	if err := h.Journal.Commit(ctx, Follow(one, observed())); err != nil {
		return fmt.Errorf("a run is locked out by its own flight: %w", err)
	}
	locked := h.Journal.Commit(ctx, Fly(Follow(two, observed()), "db", "web"))
	return first(wantCode("an intent on a locked target", locked, blastdoor.ErrTargetLocked),
		wantLength(ctx, h, "r2", 1), h.Journal.Commit(ctx, Fly(Follow(two, observed()), "web")))
}

func checkTargetFreed(ctx context.Context, h Harness) error {
	one, err1 := begun(ctx, h, "r1")
	two, err2 := begun(ctx, h, "r2")
	one = Fly(Follow(one, observed()), "db")
	if err := first(err1, err2, h.Journal.Commit(ctx, one)); err != nil {
		return err
	}
	landed := Follow(one, observed())
	landed.Projection.Flight = nil
	return first(h.Journal.Commit(ctx, landed), h.Journal.Commit(ctx, Fly(Follow(two, observed()), "db")))
}

func checkLoad(ctx context.Context, h Harness) error {
	c, err := begun(ctx, h, "r1")
	if err != nil {
		return err
	}
	want := slices.Clone(c.Events)
	c = Follow(c, &blastdoor.StepProposed{Proposal: blastdoor.Proposal{StepID: "drain", Action: "drain_host",
		Params: blastdoor.Params{"host": "host-a", "grace": 1.5}, Confidence: 1, Planner: "runbook"}}, observed())
	want = append(want, c.Events...)
	if err := h.Journal.Commit(ctx, c); err != nil {
		return err
	}
	got, err := h.Journal.Load(ctx, "r1")
	if err != nil {
		return err
	}
	if len(got) != len(want) {
		return fmt.Errorf("%d events were loaded, want %d", len(got), len(want))
	}
	for i := range want {
		if err := sameEvent(got[i], want[i]); err != nil {
			return err
		}
	}
	return nil
}

func sameEvent(got, want blastdoor.Event) error {
	gotBytes, err1 := got.Canonical()
	wantBytes, err2 := want.Canonical()
	if err := first(err1, err2); err != nil {
		return err
	}
	if string(gotBytes) != string(wantBytes) {
		return fmt.Errorf("an event was loaded as %s, want %s", gotBytes, wantBytes)
	}
	return nil
}

func checkLoadNothing(ctx context.Context, h Harness) error {
	return wantLength(ctx, h, "ghost", 0)
}

func checkUnfinished(ctx context.Context, h Harness) error {
	_, err1 := begun(ctx, h, "r1")
	two, err2 := begun(ctx, h, "r2")
	waiting, err3 := begun(ctx, h, "r3")
	two = Follow(two, &blastdoor.RunEnded{Outcome: blastdoor.RunCompleted})
	two.Projection.Ended, two.Projection.Run.Status = true, string(blastdoor.RunCompleted)
	waiting = Follow(waiting, observed())
	waiting.Projection.Run.Status, waiting.Projection.WakeAt = blastdoor.RunWaiting, start().Add(time.Hour)
	if err := first(err1, err2, err3, h.Journal.Commit(ctx, two), h.Journal.Commit(ctx, waiting)); err != nil {
		return err
	}
	ids, err := h.Journal.Unfinished(ctx)
	if err != nil {
		return err
	}
	if slices.Sort(ids); !slices.Equal(ids, []string{"r1", "r3"}) {
		return fmt.Errorf("unfinished are %v, want r1 and r3", ids)
	}
	return nil
}

func checkDocument(ctx context.Context, h Harness) error {
	body := []byte(`{"policy":1}`)
	digest := blastdoor.DigestBytes(body)
	c := Begin("r1", "src-r1")
	c.Documents = []blastdoor.Document{{Digest: digest, Body: body}}
	if _, _, err := h.Journal.Begin(ctx, "src-r1", c); err != nil {
		return err
	}
	next := Follow(c, observed())
	next.Documents = c.Documents // the same once more
	if err := h.Journal.Commit(ctx, next); err != nil {
		return err
	}
	got, err := h.Journal.Document(ctx, digest)
	if err != nil {
		return err
	}
	if string(got) != string(body) {
		return fmt.Errorf("the document is %s, want %s", got, body)
	}
	_, err = h.Journal.Document(ctx, blastdoor.DigestBytes([]byte("other")))
	return wantCode("a document that was never stored", err, blastdoor.ErrNotFound)
}
