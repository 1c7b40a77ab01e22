package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"blastdoor"
)

// Accept stores an envelope and reports whether it is new. On return it is
// durable, so that it may be acknowledged. An id that was stored before is not
// new, even when it has been settled since.
func (s *Store) Accept(ctx context.Context, item blastdoor.InboxItem) (bool, error) {
	if item.ID == "" || item.ReceivedAt.IsZero() {
		return false, fmt.Errorf("accepting an envelope: it has no id or no time")
	}
	var isNew bool
	err := s.write(ctx, func(ses *session) (err error) {
		isNew, err = ses.accept(&item)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("accepting envelope %s: %w", item.ID, err)
	}
	return isNew, nil
}

func (s *session) accept(item *blastdoor.InboxItem) (bool, error) {
	changed, err := s.exec(`INSERT INTO inbox (id, kind, received_at) VALUES (?, ?, ?) ON CONFLICT (id) DO NOTHING`,
		item.ID, item.Kind, item.ReceivedAt.UnixNano())
	if err != nil || changed == 0 || len(item.Payload) == 0 {
		return changed == 1, err
	}
	_, err = s.exec(`INSERT INTO inbox_payloads (n, payload) SELECT n, ? FROM inbox WHERE id = ?`, []byte(item.Payload), item.ID)
	return true, err
}

const selectInbox = `SELECT i.id, i.kind, p.payload, i.received_at FROM inbox i
	LEFT JOIN inbox_payloads p ON p.n = i.n WHERE i.settled_at IS NULL ORDER BY i.n`

// PendingInbox returns the envelopes that are not settled, the oldest first.
func (s *Store) PendingInbox(ctx context.Context) ([]blastdoor.InboxItem, error) {
	items, err := list(ctx, s.read, selectInbox, nil,
		func(rows *sql.Rows) (blastdoor.InboxItem, error) {
			var item blastdoor.InboxItem
			var payload []byte
			var received sql.NullInt64
			err := rows.Scan(&item.ID, &item.Kind, &payload, &received)
			item.Payload, item.ReceivedAt = payload, instant(received)
			return item, err
		})
	if err != nil {
		return nil, fmt.Errorf("reading the inbox: %w", err)
	}
	return items, nil
}

// Settle marks an envelope as answered and adds the deliveries that answer it.
// ErrConflict: it is settled already. ErrNotFound: there is no such envelope. In
// both cases nothing is written.
func (s *Store) Settle(ctx context.Context, inboxID string, deliveries []blastdoor.Delivery) error {
	if inboxID == "" {
		return fmt.Errorf("settling an envelope: it has no id")
	}
	return s.write(ctx, func(ses *session) error {
		if err := ses.settle(inboxID); err != nil {
			return err
		}
		return ses.putDeliveries(deliveries)
	})
}

// PruneInbox forgets envelopes that were settled before the given instant and
// returns how many. Slack stops sending an envelope again long before a day has
// passed; until it is pruned a repeated one is known.
func (s *Store) PruneInbox(ctx context.Context, before time.Time) (int, error) {
	var pruned int64
	err := s.write(ctx, func(ses *session) (err error) {
		pruned, err = ses.exec(`DELETE FROM inbox WHERE settled_at < ?`, before.UnixNano())
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("pruning the inbox: %w", err)
	}
	return int(pruned), nil
}
