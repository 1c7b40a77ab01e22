package slacksim

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// Limits of Socket Mode. Source: https://docs.slack.dev/apis/events-api/using-socket-mode and public reports for the
// size of a frame.
const (
	maxFrame       = 20480 // bytes from the app in one frame; larger closes the socket with 1009
	maxConnections = 10
	warningTime    = 10 * time.Second // between the warning and the end of a connection
	writeWait      = 5 * time.Second
)

// Reasons in a disconnect message.
const (
	ReasonWarning          = "warning"
	ReasonRefreshRequested = "refresh_requested"
	ReasonLinkDisabled     = "link_disabled"
	ReasonTooMany          = "too_many_websockets"
)

// ticket is the right to dial one socket, once, soon.
type ticket struct{ expires time.Time }

// conn is one Socket Mode connection.
type conn struct {
	id      int
	ws      *websocket.Conn
	out     chan []byte
	done    chan struct{}
	end     sync.Once
	debug   bool // the app asked for short connections
	stalled bool // half open: registered, but neither reads nor pings; guarded by Workspace.mu
}

// cut closes the connection without a close frame.
func (c *conn) cut() {
	c.end.Do(func() { close(c.done) })
	_ = c.ws.Close()
}

func (ws *Workspace) connectionsOpen(*call) (map[string]any, error) {
	id := ws.nextID("ticket-")
	ws.tickets[id] = &ticket{expires: ws.opts.Now().Add(ws.opts.TicketLife)}
	query := url.Values{"ticket": {id}, "app_id": {ws.app.ID}}
	return map[string]any{"url": "ws://" + ws.host + "/link/?" + query.Encode()}, nil
}

// redeem uses up a ticket.
func (ws *Workspace) redeem(id string) error {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	t := ws.tickets[id]
	delete(ws.tickets, id)
	if t != nil && ws.opts.Now().Before(t.expires) {
		return nil
	}
	ws.record(Entry{Kind: KindSocket, Name: "refused", Outcome: "ticket unknown, used or expired"})
	ws.bump()
	return errors.New("the ticket is unknown, used or expired")
}

// serveSocket runs one Socket Mode connection until it ends.
func (ws *Workspace) serveSocket(w http.ResponseWriter, r *http.Request) {
	if err := ws.redeem(r.URL.Query().Get("ticket")); err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	up := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }} // guard has checked it
	wsc, err := up.Upgrade(w, r, nil)
	if err != nil {
		return // Upgrade has answered
	}
	c := &conn{ws: wsc, out: make(chan []byte, 1024), done: make(chan struct{}), debug: r.URL.Query().Get("debug_reconnects") == "true"}
	if !ws.register(c) {
		c.cut()
		return
	}
	ws.wg.Go(func() { ws.write(c) })
	ws.read(c)
}

// register greets a connection and makes it one that may get envelopes. It returns false when the workspace closes.
func (ws *Workspace) register(c *conn) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.ctx.Err() != nil {
		return false
	}
	ws.connSerial++
	c.id = ws.connSerial
	ws.wg.Add(1) // for read
	if ws.socketsOff {
		ws.disconnect(c, ReasonLinkDisabled)
		ws.forget(c)
		return true
	}
	ws.conns = append(ws.conns, c)
	total := len(ws.conns) + ws.ghosts
	lifetime := ws.lifetime(c)
	ws.send(c, map[string]any{
		"type": "hello", "num_connections": total, "connection_info": map[string]any{"app_id": ws.app.ID},
		"debug_info": map[string]any{"host": "applink-simulated", "started": ws.opts.Now().UTC().Format("2006-01-02 15:04:05.000"),
			"build_number": 1, "approximate_connection_time": int(lifetime / time.Second)},
	})
	ws.record(Entry{Kind: KindSocket, Name: "open", Conn: c.id, Outcome: "ok"})
	if total > maxConnections {
		ws.disconnect(c, ReasonTooMany)
		ws.forget(c)
	}
	ws.bump()
	return true
}

