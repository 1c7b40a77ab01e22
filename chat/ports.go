package chat

import (
	"context"
	"time"

	"blastdoor"
)

// Operator runs runbooks. On success Start, Click and Cancel have settled the
// inbox row of the request in the same transaction as their effect; on error
// nothing was settled, and chat settles the row with a private answer.
//
// ErrNotPosted and ErrUnavailable mean "ask me again shortly".
type Operator interface {
	Start(ctx context.Context, req blastdoor.StartRequest) (runID string, err error)
	Click(ctx context.Context, click blastdoor.Click) error
	Cancel(ctx context.Context, req blastdoor.CancelRequest) error
	// Preview rehearses every step and writes nothing; it settles nothing.
	Preview(ctx context.Context, req blastdoor.StartRequest) (blastdoor.Preview, error)
}

// Runs reads runs as folded from their events.
type Runs interface {
	// Run returns one run; ErrNotFound when there is none.
	Run(ctx context.Context, id string) (blastdoor.Run, error)
	// List returns the newest runs of a channel, at most limit.
	List(ctx context.Context, channel string, limit int) ([]blastdoor.RunSummary, error)
}

// Shelf lists the runbooks that exist.
type Shelf interface {
	Runbooks(ctx context.Context) ([]blastdoor.Runbook, error)
}

// Inbox keeps requests until they are answered.
type Inbox interface {
	// Accept stores a request, durable on return. It reports false when the same
	// request is known already, answered or not.
	Accept(ctx context.Context, item blastdoor.InboxItem) (bool, error)
	// PendingInbox returns what is not answered yet, oldest first.
	PendingInbox(ctx context.Context) ([]blastdoor.InboxItem, error)
	// Settle marks a request as answered and queues the answers with it;
	// ErrConflict when it is answered already.
	Settle(ctx context.Context, id string, deliveries []blastdoor.Delivery) error
}

// Outbox is what must still reach Slack, with what is known of each posting.
type Outbox interface {
	// PendingDeliveries returns what is due until the given instant: not posted, or
	// posted and out of date. Urgent first, then oldest first; a reply only once
	// the message it hangs under has an address.
	PendingDeliveries(ctx context.Context, until time.Time) ([]blastdoor.OutboxRow, error)
	// BeginAttempt must be durable on return: it is what a restart finds when the
	// process dies between posting and recording.
	BeginAttempt(ctx context.Context, id string, at time.Time) error
	// Delivered records the address and how much history the message shows, and
	// closes the attempt.
	Delivered(ctx context.Context, id, ts string, sent int) error
	// Retry puts the delivery off. With keepDoubt the open attempt stays open: the
	// message may be in Slack without our knowing.
	Retry(ctx context.Context, id string, notBefore time.Time, reason string, keepDoubt bool) error
	// Drop gives up for good; the row is kept with its reason.
	Drop(ctx context.Context, id, reason string) error
}

// Posts finds the address of a posted message.
type Posts interface {
	// Posted returns the address; ErrNotPosted while there is none yet.
	Posted(ctx context.Context, deliveryID string) (blastdoor.MessageRef, error)
}
