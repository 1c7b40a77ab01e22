// Package storetest holds every implementation of the journal, the board, the
// inbox and the outbox to the sentences on those ports: each must and each never
// is one check. A check is a function that returns an error, so that a test can
// also show that it notices a store that breaks the sentence. The package must
// not know of the engine, of SQL or of any particular store.
package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"blastdoor"
)

// Journal is the engine's port, by shape.
type Journal interface {
	Begin(ctx context.Context, sourceID string, c blastdoor.Commit) (string, bool, error)
	Commit(ctx context.Context, c blastdoor.Commit) error
	Load(ctx context.Context, runID string) ([]blastdoor.Event, error)
	Unfinished(ctx context.Context) ([]string, error)
	Document(ctx context.Context, digest string) ([]byte, error)
}

// Board is the engine's port, by shape.
type Board interface {
	InFlight(ctx context.Context) ([]blastdoor.Flight, error)
	Posted(ctx context.Context, deliveryID string) (blastdoor.MessageRef, error)
	Settle(ctx context.Context, inboxID string, deliveries []blastdoor.Delivery) error
}

// Inbox is where envelopes are kept until they are answered.
type Inbox interface {
	Accept(ctx context.Context, item blastdoor.InboxItem) (bool, error)
	PendingInbox(ctx context.Context) ([]blastdoor.InboxItem, error)
}

// Outbox is where messages are kept until they are posted.
type Outbox interface {
	PendingDeliveries(ctx context.Context, now time.Time) ([]blastdoor.OutboxRow, error)
	BeginAttempt(ctx context.Context, id string, at time.Time) error
	Delivered(ctx context.Context, id, ts string, sent int) error
	Retry(ctx context.Context, id string, notBefore time.Time, reason string, keepDoubt bool) error
	Drop(ctx context.Context, id, reason string) error
}

// Messages finds deliveries again.
type Messages interface {
	Delivery(ctx context.Context, id string) (blastdoor.OutboxRow, error)
	FindMessage(ctx context.Context, ref blastdoor.MessageRef) (blastdoor.OutboxRow, error)
	NextDeliveryAt(ctx context.Context) (time.Time, bool, error)
}

// Harness is one empty store.
type Harness struct {
	Journal Journal
	Board   Board
	// Post gives a delivery an address, as the Slack edge would.
	Post func(ctx context.Context, deliveryID string) error

	// A store without inbox and outbox leaves these nil; their checks are skipped.
	Inbox    Inbox
	Outbox   Outbox
	Messages Messages

	// Reopen ends the store without warning and opens what is left of it. A store
	// that nothing outlives leaves it nil; what must be durable is then skipped.
	Reopen func(ctx context.Context) (Harness, error)
}

// Check is one sentence of a port.
type Check struct {
	Name string
	// Mailbox: the check needs the inbox and the outbox. Durable: it needs Reopen.
	Mailbox, Durable bool
	Run              func(ctx context.Context, h Harness) error
}

// Checks lists every sentence.
func Checks() []Check {
	var all []Check
	for _, group := range [][]Check{journalChecks(), approvalChecks(), boardChecks(), inboxChecks(), outboxChecks()} {
		all = append(all, group...)
	}
	return all
}

// Run holds a store to every check, each on an empty store of its own.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	t.Helper()
	for _, check := range Checks() {
		t.Run(check.Name, func(t *testing.T) {
			h := open(t)
			switch {
			case check.Mailbox && (h.Inbox == nil || h.Outbox == nil || h.Messages == nil):
				t.Skip("this store has no inbox and outbox")
			case check.Durable && h.Reopen == nil:
				t.Skip("nothing outlives this store")
			}
			if err := check.Run(t.Context(), h); err != nil {
				t.Error(err)
			}
		})
	}
}

// start is the time of the first event of every run here.
func start() time.Time { return time.Date(2026, 3, 2, 3, 4, 5, 678, time.UTC) }

// Begin builds the commit that opens a run: one event, nothing else.
func Begin(runID, sourceID string) blastdoor.Commit {
	at := start()
	return blastdoor.Commit{
		RunID: runID,
		Events: []blastdoor.Event{{RunID: runID, Seq: 1, At: at, Body: &blastdoor.RunRequested{SourceID: sourceID,
			Runbook: "drain-host-a", Requester: blastdoor.Principal{UserID: "UALICE", TeamID: "T1", Verified: true}, Channel: "C1"}}},
		Projection: blastdoor.Projection{Run: blastdoor.RunSummary{ID: runID, Runbook: "drain-host-a", Requester: "UALICE",
			Channel: "C1", Status: blastdoor.RunActive, UpdatedAt: at, Len: 1}},
	}
}

// Follow builds the commit after last: the given bodies as events of step
// "drain", and the projection carried along.
func Follow(last blastdoor.Commit, bodies ...blastdoor.Body) blastdoor.Commit {
	c := blastdoor.Commit{RunID: last.RunID, At: last.At + len(last.Events), Projection: last.Projection}
	for i, body := range bodies {
		seq := c.At + i + 1
		at := start().Add(time.Duration(seq) * time.Second)
		c.Events = append(c.Events, blastdoor.Event{RunID: c.RunID, Seq: seq, At: at, Step: "drain", Body: body})
		c.Projection.Run.UpdatedAt = at
	}
	c.Projection.Run.Len = c.At + len(c.Events)
	return c
}

// Card is the delivery of a run's card that shows at least want events.
func Card(runID string, want int) blastdoor.Delivery {
	return blastdoor.Delivery{ID: "card-" + runID, RunID: runID, Kind: blastdoor.RunCard, Channel: "C1", Want: want, CreatedAt: start()}
}

// observed is an event that changes nothing else.
func observed() blastdoor.Body { return &blastdoor.Observed{Summary: "all well"} }

// Fly makes c the commit of an intent on the targets.
func Fly(c blastdoor.Commit, targets ...string) blastdoor.Commit {
	c.Projection.Flight = &blastdoor.Flight{RunID: c.RunID, StepID: "drain", Targets: targets, Affected: []string{"api", "web"}}
	return c
}

// begun opens a run in the store.
func begun(ctx context.Context, h Harness, runID string) (blastdoor.Commit, error) {
	c := Begin(runID, "src-"+runID)
	_, isNew, err := h.Journal.Begin(ctx, "src-"+runID, c)
	if err == nil && !isNew {
		err = fmt.Errorf("run %s is not new", runID)
	}
	return c, err
}

// accepted stores an envelope, where the store has an inbox.
func accepted(ctx context.Context, h Harness, id string) error {
	if h.Inbox == nil {
		return nil
	}
	_, err := h.Inbox.Accept(ctx, blastdoor.InboxItem{ID: id, Kind: "interactive", Payload: []byte(`{"a":1}`), ReceivedAt: start()})
	return err
}

// wantCode says whether err carries code.
func wantCode(what string, err error, code blastdoor.Code) error {
	if !code.Is(err) {
		return fmt.Errorf("%s: got %v, want %s", what, err, code)
	}
	return nil
}

// wantLength says whether a run has n events.
func wantLength(ctx context.Context, h Harness, runID string, n int) error {
	events, err := h.Journal.Load(ctx, runID)
	if n == 0 {
		return wantCode("loading a run that must not exist", err, blastdoor.ErrNotFound)
	}
	if err != nil {
		return err
	}
	if len(events) != n {
		return fmt.Errorf("run %s has %d events, want %d", runID, len(events), n)
	}
	return nil
}

// first returns the first error.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