func (ws *Workspace) lifetime(c *conn) time.Duration {
	if c.debug {
		return min(360*time.Second, ws.opts.ConnectionTime)
	}
	return ws.opts.ConnectionTime
}

// read takes in acks until the socket ends.
func (ws *Workspace) read(c *conn) {
	defer ws.wg.Done()
	defer ws.closed(c)
	c.ws.SetReadLimit(1 << 20)
	for {
		kind, raw, err := c.ws.ReadMessage()
		switch {
		case err != nil:
			return
		case len(raw) > maxFrame:
			msg := websocket.FormatCloseMessage(websocket.CloseMessageTooBig, fmt.Sprintf("Max frame length of %d has been exceeded.", maxFrame))
			_ = c.ws.WriteControl(websocket.CloseMessage, msg, time.Now().Add(writeWait)) // the socket ends either way
			ws.locked(func() {
				ws.record(Entry{Kind: KindSocket, Name: "close 1009", Conn: c.id, Outcome: fmt.Sprintf("frame of %d bytes", len(raw))})
			})
			return
		case kind == websocket.TextMessage:
			ws.receive(c, raw)
		}
	}
}

// write sends what is queued, and pings, until the socket ends.
func (ws *Workspace) write(c *conn) {
	ping := time.NewTicker(ws.opts.PingInterval)
	defer ping.Stop()
	lifetime := ws.lifetime(c)
	warning := min(warningTime, lifetime/2)
	life := time.NewTimer(lifetime - warning)
	defer life.Stop()
	defer c.cut()
	for warned := false; ; {
		select {
		case <-c.done:
			return
		case frame := <-c.out:
			if frame == nil { // the mark after a last message
				return
			}
			_ = c.ws.SetWriteDeadline(time.Now().Add(writeWait))
			if c.ws.WriteMessage(websocket.TextMessage, frame) != nil {
				return
			}
		case <-ping.C:
			if !ws.isStalled(c) && c.ws.WriteControl(websocket.PingMessage, []byte("Ping from applink-simulated"), time.Now().Add(writeWait)) != nil {
				return
			}
		case <-life.C:
			if warned {
				ws.locked(func() { ws.disconnect(c, ReasonRefreshRequested); ws.forget(c) })
				continue
			}
			warned = true
			ws.locked(func() { ws.disconnect(c, ReasonWarning) })
			life.Reset(warning)
		}
	}
}

func (ws *Workspace) isStalled(c *conn) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return c.stalled
}

// send queues a message for a connection; one that does not drain its queue is cut. The caller holds mu.
func (ws *Workspace) send(c *conn, v any) {
	raw, err := marshal(v)
	if err != nil {
		ws.opts.Logger.ErrorContext(ws.ctx, "encoding a socket message", "err", err)
		return
	}
	select {
	case c.out <- raw:
	default:
		c.cut()
	}
}

// disconnect tells an app to connect anew. The caller holds mu.
func (ws *Workspace) disconnect(c *conn, reason string) {
	ws.send(c, map[string]any{"type": "disconnect", "reason": reason, "debug_info": map[string]any{"host": "applink-simulated"}})
	ws.record(Entry{Kind: KindSocket, Name: "disconnect", Conn: c.id, Outcome: reason})
}

// forget takes a connection out of those that get envelopes and ends it once its queue is written. The caller holds mu.
func (ws *Workspace) forget(c *conn) {
	ws.conns = slices.DeleteFunc(ws.conns, func(other *conn) bool { return other == c })
	select {
	case c.out <- nil:
	default:
		c.cut()
	}
}

// closed notes that the other side has gone. A half-open connection stays registered: that is what makes it a ghost.
func (ws *Workspace) closed(c *conn) {
	c.cut()
	ws.locked(func() {
		if !c.stalled {
			ws.conns = slices.DeleteFunc(ws.conns, func(other *conn) bool { return other == c })
		}
		ws.record(Entry{Kind: KindSocket, Name: "close", Conn: c.id, Outcome: "ok"})
	})
}

