package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"blastdoor"
)

// isDue says that a message is to be posted or refreshed, and that one in a
// thread does not wait for the message it hangs under.
const isDue = `pending = 1 AND (thread = '' OR EXISTS
	(SELECT 1 FROM deliveries p WHERE p.id = deliveries.thread AND p.ts IS NOT NULL))`

// privateTS stands for the address of a message that only one person saw and
// that Slack gave no address for.
const privateTS = "private"

// threadDropped begins the reason of what was given up with its thread.
const threadDropped = "its thread was not posted: "

func (s *session) putDeliveries(deliveries []blastdoor.Delivery) error {
	for i := range deliveries {
		if err := s.putDelivery(&deliveries[i]); err != nil {
			return fmt.Errorf("storing delivery %s: %w", deliveries[i].ID, err)
		}
	}
	return nil
}

// deliveryState is what a refresh depends on.
type deliveryState struct {
	want            int
	urgent, pending bool
}

// putDelivery inserts a delivery, or asks for a refresh of the one that has its
// id: what is wanted only grows, and what is known of its posting stays.
func (s *session) putDelivery(d *blastdoor.Delivery) error {
	var old deliveryState
	found, err := s.find(`SELECT want, urgent, pending FROM deliveries WHERE id = ?`, []any{d.ID}, &old.want, &old.urgent, &old.pending)
	if err != nil {
		return err
	}
	if found {
		return s.refreshDelivery(d, old)
	}
	notice, err := encodeNotice(d.Notice)
	if err != nil {
		return err
	}
	dead, err := s.deadThread(d.Thread)
	if err != nil {
		return err
	}
	_, err = s.exec(`INSERT INTO deliveries (id, run_id, kind, step_id, plan_no, channel, user_id, thread,
			notice, response_url, created_at, urgent, want, dead, pending) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		d.ID, d.RunID, string(d.Kind), d.StepID, d.PlanNo, d.Channel, d.User, d.Thread,
		notice, d.ResponseURL, nanos(d.CreatedAt), d.Urgent, d.Want, dead, dead == nil)
	if err != nil {
		return err
	}
	return s.putBody(d)
}

// refreshDelivery writes no more than what changes: most refreshes only raise
// what is wanted of a row that is pending already. Urgency lasts until the
// message shows what was wanted. A newer notice, address or body replaces the older.
func (s *session) refreshDelivery(d *blastdoor.Delivery, old deliveryState) error {
	want, urgent := max(old.want, d.Want), d.Urgent || old.urgent && old.pending
	var err error
	if !old.pending || urgent != old.urgent {
		_, err = s.exec(`UPDATE deliveries SET want = ?, urgent = ?, pending = (dead IS NULL AND (ts IS NULL OR sent < ?)) WHERE id = ?`,
			want, urgent, want, d.ID)
	} else if want > old.want {
		_, err = s.exec(`UPDATE deliveries SET want = ? WHERE id = ?`, want, d.ID)
	}
	if err != nil {
		return err
	}
	if d.Notice != nil || d.ResponseURL != "" {
		notice, err := encodeNotice(d.Notice)
		if err != nil {
			return err
		}
		_, err = s.exec(`UPDATE deliveries SET notice = coalesce(?, notice), response_url = coalesce(nullif(?, ''), response_url) WHERE id = ?`,
			notice, d.ResponseURL, d.ID)
		if err != nil {
			return err
		}
	}
	return s.putBody(d)
}

// deadThread says why a message can never be posted whose thread was given up
// before it began; nil when it can.
func (s *session) deadThread(thread string) (any, error) {
	if thread == "" {
		return nil, nil
	}
	var reason string
	found, err := s.find(`SELECT dead FROM deliveries WHERE id = ? AND dead IS NOT NULL AND ts IS NULL`, []any{thread}, &reason)
	if err != nil || !found {
		return nil, err
	}
	return threadDropped + reason, nil
}

func encodeNotice(n *blastdoor.Notice) (any, error) {
	if n == nil {
		return nil, nil
	}
	data, err := json.Marshal(n)
	return string(data), err
}

func (s *session) putBody(d *blastdoor.Delivery) error {
	if len(d.Body) == 0 {
		return nil
	}
	_, err := s.exec(`INSERT INTO delivery_bodies (id, body) VALUES (?, ?)
		ON CONFLICT (id) DO UPDATE SET body = excluded.body WHERE body <> excluded.body`, d.ID, []byte(d.Body))
	return err
}

const selectDeliveries = `SELECT id, run_id, kind, step_id, plan_no, channel, user_id, thread, want, urgent, notice,
	(SELECT body FROM delivery_bodies b WHERE b.id = deliveries.id), response_url, created_at,
	ts, sent, attempt_at, attempts, not_before FROM deliveries`

const (
	selectPending = selectDeliveries + ` WHERE ` + isDue + ` AND coalesce(not_before, ?) <= ? ORDER BY urgent DESC, n`
	selectNext    = `SELECT count(*), coalesce(max(not_before IS NULL), 0), min(not_before) FROM deliveries WHERE ` + isDue
)

func scanDelivery(rows *sql.Rows) (blastdoor.OutboxRow, error) {
	var d blastdoor.OutboxRow
	var notice, ts sql.NullString
	var body []byte
	var created, attempt, notBefore sql.NullInt64
	err := rows.Scan(&d.ID, &d.RunID, &d.Kind, &d.StepID, &d.PlanNo, &d.Channel, &d.User, &d.Thread, &d.Want, &d.Urgent,
		&notice, &body, &d.ResponseURL, &created, &ts, &d.Sent, &attempt, &d.Attempts, &notBefore)
	if err != nil {
		return d, err
	}
	d.Body, d.TS = body, ts.String
	d.CreatedAt, d.AttemptAt, d.NotBefore = instant(created), instant(attempt), instant(notBefore)
	if notice.Valid {
		d.Notice = new(blastdoor.Notice)
		err = json.Unmarshal([]byte(notice.String), d.Notice)
	}
	return d, err
}

// PendingDeliveries returns the messages to be posted or refreshed at now, the
// urgent ones first, then the oldest. A message in a thread comes only once the
// message it hangs under has an address.
func (s *Store) PendingDeliveries(ctx context.Context, now time.Time) ([]blastdoor.OutboxRow, error) {
	rows, err := list(ctx, s.read, selectPending, []any{now.UnixNano(), now.UnixNano()}, scanDelivery)
	if err != nil {
		return nil, fmt.Errorf("reading the outbox: %w", err)
	}
	return rows, nil
}

// NextDeliveryAt returns when the next message may be tried, and whether there is
// one at all. A zero time is at once.
func (s *Store) NextDeliveryAt(ctx context.Context) (time.Time, bool, error) {
	var waiting int
	var now bool
	var next sql.NullInt64
	err := scanRow(ctx, s.read, selectNext, nil, &waiting, &now, &next)
	if err != nil {
		return time.Time{}, false, fmt.Errorf("reading the outbox: %w", err)
	}
	if now {
		return time.Time{}, true, nil
	}
	return instant(next), waiting > 0, nil
}

// Delivery returns one message with what is known of its posting; ErrNotFound
// when there is none.
func (s *Store) Delivery(ctx context.Context, id string) (blastdoor.OutboxRow, error) {
	return s.oneDelivery(ctx, "there is no delivery "+id, ` WHERE id = ?`, id)
}

// FindMessage returns the delivery that was posted at an address; ErrNotFound
// when we posted none there. Private messages have no address to be found by.
func (s *Store) FindMessage(ctx context.Context, ref blastdoor.MessageRef) (blastdoor.OutboxRow, error) {
	return s.oneDelivery(ctx, "this message was not posted by us",
		` WHERE channel = ? AND ts = ? AND ts IS NOT NULL AND user_id = ''`, ref.Channel, ref.TS)
}

func (s *Store) oneDelivery(ctx context.Context, missing, where string, args ...any) (blastdoor.OutboxRow, error) {
	rows, err := list(ctx, s.read, selectDeliveries+where, args, scanDelivery)
	if err != nil {
		return blastdoor.OutboxRow{}, fmt.Errorf("reading the outbox: %w", err)
	}
	if len(rows) == 0 {
		return blastdoor.OutboxRow{}, blastdoor.Errorf(blastdoor.ErrNotFound, "%s", missing)
	}
	return rows[0], nil
}

// Posted returns the address of a delivered message: ErrNotPosted while its
// posting is under way or due, ErrNotFound when there is no such delivery or it
// was given up.
func (s *Store) Posted(ctx context.Context, deliveryID string) (blastdoor.MessageRef, error) {
	var ref blastdoor.MessageRef
	var ts, dead sql.NullString
	err := scanRow(ctx, s.read, `SELECT channel, ts, dead FROM deliveries WHERE id = ?`, []any{deliveryID}, &ref.Channel, &ts, &dead)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return blastdoor.MessageRef{}, blastdoor.Errorf(blastdoor.ErrNotFound, "there is no delivery %s", deliveryID)
	case err != nil:
		return blastdoor.MessageRef{}, fmt.Errorf("reading delivery %s: %w", deliveryID, err)
	case ts.Valid:
		ref.TS = ts.String
		return ref, nil
	case dead.Valid:
		return blastdoor.MessageRef{}, blastdoor.Errorf(blastdoor.ErrNotFound, "delivery %s was given up: %s", deliveryID, dead.String)
	default:
		return blastdoor.MessageRef{}, blastdoor.Errorf(blastdoor.ErrNotPosted, "delivery %s is not posted yet", deliveryID)
	}
}

// BeginAttempt records that a post is about to be made. It is durable on return:
// a crash from here on leaves an open attempt, which says that the message may
// have been posted. ErrNotFound: there is no such delivery, or it was given up.
func (s *Store) BeginAttempt(ctx context.Context, id string, at time.Time) error {
	return s.change(ctx, "beginning an attempt of", id,
		`UPDATE deliveries SET attempt_at = ?, attempts = attempts + 1 WHERE id = ? AND dead IS NULL`, at.UnixNano(), id)
}

// Delivered records that the message shows the first sent events of its run, at
// address ts, and closes the attempt. For a private message ts may be empty. The
// response URL has served, and is forgotten.
func (s *Store) Delivered(ctx context.Context, id, ts string, sent int) error {
	return s.change(ctx, "recording the posting of", id,
		`UPDATE deliveries SET ts = CASE WHEN ? <> '' THEN ? WHEN user_id <> '' THEN '`+privateTS+`' ELSE '' END, sent = ?,
			pending = (dead IS NULL AND ? < want), attempt_at = NULL, attempts = 0, not_before = NULL, reason = '',
			response_url = '' WHERE id = ?`, ts, ts, sent, sent, id)
}

// Retry records that an attempt failed for the given reason and that the message
// is not to be tried before an instant. The attempt is closed, for the message
// was certainly not posted; with keepDoubt it stays open.
func (s *Store) Retry(ctx context.Context, id string, notBefore time.Time, reason string, keepDoubt bool) error {
	return s.change(ctx, "postponing", id,
		`UPDATE deliveries SET not_before = ?, reason = ?, attempt_at = CASE WHEN ? THEN attempt_at END WHERE id = ?`,
		nanos(notBefore), reason, keepDoubt, id)
}

// Drop gives a message up, and with it the messages that would hang under it. The
// rows stay, with the reason; their response URLs are forgotten.
func (s *Store) Drop(ctx context.Context, id, reason string) error {
	if reason == "" {
		return fmt.Errorf("dropping delivery %s: it needs a reason", id)
	}
	return s.write(ctx, func(ses *session) error {
		err := ses.changeOne("dropping", id, `UPDATE deliveries SET dead = ?, pending = 0, response_url = '' WHERE id = ?`, reason, id)
		if err != nil {
			return err
		}
		_, err = ses.exec(`UPDATE deliveries SET dead = ?, pending = 0, response_url = ''
			WHERE thread = ? AND thread <> '' AND ts IS NULL AND dead IS NULL
			AND EXISTS (SELECT 1 FROM deliveries p WHERE p.id = ? AND p.ts IS NULL)`, threadDropped+reason, id, id)
		if err != nil {
			return fmt.Errorf("dropping the thread of delivery %s: %w", id, err)
		}
		return nil
	})
}

// change updates one delivery.
func (s *Store) change(ctx context.Context, doing, id, query string, args ...any) error {
	return s.write(ctx, func(ses *session) error { return ses.changeOne(doing, id, query, args...) })
}

func (s *session) changeOne(doing, id, query string, args ...any) error {
	changed, err := s.exec(query, args...)
	if isConstraint(err) {
		return &blastdoor.Error{Code: blastdoor.ErrConflict, Msg: doing + " delivery " + id + " is not possible", Err: err}
	}
	if err != nil {
		return fmt.Errorf("%s delivery %s: %w", doing, id, err)
	}
	if changed == 0 {
		return blastdoor.Errorf(blastdoor.ErrNotFound, "there is no delivery %s", id)
	}
	return nil
}
