package slacksim

import (
	"encoding/json"
	"fmt"
	"time"

	"blastdoor/chat/blockkit"
)

// Envelope types.
const (
	TypeSlash       = "slash_commands"
	TypeInteractive = "interactive"
	TypeEvents      = "events_api"
)

// AckStatus is what became of something a person did.
type AckStatus string

// The ends an envelope can have.
const (
	Acked            AckStatus = "acked"
	OperationTimeout AckStatus = "operation_timeout" // no ack in time
	DispatchFailed   AckStatus = "dispatch_failed"   // no connection to send it to
)

// Outcome is what a person sees right after a command or a click.
type Outcome struct {
	EnvelopeID string
	TriggerID  string
	Status     AckStatus
	Shown      string        // the error at the place of the action; empty when it was acked
	Reply      *Message      // the message made from the ack's payload, if it had one
	Took       time.Duration // from sending to the ack or the deadline
}

// delivery is one envelope on its way. Guarded by mu, but for done.
type delivery struct {
	id, kind string
	frame    map[string]any
	command  string // of a slash command, for the words shown
	channel  string
	user     string
	ack      json.RawMessage
	acked    bool
	expired  bool
	reply    *Message
	settled  chan struct{} // closed at the first ack in time
}

// envelope prepares an envelope. The caller holds mu.
func (ws *Workspace) envelope(kind string, payload map[string]any) *delivery {
	id := fmt.Sprintf("%08x-0000-4000-8000-%012x", ws.rng.Uint32(), len(ws.deliveries)+1)
	frame := map[string]any{"envelope_id": id, "type": kind, "accepts_response_payload": kind != TypeEvents, "payload": payload}
	if kind == TypeEvents {
		frame["retry_attempt"], frame["retry_reason"] = 0, ""
	}
	d := &delivery{id: id, kind: kind, frame: frame, settled: make(chan struct{})}
	ws.deliveries[id] = d
	return d
}

// dispatch sends an envelope to one of the connections, chosen at random, ghosts included. It returns false when there is
// none. The caller holds mu.
func (ws *Workspace) dispatch(d *delivery) bool {
	total := len(ws.conns) + ws.ghosts
	e := Entry{Kind: KindEnvelope, Name: d.kind, EnvelopeID: d.id, Outcome: "ok"}
	if raw, err := marshal(d.frame["payload"]); err == nil {
		e.Payload = string(raw)
	}
	if total == 0 {
		e.Outcome = string(DispatchFailed)
		ws.record(e)
		return false
	}
	if i := ws.rng.IntN(total); i < len(ws.conns) && !ws.conns[i].stalled {
		e.Conn = ws.conns[i].id
		ws.send(ws.conns[i], d.frame)
	} else {
		e.Outcome = "sent to a ghost"
	}
	ws.record(e)
	return true
}

// deliver sends an envelope and waits for its ack or the deadline.
func (ws *Workspace) deliver(d *delivery) Outcome {
	start := time.Now()
	out := Outcome{EnvelopeID: d.id, Status: DispatchFailed}
	var sent bool
	ws.locked(func() { sent = ws.dispatch(d) })
	if !sent {
		out.Shown = d.failure(DispatchFailed)
		return out
	}
	timer := time.NewTimer(ws.opts.AckDeadline)
	defer timer.Stop()
	select {
	case <-d.settled:
	case <-timer.C:
	case <-ws.ctx.Done():
	}
	ws.locked(func() {
		out.Took = time.Since(start)
		if d.acked { // an ack that came just in time counts, whichever case the select took
			out.Status, out.Reply = Acked, d.reply
			return
		}
		d.expired = true
		out.Status = OperationTimeout
		out.Shown = d.failure(OperationTimeout)
	})
	return out
}

// failure is what the person sees when nobody acked.
func (d *delivery) failure(status AckStatus) string {
	switch d.kind {
	case TypeSlash:
		return fmt.Sprintf("%s failed with the error %q", d.command, string(status))
	case TypeInteractive:
		return "⚠"
	}
	return ""
}

