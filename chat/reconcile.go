package chat

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/slack-go/slack"

	"blastdoor"
)

// stampType marks our messages; the payload says which delivery each one is.
const stampType = "blastdoor_delivery"

const (
	// clockSkew is how far Slack's clock and ours may be apart.
	clockSkew = time.Minute
	// landsWithin is how long after its beginning a post can still appear.
	landsWithin = 10 * time.Minute
	historyPage = 100
	// maxPages bounds one look; twenty minutes of a channel are seldom more.
	maxPages = 10
)

// stamp is the metadata that a message is found again by. The code over it keeps a
// forged message from being adopted: metadata is visible to every app in the
// channel.
// Source: https://docs.slack.dev/messaging/message-metadata
func (d *deliverer) stamp(row blastdoor.OutboxRow) slack.SlackMetadata {
	return slack.SlackMetadata{EventType: stampType, EventPayload: map[string]any{
		"delivery_id": row.ID, "run_id": row.RunID, "mac": d.mac(row)}}
}

func (d *deliverer) mac(row blastdoor.OutboxRow) string {
	h := hmac.New(sha256.New, d.key)
	fmt.Fprintf(h, "blastdoor-delivery-v1\x00%s\x00%s\x00%s", row.ID, row.RunID, row.Channel)
	return hex.EncodeToString(h.Sum(nil))
}

// reconcile answers whether a post whose outcome is unknown is in Slack. It adopts
// the earliest copy and deletes the others. settled is false when the message was
// looked for often enough and is to be posted again.
func (d *deliverer) reconcile(ctx context.Context, row blastdoor.OutboxRow, m memory, thread string) (out landing, settled bool) {
	copies, err := d.find(ctx, row, thread, row.AttemptAt)
	if err == nil && len(copies) > 0 {
		d.log.InfoContext(ctx, "a message of unknown outcome was found", "delivery", row.ID, "ts", copies[0], "copies", len(copies))
		d.neutralise(ctx, row, copies[1:])
		// What the found copy shows is not known, so it is refreshed.
		return d.done(ctx, row, m, copies[0], 0, false), true
	}
	if err != nil {
		f, wait, _ := judge(err)
		d.log.WarnContext(ctx, "looking for a message", "delivery", row.ID, "err", err)
		if f != refused { // without the right to read history, looking never helps
			return d.retry(ctx, row, m, max(wait, d.timing.Look), "looking for the message", true), true
		}
	}
	if m.looks++; m.looks < maxLooks {
		return d.retry(ctx, row, m, d.timing.Look, "looking for the message", true), true
	}
	d.log.WarnContext(ctx, "a message of unknown outcome was not found and is posted again", "delivery", row.ID, "looks", m.looks)
	return landing{}, false
}

// sweep deletes copies of a delivery other than the one that counts.
func (d *deliverer) sweep(ctx context.Context, row blastdoor.OutboxRow, thread string, since time.Time, keep string) {
	copies, err := d.find(ctx, row, thread, since)
	if err != nil {
		d.log.WarnContext(ctx, "looking for copies of a message", "delivery", row.ID, "err", err)
		return
	}
	d.neutralise(ctx, row, slices.DeleteFunc(copies, func(ts string) bool { return ts == keep }))
}

func (d *deliverer) neutralise(ctx context.Context, row blastdoor.OutboxRow, copies []string) {
	for _, ts := range copies {
		if err := d.web.remove(ctx, row.Channel, ts); err != nil {
			// It stays as a dead card: a click on it is refused, as its address is
			// not the stored one.
			d.log.WarnContext(ctx, "deleting a copy", "delivery", row.ID, "ts", ts, "err", err)
		}
	}
}

// find returns the addresses of all our copies of a delivery, earliest first.
func (d *deliverer) find(ctx context.Context, row blastdoor.OutboxRow, thread string, since time.Time) ([]string, error) {
	oldest, newest := slackTime(since.Add(-clockSkew)), slackTime(since.Add(landsWithin))
	var found []string
	cursor := ""
	for range maxPages {
		msgs, next, err := d.page(ctx, row.Channel, thread, oldest, newest, cursor)
		if err != nil {
			return nil, fmt.Errorf("reading the history of %s: %w", row.Channel, err)
		}
		for i := range msgs {
			if d.isOurs(&msgs[i], row) {
				found = append(found, msgs[i].Timestamp)
			}
		}
		if cursor = next; cursor == "" {
			slices.SortFunc(found, compareTS)
			return slices.Compact(found), nil
		}
	}
	return nil, fmt.Errorf("reading the history of %s: more than %d messages around the attempt", row.Channel, maxPages*historyPage)
}

func (d *deliverer) page(ctx context.Context, channel, thread, oldest, newest, cursor string) ([]slack.Message, string, error) {
	if thread != "" {
		msgs, more, next, err := d.web.api.GetConversationRepliesContext(ctx, &slack.GetConversationRepliesParameters{ChannelID: channel,
			Timestamp: thread, Cursor: cursor, Oldest: oldest, Latest: newest, Inclusive: true, Limit: historyPage, IncludeAllMetadata: true})
		return msgs, pageAfter(more, next), err
	}
	answer, err := d.web.api.GetConversationHistoryContext(ctx, &slack.GetConversationHistoryParameters{ChannelID: channel,
		Cursor: cursor, Oldest: oldest, Latest: newest, Inclusive: true, Limit: historyPage, IncludeAllMetadata: true})
	if err != nil {
		return nil, "", err
	}
	return answer.Messages, pageAfter(answer.HasMore, answer.ResponseMetaData.NextCursor), nil
}

func pageAfter(more bool, cursor string) string {
	if !more {
		return ""
	}
	return cursor
}

// isOurs reports whether a message is a copy of the delivery that we posted.
func (d *deliverer) isOurs(m *slack.Message, row blastdoor.OutboxRow) bool {
	mine := d.self.BotID != "" && m.BotID == d.self.BotID || d.self.BotUserID != "" && m.User == d.self.BotUserID
	if !mine || m.Metadata.EventType != stampType {
		return false
	}
	id, _ := m.Metadata.EventPayload["delivery_id"].(string)
	mac, _ := m.Metadata.EventPayload["mac"].(string)
	return id == row.ID && hmac.Equal([]byte(mac), []byte(d.mac(row)))
}

func slackTime(t time.Time) string {
	return fmt.Sprintf("%d.%06d", t.Unix(), t.Nanosecond()/1000)
}

// compareTS orders Slack's timestamps: seconds, a point, six digits.
func compareTS(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}
