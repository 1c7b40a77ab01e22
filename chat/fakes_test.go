package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"blastdoor"
)

// box is an inbox and an outbox in memory. It keeps the contract of the ports and
// fails the test when it is used against it.
type box struct {
	t *testing.T

	mu      sync.Mutex
	changed chan struct{}
	items   []blastdoor.InboxItem
	settled map[string]bool
	rows    map[string]*boxRow
	order   []string
	accept  error // what Accept answers, when set
	record  error // what Delivered answers once, when set
	log     []string
	poke    func()
}

type boxRow struct {
	blastdoor.OutboxRow
	dead    string
	reasons []string
}

func newBox(t *testing.T) *box {
	return &box{t: t, changed: make(chan struct{}), settled: map[string]bool{}, rows: map[string]*boxRow{}}
}

// change runs f and wakes whoever waits.
func (b *box) change(f func()) {
	b.mu.Lock()
	f()
	close(b.changed)
	b.changed = make(chan struct{})
	notify := b.poke
	b.mu.Unlock()
	if notify != nil {
		notify()
	}
}

// await waits until look, called with the lock held, says true.
func (b *box) await(what string, look func() bool) {
	b.t.Helper()
	timeout := time.After(10 * time.Second)
	for {
		b.mu.Lock()
		ok, changed := look(), b.changed
		b.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			b.t.Fatalf("waiting for %s; log: %v", what, b.log)
		}
	}
}

func (b *box) Accept(_ context.Context, item blastdoor.InboxItem) (fresh bool, err error) {
	b.change(func() {
		if err = b.accept; err != nil {
			return
		}
		if item.ID == "" || item.ReceivedAt.IsZero() || !json.Valid(item.Payload) {
			b.t.Errorf("accepting a broken item: %+v", item)
		}
		b.log = append(b.log, "accept "+item.ID)
		if slices.ContainsFunc(b.items, func(i blastdoor.InboxItem) bool { return i.ID == item.ID }) {
			return
		}
		b.items = append(b.items, item)
		fresh = true
	})
	return fresh, err
}

func (b *box) PendingInbox(context.Context) ([]blastdoor.InboxItem, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []blastdoor.InboxItem
	for _, item := range b.items {
		if !b.settled[item.ID] {
			out = append(out, item)
		}
	}
	return out, nil
}

func (b *box) Settle(_ context.Context, id string, ds []blastdoor.Delivery) (err error) {
	b.change(func() {
		if b.settled[id] {
			err = blastdoor.Errorf(blastdoor.ErrConflict, "settled already")
			return
		}
		if !slices.ContainsFunc(b.items, func(i blastdoor.InboxItem) bool { return i.ID == id }) {
			b.t.Errorf("settling %q, which was never accepted", id)
		}
		b.settled[id] = true
		b.log = append(b.log, "settle "+id)
		b.put(ds...)
	})
	return err
}

// put stores deliveries; the caller holds the lock.
func (b *box) put(ds ...blastdoor.Delivery) {
	for _, d := range ds {
		if row, ok := b.rows[d.ID]; ok {
			row.Want, row.Urgent = max(row.Want, d.Want), row.Urgent || d.Urgent
			continue
		}
		b.rows[d.ID] = &boxRow{OutboxRow: blastdoor.OutboxRow{Delivery: d}}
		b.order = append(b.order, d.ID)
	}
}

func (b *box) queue(ds ...blastdoor.Delivery) { b.change(func() { b.put(ds...) }) }

func (b *box) PendingDeliveries(_ context.Context, until time.Time) ([]blastdoor.OutboxRow, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []blastdoor.OutboxRow
	for _, id := range b.order {
		row := b.rows[id]
		if row.dead != "" || row.TS != "" && row.Sent >= row.Want || row.NotBefore.After(until) {
			continue
		}
		if parent := b.rows[row.Thread]; row.Thread != "" && (parent == nil || parent.TS == "") {
			continue
		}
		out = append(out, row.OutboxRow)
	}
	slices.SortStableFunc(out, func(x, y blastdoor.OutboxRow) int {
		if x.Urgent == y.Urgent {
			return 0
		} else if x.Urgent {
			return -1
		}
		return 1
	})
	return out, nil
}

func (b *box) BeginAttempt(_ context.Context, id string, at time.Time) (err error) {
	b.change(func() {
		row := b.rows[id]
		if at.IsZero() {
			b.t.Errorf("beginning an attempt of %s at no time", id)
		}
		row.AttemptAt = at
		row.Attempts++
		b.log = append(b.log, "begin "+id)
	})
	return err
}

func (b *box) Delivered(_ context.Context, id, ts string, sent int) (err error) {
	b.change(func() {
		if err = b.record; err != nil {
			b.record = nil
			return
		}
		row := b.rows[id]
		if row.User == "" && row.AttemptAt.IsZero() && row.TS != ts {
			b.t.Errorf("%s was posted at %s without an open attempt", id, ts)
		}
		row.TS, row.Sent, row.AttemptAt, row.Attempts, row.NotBefore = ts, sent, time.Time{}, 0, time.Time{}
		b.log = append(b.log, fmt.Sprintf("delivered %s %d", id, sent))
	})
	return err
}

