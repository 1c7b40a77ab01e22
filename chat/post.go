package chat

import (
	"context"
	"fmt"

	"blastdoor"
)

// post sends a new message. The attempt is durable before the call, so that a
// process that dies in between leaves a question ("is it there?") and not a second
// card.
func (d *deliverer) post(ctx context.Context, row blastdoor.OutboxRow, m memory, msg Message, seen int) landing {
	thread, err := d.threadOf(ctx, row)
	if err != nil {
		return d.again(ctx, row, m, err, !row.AttemptAt.IsZero())
	}
	first := row.AttemptAt
	if !first.IsZero() {
		if out, settled := d.reconcile(ctx, row, m, thread); settled {
			return out
		}
	}
	if err := d.outbox.BeginAttempt(ctx, row.ID, d.now()); err != nil {
		return d.again(ctx, row, m, fmt.Errorf("opening an attempt: %w", err), !first.IsZero())
	}
	ts, err := d.web.post(ctx, row.Channel, thread, msg, d.stamp(row))
	if err != nil {
		return d.notPosted(ctx, row, m, thread, err)
	}
	if !first.IsZero() {
		// The earlier attempt was given up; should it have landed late, two cards
		// hang there, and only this one counts.
		d.sweep(ctx, row, thread, first, ts)
	}
	return d.done(ctx, row, m, ts, seen, false)
}

func (d *deliverer) threadOf(ctx context.Context, row blastdoor.OutboxRow) (string, error) {
	if row.Thread == "" {
		return "", nil
	}
	ref, err := d.posts.Posted(ctx, row.Thread)
	if err != nil {
		return "", fmt.Errorf("finding the message %s to reply to: %w", row.Thread, err)
	}
	return ref.TS, nil
}

// notPosted decides what an error of a post means.
func (d *deliverer) notPosted(ctx context.Context, row blastdoor.OutboxRow, m memory, thread string, err error) landing {
	f, wait, word := judge(err)
	switch f {
	case throttled:
		return d.throttled(ctx, row, m, wait, word)
	case notDone:
		return d.again(ctx, row, m, err, false)
	case refused:
		if tooBig(word) {
			return d.postSmall(ctx, row, m, thread, err)
		}
		d.tellRequester(ctx, row, word)
		return d.drop(ctx, row, m, word)
	default:
		m.looks = 0
		d.log.WarnContext(ctx, "post with unknown outcome", "delivery", row.ID, "err", err)
		return d.retry(ctx, row, m, d.timing.Look, word, true)
	}
}

// postSmall posts the small card in place of one that Slack finds too big.
func (d *deliverer) postSmall(ctx context.Context, row blastdoor.OutboxRow, m memory, thread string, cause error) landing {
	d.log.ErrorContext(ctx, "Slack refused a card; a small one is posted instead", "delivery", row.ID, "err", cause)
	run, err := d.runs.Run(ctx, row.RunID)
	if err != nil {
		return d.again(ctx, row, m, fmt.Errorf("reading run %s: %w", row.RunID, err), false)
	}
	ts, err := d.web.post(ctx, row.Channel, thread, fallbackCard(&run), d.stamp(row))
	if err == nil {
		return d.done(ctx, row, m, ts, run.Len, false)
	}
	if f, _, word := judge(err); f == refused {
		d.tellRequester(ctx, row, word)
		return d.drop(ctx, row, m, word)
	}
	return d.notPosted(ctx, row, m, thread, err)
}

// update brings a posted message up to date.
func (d *deliverer) update(ctx context.Context, row blastdoor.OutboxRow, m memory, msg Message, seen int) landing {
	err := d.web.update(ctx, row.Channel, row.TS, msg)
	if err == nil {
		return d.done(ctx, row, m, row.TS, seen, true)
	}
	f, wait, word := judge(err)
	switch {
	case f == throttled:
		return d.throttled(ctx, row, m, wait, word)
	case f != refused: // an update twice is an update once
		return d.again(ctx, row, m, err, false)
	case word == "message_not_found" || word == "edit_window_closed" || word == "cant_update_message":
		m.gone = true
		return d.again(ctx, row, m, fmt.Errorf("the message is gone (%s); it is posted anew", word), !row.AttemptAt.IsZero())
	case tooBig(word):
		return d.updateSmall(ctx, row, m, err)
	default:
		return d.drop(ctx, row, m, word)
	}
}

