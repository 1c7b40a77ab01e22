package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slack-go/slack"
	"github.com/slack-go/slack/socketmode"

	"blastdoor"
)

const (
	// ackWithin is Slack's limit between an envelope and its acknowledgement.
	ackWithin = 3 * time.Second
	// acceptWithin leaves the acknowledgement itself some of that.
	acceptWithin = 2500 * time.Millisecond
	// acceptWorkers store envelopes side by side, so that they can share one sync
	// of the disk.
	acceptWorkers = 32
	// intakeQueue bounds what waits for a worker. Beyond it an envelope is not
	// acknowledged, and the person sees that at once instead of waiting for nothing.
	intakeQueue = 512
)

// receiver takes envelopes off the socket, stores them and acknowledges them, in
// that order. A block_actions envelope is never sent twice, so a click that is not
// stored must not be acknowledged: the person then sees a warning and clicks again.
type receiver struct {
	dial   func() *socketmode.Client // makes a client, not yet connected
	smc    atomic.Pointer[socketmode.Client]
	inbox  Inbox
	self   installation
	appID  string // empty: learnt from hello
	now    func() time.Time
	log    *slog.Logger
	stored func() // tells the processor
	// patience is the longest pause between two attempts to connect.
	patience time.Duration

	queue chan socketmode.Request

	mu     sync.Mutex
	status SocketStatus
}

// SocketStatus is the state of the connection to Slack.
type SocketStatus struct {
	Connected bool
	Since     time.Time // of the current connection, or of its loss
	// Connections is how many connections Slack counts for the app, ours
	// included; more than one means that somebody else receives some of the
	// commands.
	Connections int
	Reconnects  int
	Queue       int    // envelopes that wait to be stored
	LastError   string // of the connection; empty when all is well
}

// receive runs until ctx ends or Slack refuses the token for good.
func (r *receiver) receive(ctx context.Context) error {
	socketCtx, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()
	line := r.open(socketCtx)
	var workers sync.WaitGroup
	for range acceptWorkers {
		workers.Go(func() {
			for req := range r.queue {
				r.handle(socketCtx, req)
			}
		})
	}
	err := r.loop(ctx, line)
	for errors.Is(err, errSlow) {
		line.close()
		if pause(ctx, r.patience); ctx.Err() == nil {
			r.log.InfoContext(ctx, "connecting to Slack anew instead of waiting longer")
		}
		line = r.open(socketCtx)
		err = r.loop(ctx, line)
	}
	// Intake has stopped. What is queued is still stored and acknowledged while the
	// socket is open; what Slack sends meanwhile is not, and stays Slack's.
	close(r.queue)
	workers.Wait()
	line.close()
	return err
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// errSlow says that the client is about to wait longer than we want to be deaf.
var errSlow = errors.New("the client waits too long before it connects again")

// line is a running client.
type line struct {
	smc    *socketmode.Client
	hangUp context.CancelFunc
	ended  chan error
}

func (r *receiver) open(ctx context.Context) line {
	ctx, hangUp := context.WithCancel(ctx)
	l := line{smc: r.dial(), hangUp: hangUp, ended: make(chan error, 1)}
	r.smc.Store(l.smc)
	go func() { l.ended <- l.smc.RunContext(ctx) }()
	return l
}

// close hangs up and reads the events that are left until the client has ended,
// so that no goroutine of it stays behind blocked.
func (l line) close() {
	l.hangUp()
	for {
		select {
		case <-l.smc.Events:
		case <-l.ended:
			return
		}
	}
}

// loop does nothing but hand over: a blocked reader would kill the connection
// without a sign.
func (r *receiver) loop(ctx context.Context, l line) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-l.ended:
			l.ended <- err
			return fmt.Errorf("listening to Slack: %w", explain(err))
		case ev := <-l.smc.Events:
			if err := r.event(ctx, ev); err != nil {
				return err
			}
		}
	}
}

func (r *receiver) event(ctx context.Context, ev socketmode.Event) error {
	switch ev.Type {
	case socketmode.EventTypeHello:
		r.hello(ctx, ev.Request)
	case socketmode.EventTypeConnected:
		r.connected(true, "")
	case socketmode.EventTypeConnecting:
		r.connected(false, "")
	case socketmode.EventTypeConnectionError:
		if e, ok := ev.Data.(*slack.ConnectionErrorEvent); ok {
			r.connected(false, e.ErrorObj.Error())
			r.log.WarnContext(ctx, "connecting to Slack", "err", e.ErrorObj, "attempt", e.Attempt, "wait", e.Backoff)
			if _, hopeless := fatal(e.ErrorObj); hopeless {
				return fmt.Errorf("connecting to Slack: %w", explain(e.ErrorObj))
			}
			// A pause that Slack asks for is kept; one that has only grown is not:
			// after a long outage the client would be deaf for minutes.
			if _, asked := errors.AsType[*slack.RateLimitedError](e.ErrorObj); !asked && e.Backoff > r.patience {
				return errSlow
			}
		}
	case socketmode.EventTypeInvalidAuth:
		return errors.New("connecting to Slack: the app-level token is not valid")
	case socketmode.EventTypeErrorWriteFailed:
		r.log.WarnContext(ctx, "acknowledging an envelope: the socket closed first")
	case socketmode.EventTypeErrorBadMessage:
		// The library could not decode it; our own parser wants less and may do.
		if bad, ok := ev.Data.(*socketmode.ErrorBadMessage); ok {
			r.handOverRaw(ctx, bad.Message)
		}
	case socketmode.EventTypeSlashCommand, socketmode.EventTypeInteractive, socketmode.EventTypeEventsAPI:
		if ev.Request != nil {
			r.handOver(ctx, *ev.Request)
		}
	}
	return nil
}

