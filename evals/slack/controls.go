package slack

import (
	"context"
	"sync/atomic"
	"time"

	"blastdoor"
	"blastdoor/chat"
	"blastdoor/engine"
)

// control is a way to break the bot, the scenario that must notice, and what it
// must count. A scenario that passes with a broken bot proves nothing.
type control struct {
	name     string
	scenario string
	spoil    func(*parts)
	timing   *chat.Timing
	notices  func(tally) bool
}

func controls() []control {
	doubled := func(t tally) bool { return t.doubled > 0 }
	lost := func(t tally) bool { return t.lost > 0 }
	written := func(t tally) bool { return t.duplicates > 0 }
	untold := func(t tally) bool { return t.refused > t.told }
	return []control{
		{name: "requests are acknowledged and some are not stored", scenario: "200 slash commands at once", notices: lost,
			spoil: func(p *parts) { p.inbox = &leaky{Inbox: p.inbox} }},
		{name: "refusals are not delivered", scenario: "users.info fails at click time", notices: untold,
			spoil: func(p *parts) { p.outbox = mute{p.outbox} }},
		{name: "a command that comes again is a new one", scenario: "the same envelope arrives again", notices: doubled,
			spoil: func(p *parts) { p.inbox = &forgetful{Inbox: p.inbox} }},
		{name: "what Slack throttles is given up", scenario: "429 with Retry-After on every posting method", notices: lost,
			spoil: func(p *parts) { p.outbox = hasty{p.outbox} }},
		{name: "an open attempt is forgotten", scenario: "a post whose connection dies after Slack stored it", notices: doubled,
			spoil: func(p *parts) { p.outbox = unmindful{p.outbox} }},
		{name: "a message is looked for during 80 ms", scenario: "history that lags 5 s", notices: doubled,
			spoil: func(*parts) {}, timing: &chat.Timing{Look: 20 * time.Millisecond}},
		{name: "a person whom Slack does not vouch for is believed", scenario: "users.info fails at click time", notices: written,
			spoil: func(p *parts) { p.directory = gullible{p.directory} }},
		// One that stands still is noticed by the verifier: the graph comes from the future.
		{name: "the clock that expiry is read from is too slow by half", scenario: "the workspace is down for ten minutes, and a click comes too late", notices: written,
			spoil: func(p *parts) {
				right, began := p.now, p.now()
				p.now = func() time.Time { return began.Add(right().Sub(began) / 2) }
			}},
	}
}

// leaky stores nine of ten.
type leaky struct {
	chat.Inbox
	n atomic.Int64
}

func (l *leaky) Accept(ctx context.Context, item blastdoor.InboxItem) (bool, error) {
	if l.n.Add(1)%10 == 0 {
		return true, nil
	}
	return l.Inbox.Accept(ctx, item)
}

// forgetful takes an envelope that it knows for another one.
type forgetful struct {
	chat.Inbox
}

func (f *forgetful) Accept(ctx context.Context, item blastdoor.InboxItem) (bool, error) {
	fresh, err := f.Inbox.Accept(ctx, item)
	if err == nil && !fresh && item.Kind == "slash_commands" {
		item.ID += "-again"
		return f.Inbox.Accept(ctx, item)
	}
	return fresh, err
}

// mute marks private notices as delivered and delivers none.
type mute struct{ chat.Outbox }

func (m mute) PendingDeliveries(ctx context.Context, until time.Time) ([]blastdoor.OutboxRow, error) {
	rows, err := m.Outbox.PendingDeliveries(ctx, until)
	var kept []blastdoor.OutboxRow
	for _, row := range rows {
		if row.Kind != blastdoor.NoticeMsg || row.User == "" {
			kept = append(kept, row)
		} else if err == nil {
			err = m.Outbox.Delivered(ctx, row.ID, "private", row.Want)
		}
	}
	return kept, err
}

// hasty drops what would have to wait.
type hasty struct{ chat.Outbox }

func (h hasty) Retry(ctx context.Context, id string, _ time.Time, reason string, _ bool) error {
	return h.Drop(ctx, id, reason)
}

// unmindful does not tell that a post was begun whose outcome is unknown.
type unmindful struct{ chat.Outbox }

func (u unmindful) PendingDeliveries(ctx context.Context, until time.Time) ([]blastdoor.OutboxRow, error) {
	rows, err := u.Outbox.PendingDeliveries(ctx, until)
	for i := range rows {
		rows[i].AttemptAt = time.Time{}
	}
	return rows, err
}

// gullible believes what a click says of the clicker when Slack does not answer.
type gullible struct{ engine.Directory }

func (g gullible) Person(ctx context.Context, userID, teamID string) (blastdoor.Principal, error) {
	p, err := g.Directory.Person(ctx, userID, teamID)
	if err != nil {
		return blastdoor.Principal{UserID: userID, TeamID: teamID, Verified: true}, nil
	}
	return p, nil
}