func (d *deliverer) updateSmall(ctx context.Context, row blastdoor.OutboxRow, m memory, cause error) landing {
	d.log.ErrorContext(ctx, "Slack refused a card; it is replaced by a small one", "delivery", row.ID, "err", cause)
	run, err := d.runs.Run(ctx, row.RunID)
	if err == nil {
		err = d.web.update(ctx, row.Channel, row.TS, fallbackCard(&run))
	}
	if err != nil {
		return d.again(ctx, row, m, err, false)
	}
	return d.done(ctx, row, m, row.TS, run.Len, true)
}

// private answers one person: through the response_url while it is fresh, else by
// an ephemeral message. An answer whose outcome is unknown is sent again: twice the
// same words harm nobody, and none would leave a person waiting.
func (d *deliverer) private(ctx context.Context, row blastdoor.OutboxRow, m memory) landing {
	age := d.now().Sub(row.CreatedAt)
	if age > privateTTL {
		return d.drop(ctx, row, m, "too old to be of use")
	}
	msg, seen, err := d.render(ctx, row)
	if err != nil {
		d.log.ErrorContext(ctx, "rendering an answer", "delivery", row.ID, "err", err)
		msg = plainly("Blast Door could not show its answer. The log says why.")
	}
	if row.ResponseURL != "" && age < responseTTL && m.fails == 0 && d.web.mayRespondTo(row.ResponseURL) {
		err := d.web.respond(ctx, row.ResponseURL, msg)
		if err == nil {
			return d.done(ctx, row, m, "private", seen, false)
		}
		d.log.WarnContext(ctx, "answering through the response URL; trying an ephemeral message", "delivery", row.ID, "err", err)
	}
	ts, err := d.web.whisper(ctx, row.Channel, row.User, msg)
	if err == nil {
		if ts == "" {
			ts = "private"
		}
		return d.done(ctx, row, m, ts, seen, false)
	}
	switch f, wait, word := judge(err); f {
	case throttled:
		m.fails++
		return d.throttled(ctx, row, m, wait, word)
	case refused:
		return d.drop(ctx, row, m, word)
	default:
		return d.again(ctx, row, m, err, false)
	}
}

// tellRequester says privately that a card cannot be posted, if there still is a
// way to say it.
func (d *deliverer) tellRequester(ctx context.Context, row blastdoor.OutboxRow, word string) {
	if row.Kind != blastdoor.RunCard && row.Kind != blastdoor.DryRunCard {
		return
	}
	msg := plainly("⚠️ The card of run " + code(row.RunID) + " cannot be posted in " + channelRef(row.Channel) + " (" + code(word) + "). " + wayOut(word) +
		" Details: " + code("/runbook status "+row.RunID))
	if row.ResponseURL != "" && d.now().Sub(row.CreatedAt) < responseTTL && d.web.respond(ctx, row.ResponseURL, msg) == nil {
		return
	}
	run, err := d.runs.Run(ctx, row.RunID)
	if err == nil {
		err = d.web.direct(ctx, run.Requester.UserID, msg)
	}
	if err != nil {
		d.log.WarnContext(ctx, "telling the requester that a card cannot be posted", "delivery", row.ID, "err", err)
	}
}

func wayOut(word string) markup {
	switch word {
	case "not_in_channel", "channel_not_found":
		return "Invite Blast Door to the channel and ask again."
	case "is_archived":
		return "The channel is archived; ask in another one."
	}
	return "Ask whoever runs Blast Door."
}