// acked takes in an ack and says what became of it. The caller holds mu.
func (ws *Workspace) acked(id string, payload json.RawMessage) (kind, outcome string) {
	d := ws.deliveries[id]
	switch {
	case d == nil:
		return "", "unknown envelope"
	case d.acked:
		return d.kind, "duplicate"
	case d.expired:
		return d.kind, "late"
	}
	d.acked, d.ack = true, payload
	outcome = "ok"
	if !emptyPayload(payload) {
		outcome = ws.ackPayload(d, payload)
	}
	close(d.settled)
	return d.kind, outcome
}

// ackPayload shows the message in the ack of a slash command. Other acks must be empty, but Slack lets that pass.
func (ws *Workspace) ackPayload(d *delivery, payload json.RawMessage) string {
	if d.kind != TypeSlash {
		return "payload ignored"
	}
	var body struct {
		ResponseType string          `json:"response_type"`
		Text         string          `json:"text"`
		Blocks       json.RawMessage `json:"blocks"`
	}
	if err := json.Unmarshal(payload, &body); err != nil {
		return "payload malformed"
	}
	blocks, err := ws.readBlocks(string(body.Blocks))
	if err != nil {
		return err.Error()
	}
	c := content{text: blockkit.AsStored(body.Text, true), blocks: blocks}
	if c.empty() {
		return "payload without a message"
	}
	m := ws.botMessage(d.channel, c)
	if body.ResponseType != "in_channel" {
		m.EphemeralTo = d.user
	}
	reply := ws.snapshot(ws.add(m))
	d.reply = &reply
	return "ok"
}

// Forge sends an envelope with any payload, as if Slack had: to prove that the app refuses what does not fit.
func (ws *Workspace) Forge(kind string, payload map[string]any) Outcome {
	var d *delivery
	ws.locked(func() { d = ws.envelope(kind, payload) })
	return ws.deliver(d)
}

// Redeliver sends an envelope once more under the same id, as Slack has been seen to do, and waits for a new ack.
func (ws *Workspace) Redeliver(envelopeID string) (Outcome, error) {
	ws.mu.Lock()
	d := ws.deliveries[envelopeID]
	if d == nil {
		ws.mu.Unlock()
		return Outcome{}, fmt.Errorf("redelivering %s: no such envelope", envelopeID)
	}
	d.acked, d.expired, d.settled = false, false, make(chan struct{})
	ws.mu.Unlock()
	return ws.deliver(d), nil
}

// SendRaw writes a frame of any form to one live connection, e.g. an envelope of an unknown type.
func (ws *Workspace) SendRaw(frame map[string]any) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, c := range ws.conns {
		if !c.stalled {
			ws.send(c, frame)
			return true
		}
	}
	return false
}

// sendEvent delivers an event, and again after each retry delay until it is acked, in the background.
func (ws *Workspace) sendEvent(payload map[string]any) Outcome {
	var d *delivery
	ws.locked(func() { d = ws.envelope(TypeEvents, payload) })
	first := ws.deliver(d)
	if first.Status != Acked && ws.ctx.Err() == nil {
		ws.wg.Go(func() { ws.retryEvent(payload, first.Status) })
	}
	return first
}

func (ws *Workspace) retryEvent(payload map[string]any, why AckStatus) {
	for i, delay := range ws.opts.RetryDelays {
		ws.pause(&Fault{Delay: delay})
		if ws.ctx.Err() != nil {
			return
		}
		var d *delivery
		ws.locked(func() {
			d = ws.envelope(TypeEvents, payload)
			d.frame["retry_attempt"], d.frame["retry_reason"] = i+1, retryReason(why)
		})
		out := ws.deliver(d)
		if out.Status == Acked {
			return
		}
		why = out.Status
	}
}

func retryReason(s AckStatus) string {
	if s == DispatchFailed {
		return "connection_failed"
	}
	return "timeout"
}