func (ws *Workspace) takeConns() []*conn {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	conns := ws.conns
	ws.conns = nil
	return conns
}

// DropSockets cuts every connection without a word, as a network does.
func (ws *Workspace) DropSockets() {
	for _, c := range ws.takeConns() {
		c.cut()
	}
	ws.locked(func() { ws.record(Entry{Kind: KindSocket, Name: "drop", Outcome: "ok"}) })
}

// Refresh asks every connection to be opened anew, and closes it: what Slack does every few hours.
func (ws *Workspace) Refresh() { ws.Disconnect(ReasonRefreshRequested) }

// Disconnect sends a disconnect message to every connection. After a warning Slack keeps the connection for about ten
// seconds; after any other reason it closes it.
func (ws *Workspace) Disconnect(reason string) {
	ws.locked(func() {
		for _, c := range slices.Clone(ws.conns) {
			ws.disconnect(c, reason)
			if reason != ReasonWarning {
				ws.forget(c)
			}
		}
	})
}

// SetSocketMode turns Socket Mode off or on again, as an administrator can. While it is off, every socket is told
// link_disabled and closed, new ones in place of hello. That apps.connections.open still succeeds then is an assumption.
func (ws *Workspace) SetSocketMode(on bool) {
	ws.locked(func() { ws.socketsOff = !on })
	if !on {
		ws.Disconnect(ReasonLinkDisabled)
	}
}

// AddGhost registers a connection of the same app that never answers, such as one half open behind a NAT or a forgotten
// process on a laptop: it is counted in hello, and what is sent to it vanishes. The function returned removes it.
func (ws *Workspace) AddGhost() (remove func()) {
	ws.locked(func() { ws.ghosts++ })
	var once sync.Once
	return func() { once.Do(func() { ws.locked(func() { ws.ghosts-- }) }) }
}

// StallSockets makes the connections there are half open: no more pings, nothing read or written, but still registered.
// The app notices only by the missing pings.
func (ws *Workspace) StallSockets() {
	ws.locked(func() {
		for _, c := range ws.conns {
			c.stalled = true
		}
		ws.record(Entry{Kind: KindSocket, Name: "stall", Outcome: "ok"})
	})
}

// DropGhosts removes stalled connections and ghosts, as Slack does in the end.
func (ws *Workspace) DropGhosts() {
	ws.locked(func() {
		ws.ghosts = 0
		ws.conns = slices.DeleteFunc(ws.conns, func(c *conn) bool {
			if c.stalled {
				c.cut()
			}
			return c.stalled
		})
	})
}

// Connections is the number of live connections, without ghosts and stalled ones.
func (ws *Workspace) Connections() int {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.live()
}

func (ws *Workspace) live() int {
	n := 0
	for _, c := range ws.conns {
		if !c.stalled {
			n++
		}
	}
	return n
}

// receive takes in one frame from the app: an ack, with or without a payload.
func (ws *Workspace) receive(c *conn, raw []byte) {
	var ack struct {
		EnvelopeID string          `json:"envelope_id"`
		Payload    json.RawMessage `json:"payload"`
	}
	err := json.Unmarshal(raw, &ack)
	lost := err == nil && ws.takeFault("ack", map[string]string{"envelope_id": ack.EnvelopeID}) != nil
	ws.mu.Lock()
	defer ws.mu.Unlock()
	defer ws.bump()
	e := Entry{Kind: KindAck, EnvelopeID: ack.EnvelopeID, Conn: c.id, Payload: string(ack.Payload)}
	switch {
	case c.stalled:
		return
	case err != nil:
		e.Outcome = "malformed"
	case lost:
		e.Outcome = "lost"
	default:
		e.Name, e.Outcome = ws.acked(ack.EnvelopeID, ack.Payload)
	}
	ws.record(e)
}

func emptyPayload(raw json.RawMessage) bool {
	s := strings.TrimSpace(string(raw))
	return s == "" || s == "null" || s == "{}"
}