func (b *box) Retry(_ context.Context, id string, notBefore time.Time, reason string, keepDoubt bool) error {
	b.change(func() {
		row := b.rows[id]
		row.NotBefore = notBefore
		row.reasons = append(row.reasons, reason)
		if !keepDoubt {
			row.AttemptAt = time.Time{}
		}
		b.log = append(b.log, fmt.Sprintf("retry %s doubt=%v %s", id, keepDoubt, reason))
	})
	return nil
}

func (b *box) Drop(_ context.Context, id, reason string) error {
	b.change(func() {
		if reason == "" {
			b.t.Errorf("dropping %s without a reason", id)
		}
		b.rows[id].dead = reason
		b.log = append(b.log, "drop "+id+" "+reason)
	})
	return nil
}

func (b *box) Posted(_ context.Context, id string) (blastdoor.MessageRef, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	row := b.rows[id]
	switch {
	case row == nil || row.dead != "":
		return blastdoor.MessageRef{}, blastdoor.Errorf(blastdoor.ErrNotFound, "no delivery %s", id)
	case row.TS == "":
		return blastdoor.MessageRef{}, blastdoor.Errorf(blastdoor.ErrNotPosted, "not posted")
	}
	return blastdoor.MessageRef{Channel: row.Channel, TS: row.TS}, nil
}

func (b *box) row(id string) boxRow {
	b.mu.Lock()
	defer b.mu.Unlock()
	if row := b.rows[id]; row != nil {
		return *row
	}
	return boxRow{}
}

func (b *box) isSettled(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.settled[id]
}

// desk is an operator whose answers a test chooses. It settles as the port asks.
type desk struct {
	box *box

	mu      sync.Mutex
	runs    map[string]blastdoor.Run
	starts  []blastdoor.StartRequest
	clicks  []blastdoor.Click
	cancels []blastdoor.CancelRequest
	onStart func(blastdoor.StartRequest) error
	onClick func(blastdoor.Click) error
	preview func(blastdoor.StartRequest) (blastdoor.Preview, error)
	books   []blastdoor.Runbook
}

func newDesk(b *box) *desk { return &desk{box: b, runs: map[string]blastdoor.Run{}} }

func (d *desk) Start(ctx context.Context, req blastdoor.StartRequest) (string, error) {
	d.mu.Lock()
	d.starts = append(d.starts, req)
	hook := d.onStart
	d.mu.Unlock()
	if hook != nil {
		if err := hook(req); err != nil {
			return "", err
		}
	}
	return "run-1", d.box.Settle(ctx, req.InboxID, nil)
}

func (d *desk) Click(ctx context.Context, c blastdoor.Click) error {
	d.mu.Lock()
	d.clicks = append(d.clicks, c)
	hook := d.onClick
	d.mu.Unlock()
	if hook != nil {
		if err := hook(c); err != nil {
			return err
		}
	}
	return d.box.Settle(ctx, c.InboxID, nil)
}

func (d *desk) Cancel(ctx context.Context, req blastdoor.CancelRequest) error {
	d.mu.Lock()
	d.cancels = append(d.cancels, req)
	d.mu.Unlock()
	return d.box.Settle(ctx, req.InboxID, nil)
}

func (d *desk) Preview(_ context.Context, req blastdoor.StartRequest) (blastdoor.Preview, error) {
	if d.preview == nil {
		return blastdoor.Preview{}, errors.New("no preview here")
	}
	return d.preview(req)
}

func (d *desk) Run(_ context.Context, id string) (blastdoor.Run, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	run, ok := d.runs[id]
	if !ok {
		return blastdoor.Run{}, blastdoor.Errorf(blastdoor.ErrNotFound, "there is no run %s", id)
	}
	return run, nil
}

func (d *desk) List(_ context.Context, channel string, limit int) ([]blastdoor.RunSummary, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []blastdoor.RunSummary
	for _, run := range d.runs {
		if run.Channel == channel && len(out) < limit {
			out = append(out, blastdoor.RunSummary{ID: run.ID, Runbook: run.Runbook, Requester: run.Requester.UserID,
				Channel: channel, Status: blastdoor.RunWaiting, UpdatedAt: run.UpdatedAt, Len: run.Len})
		}
	}
	return out, nil
}

func (d *desk) Runbooks(context.Context) ([]blastdoor.Runbook, error) { return d.books, nil }

func (d *desk) clicked() []blastdoor.Click {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.clicks)
}

func (d *desk) started() []blastdoor.StartRequest {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.starts)
}

func (d *desk) set(run blastdoor.Run) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.runs[run.ID] = run
}
