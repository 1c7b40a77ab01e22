package slacksim

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// FaultKind is a way for a call to go wrong.
type FaultKind int

// The faults. "Commit" is the moment the workspace changes: what is cut before it did not happen, what is cut after it
// did, and the caller cannot tell the two apart.
const (
	CutBeforeCommit     FaultKind = iota + 1 // the connection closes, nothing happened
	CutAfterCommit                           // it happened, then the connection closes without an answer
	Slow                                     // it happens after Delay, or once Gate is closed, even if the caller has gone: it lands late
	Status                                   // HTTP status Status, nothing happened
	RateLimited                              // HTTP 429 with Retry-After, nothing happened
	RateLimitedNoHeader                      // HTTP 429 without Retry-After, nothing happened
	OKRateLimited                            // HTTP 200 with ok=false, error=ratelimited, nothing happened
	ErrorBeforeCommit                        // ok=false with Error, nothing happened
	ErrorAfterCommit                         // ok=false with Error, but it did happen
	LoseAck                                  // only for Method "ack": the ack is lost on its way
)

func (k FaultKind) String() string {
	names := [...]string{"no fault", "cut before commit", "cut after commit", "slow", "status", "rate limited", "rate limited without header",
		"ok but rate limited", "error before commit", "error after commit", "ack lost"}
	if int(k) >= len(names) || k < 0 {
		return fmt.Sprintf("fault %d", int(k))
	}
	return names[k]
}

// Fault is something that goes wrong on demand.
type Fault struct {
	Method     string // Web API method; "ack" for acks, "response_url" for those; "*" for every method
	Kind       FaultKind
	Times      int             // how many calls it hits; 0 means 1, negative means all until ClearFaults
	Skip       int             // how many calls pass first
	Status     int             // for Status
	RetryAfter time.Duration   // for RateLimited, in whole seconds on the wire; at least 1 s
	Delay      time.Duration   // for Slow
	Gate       <-chan struct{} // for Slow: wait for this to close instead of Delay
	Error      string          // for the Error kinds; default internal_error
	Match      func(args map[string]string) bool
	Reached    chan<- struct{} // told, without blocking, when a call meets the fault; give it a buffer
}

// Inject arms a fault. Faults for one method fire in the order they were injected.
func (ws *Workspace) Inject(f Fault) {
	if f.Times == 0 {
		f.Times = 1
	}
	if f.Error == "" {
		f.Error = "internal_error"
	}
	ws.locked(func() { ws.faults = append(ws.faults, &f) })
}

// ClearFaults disarms every fault.
func (ws *Workspace) ClearFaults() { ws.locked(func() { ws.faults = nil }) }

// SetHistoryLag makes messages appear in conversations.history and replies only this long after they were posted.
func (ws *Workspace) SetHistoryLag(d time.Duration) { ws.locked(func() { ws.historyLag = d }) }

// takeFault uses up one firing of the first fault that fits, or returns nil.
func (ws *Workspace) takeFault(method string, a map[string]string) *Fault {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for i, f := range ws.faults {
		if f.Method != method && f.Method != "*" || f.Match != nil && !f.Match(a) {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		if f.Times > 0 {
			f.Times--
		}
		if f.Times == 0 {
			ws.faults = slices.Delete(slices.Clone(ws.faults), i, i+1)
		}
		select {
		case f.Reached <- struct{}{}:
		default:
		}
		return f
	}
	return nil
}

// faultBefore plays the part of a fault that comes before the commit, and says whether the call ends there.
func (ws *Workspace) faultBefore(w http.ResponseWriter, c *call, f *Fault) bool {
	switch f.Kind {
	case CutBeforeCommit:
		cutConnection(w)
	case Slow:
		ws.pause(f)
		if ws.ctx.Err() == nil {
			return false
		}
		cutConnection(w) // the workspace has closed: too late to land
	case Status:
		w.WriteHeader(f.Status)
	case RateLimited:
		seconds := max(1, int(f.RetryAfter.Round(time.Second)/time.Second))
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
		writeRateLimited(w, http.StatusTooManyRequests)
	case RateLimitedNoHeader:
		writeRateLimited(w, http.StatusTooManyRequests)
	case OKRateLimited:
		writeRateLimited(w, http.StatusOK)
	case ErrorBeforeCommit:
		writeReply(w, nil, refuse(f.Error))
	default:
		return false
	}
	ws.locked(func() {
		ws.record(Entry{Kind: KindCall, Name: c.method, Args: c.args.public(), Outcome: f.Kind.String()})
	})
	return true
}

// faultAfter plays the part of a fault that comes after the commit, and says whether the answer is dealt with.
func (ws *Workspace) faultAfter(w http.ResponseWriter, f *Fault) bool {
	switch f.Kind {
	case CutAfterCommit:
		cutConnection(w)
		return true
	case ErrorAfterCommit:
		writeReply(w, nil, refuse(f.Error))
		return true
	}
	return false
}

func (ws *Workspace) pause(f *Fault) {
	if f.Gate != nil {
		select {
		case <-f.Gate:
		case <-ws.ctx.Done():
		}
		return
	}
	timer := time.NewTimer(f.Delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ws.ctx.Done():
	}
}

// cutConnection closes the connection without an answer.
func cutConnection(w http.ResponseWriter) {
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		panic(http.ErrAbortHandler)
	}
	conn, _, err := hijacker.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // the server then cuts the connection itself
	}
	_ = conn.Close()
}

func writeRateLimited(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(`{"ok":false,"error":"ratelimited"}`)) // the peer may be gone
}
