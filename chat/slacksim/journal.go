package slacksim

import (
	"fmt"
	"slices"
	"time"
)

// Kind groups the entries of the journal.
type Kind string

// What the journal records.
const (
	KindCall     Kind = "call"         // a Web API method; Name is the method
	KindEnvelope Kind = "envelope"     // an envelope sent; Name is its type
	KindAck      Kind = "ack"          // an ack received; Name is the envelope's type
	KindSocket   Kind = "socket"       // a connection opened, closed, refused or told to disconnect
	KindResponse Kind = "response_url" // a use of a response_url
	KindUpload   Kind = "upload"       // the bytes of a file
)

// Entry is one line of the journal.
type Entry struct {
	Seq        int // from 1, in the order things happened
	Time       time.Time
	Kind       Kind
	Name       string
	EnvelopeID string
	Conn       int               // the socket, from 1; 0 when there is none
	Args       map[string]string // arguments of a call, without the token
	Payload    string            // JSON of an envelope, of an ack's payload, or of a response
	Reply      map[string]any    // the answer of a successful call
	Outcome    string            // ok, or what went wrong: an error code, a fault, "late", "lost", "unknown"…
}

// OK says whether the entry ended well and without a fault.
func (e Entry) OK() bool { return e.Outcome == "ok" }

func (e Entry) String() string {
	return fmt.Sprintf("%d %s %s %s", e.Seq, e.Kind, e.Name, e.Outcome)
}

// record appends to the journal. The caller holds mu.
func (ws *Workspace) record(e Entry) {
	e.Seq = len(ws.journal) + 1
	e.Time = ws.opts.Now()
	ws.journal = append(ws.journal, e)
}

// Journal returns everything that happened so far, oldest first. The maps in it are not to be changed.
func (ws *Workspace) Journal() []Entry { return ws.entriesAfter(0) }

// entriesAfter returns the entries behind the first n.
func (ws *Workspace) entriesAfter(n int) []Entry {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return slices.Clone(ws.journal[n:])
}

// Calls returns the calls of one method, refused ones included.
func (ws *Workspace) Calls(method string) []Entry {
	return slices.DeleteFunc(ws.Journal(), func(e Entry) bool { return e.Kind != KindCall || e.Name != method })
}

// Acks returns the acks received, in order, whatever became of them.
func (ws *Workspace) Acks() []Entry {
	return slices.DeleteFunc(ws.Journal(), func(e Entry) bool { return e.Kind != KindAck })
}