func (r *receiver) handOverRaw(ctx context.Context, message json.RawMessage) {
	var req socketmode.Request
	if err := json.Unmarshal(message, &req); err != nil || req.EnvelopeID == "" {
		r.log.WarnContext(ctx, "reading a message from Slack: it is no envelope", "bytes", len(message))
		return
	}
	r.handOver(ctx, req)
}

func (r *receiver) handOver(ctx context.Context, req socketmode.Request) {
	select {
	case r.queue <- req:
	default:
		r.log.ErrorContext(ctx, "envelope not accepted: too many are waiting", "envelope", req.EnvelopeID, "kind", req.Type)
	}
}

// handle stores one envelope and acknowledges it. A panic costs this envelope only.
func (r *receiver) handle(ctx context.Context, req socketmode.Request) {
	defer func() {
		if p := recover(); p != nil {
			r.log.ErrorContext(ctx, "handling an envelope panicked", "envelope", req.EnvelopeID, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	if !r.accept(ctx, req) {
		return
	}
	ackCtx, cancel := context.WithTimeout(ctx, ackWithin)
	defer cancel()
	if err := r.smc.Load().AckCtx(ackCtx, req.EnvelopeID, nil); err != nil {
		r.log.WarnContext(ctx, "acknowledging an envelope", "envelope", req.EnvelopeID, "err", err)
	}
}

// accept decides whether the envelope may be acknowledged: what is not ours to
// answer, and what is stored durably.
func (r *receiver) accept(ctx context.Context, req socketmode.Request) bool {
	p, err := parseEnvelope(req.Type, req.EnvelopeID, req.Payload)
	if err != nil {
		// Slack would send it again and again; it would never read better.
		r.log.WarnContext(ctx, "envelope dropped", "envelope", req.EnvelopeID, "kind", req.Type, "err", err)
		return true
	}
	if len(p.Items) == 0 {
		return true
	}
	if why := r.foreign(p.Origin); why != "" {
		r.log.WarnContext(ctx, "envelope dropped: it is not for this installation", "envelope", req.EnvelopeID, "why", why)
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, acceptWithin)
	defer cancel()
	for _, item := range p.Items {
		item.ReceivedAt = r.now()
		fresh, err := r.inbox.Accept(ctx, item)
		if err != nil {
			r.log.ErrorContext(ctx, "envelope not acknowledged: storing it", "envelope", req.EnvelopeID, "item", item.ID, "err", err)
			return false
		}
		if !fresh {
			r.log.InfoContext(ctx, "envelope known already", "envelope", req.EnvelopeID, "item", item.ID)
		}
	}
	r.stored()
	return true
}

// foreign says why an envelope is not for this installation, or "".
func (r *receiver) foreign(o origin) string {
	r.mu.Lock()
	app := r.appID
	r.mu.Unlock()
	if app != "" && o.AppID != app {
		return "another app"
	}
	if o.TeamID == r.self.TeamID || o.TeamID == "" && o.EnterpriseID != "" && o.EnterpriseID == r.self.EnterpriseID {
		return ""
	}
	return "another team"
}

func (r *receiver) hello(ctx context.Context, req *socketmode.Request) {
	if req == nil {
		return
	}
	r.mu.Lock()
	r.status.Connections = req.NumConnections
	if r.appID == "" {
		r.appID = req.ConnectionInfo.AppID
	}
	r.mu.Unlock()
	if req.NumConnections > 1 {
		r.log.WarnContext(ctx, "another process is connected to this app and receives some of its commands", "connections", req.NumConnections)
	}
}

func (r *receiver) connected(yes bool, problem string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if yes && !r.status.Since.IsZero() && !r.status.Connected {
		r.status.Reconnects++
	}
	if yes != r.status.Connected {
		r.status.Since = r.now()
	}
	r.status.Connected = yes
	if yes || problem != "" {
		r.status.LastError = problem
	}
}

// Status is the state of the connection now.
func (r *receiver) Status() SocketStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.status
	s.Queue = len(r.queue)
	return s
}

// explain adds the way out to an error of a token.
func explain(err error) error {
	if way, ok := fatal(err); ok {
		return &blastdoor.Error{Code: blastdoor.ErrNotAllowed, Where: "Slack", Msg: way, Err: err}
	}
	return err
}
