package slacksim

import (
	"context"
	"fmt"
)

// await calls look after every change until it says true. look runs without the lock, so it may use the workspace.
func (ws *Workspace) await(ctx context.Context, what string, look func() bool) error {
	for {
		changed := ws.Changed()
		if look() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		case <-ws.ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ErrClosed)
		}
	}
}

// WaitConnected waits until the app has at least one live socket.
func (ws *Workspace) WaitConnected(ctx context.Context) error {
	return ws.await(ctx, "a connection", func() bool { return ws.Connections() > 0 })
}

// WaitConnections waits until the app has exactly n live sockets.
func (ws *Workspace) WaitConnections(ctx context.Context, n int) error {
	return ws.await(ctx, fmt.Sprintf("%d connections", n), func() bool { return ws.Connections() == n })
}

// WaitMessage waits for a message in a channel (by name or id; replies in threads count) that fits, as it stands at that
// moment; a nil pred fits any. Messages that are there already count. pred should depend on the message alone.
func (ws *Workspace) WaitMessage(ctx context.Context, channel string, pred func(Message) bool) (Message, error) {
	return ws.waitMessage(ctx, "a message in "+channel, pred, func() []*Message {
		if ch := ws.channel(channel); ch != nil {
			return ws.messages[ch.ID]
		}
		return nil
	})
}

// WaitEphemeral waits for a message that only this user (by name or id) sees.
func (ws *Workspace) WaitEphemeral(ctx context.Context, user string, pred func(Message) bool) (Message, error) {
	return ws.waitMessage(ctx, "an ephemeral message to "+user, pred, func() []*Message { return ws.ephemeralsTo(user) })
}

// waitMessage asks pred once about each state of each message in list, which runs with mu held. Only what changed since
// the last look is copied, so that many may wait in a busy workspace.
func (ws *Workspace) waitMessage(ctx context.Context, what string, pred func(Message) bool, list func() []*Message) (Message, error) {
	var found Message
	seen := 0
	err := ws.await(ctx, what, func() bool {
		var fresh []Message
		fresh, seen = ws.changedSince(seen, list)
		for _, m := range fresh {
			if pred == nil || pred(m) {
				found = m
				return true
			}
		}
		return false
	})
	return found, err
}

// changedSince copies the messages touched after a revision, and names the revision they are at.
func (ws *Workspace) changedSince(rev int, list func() []*Message) ([]Message, int) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	var fresh []Message
	for _, m := range list() {
		if m.rev > rev {
			fresh = append(fresh, ws.snapshot(m))
		}
	}
	return fresh, ws.rev
}

func (ws *Workspace) ephemeralsTo(user string) []*Message {
	u := ws.user(user)
	var out []*Message
	for _, m := range ws.ephemerals {
		if u != nil && m.EphemeralTo == u.ID {
			out = append(out, m)
		}
	}
	return out
}

// WaitEntry waits for an entry of the journal that fits, e.g. a call that was refused.
func (ws *Workspace) WaitEntry(ctx context.Context, what string, pred func(Entry) bool) (Entry, error) {
	var found Entry
	seen := 0
	err := ws.await(ctx, what, func() bool {
		for _, e := range ws.entriesAfter(seen) {
			seen = e.Seq
			if pred(e) {
				found = e
				return true
			}
		}
		return false
	})
	return found, err
}

// WaitAck waits for the ack of an envelope, whether it came in time or not.
func (ws *Workspace) WaitAck(ctx context.Context, envelopeID string) (Entry, error) {
	return ws.WaitEntry(ctx, "the ack of "+envelopeID, func(e Entry) bool {
		return e.Kind == KindAck && e.EnvelopeID == envelopeID
	})
}

// Messages returns everything in a channel, oldest first, threads included; ephemeral messages are not in it.
func (ws *Workspace) Messages(channel string) []Message {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ch := ws.channel(channel)
	if ch == nil {
		return nil
	}
	out := make([]Message, 0, len(ws.messages[ch.ID]))
	for _, m := range ws.messages[ch.ID] {
		out = append(out, ws.snapshot(m))
	}
	return out
}

// Message returns one message as it stands.
func (ws *Workspace) Message(channel, ts string) (Message, error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ch := ws.channel(channel); ch != nil {
		if m := ws.find(ch.ID, ts); m != nil {
			return ws.snapshot(m), nil
		}
	}
	return Message{}, fmt.Errorf("reading %s in %s: %w", ts, channel, ErrNoMessage)
}

// Ephemerals returns what only this user saw, oldest first.
func (ws *Workspace) Ephemerals(user string) []Message {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	var out []Message
	for _, m := range ws.ephemeralsTo(user) {
		out = append(out, ws.snapshot(m))
	}
	return out
}
