package chat

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"sync"
	"time"

	"blastdoor"
)

const (
	processWorkers = 8
	// processPoll is how often the inbox is read without a sign of news.
	processPoll = 30 * time.Second
	// answerWithin bounds one request, so that one that hangs gives its place back.
	answerWithin = time.Minute
)

// processor answers stored requests, a few at a time. A request that cannot be
// answered yet is put off; one that cannot be understood is answered with an error
// or closed, and never holds up another.
type processor struct {
	op      Operator
	runs    Runs
	shelf   Shelf
	inbox   Inbox
	now     func() time.Time
	log     *slog.Logger
	timing  Timing
	wake    chan struct{}
	settled func() // tells the delivery
	health  func() SocketStatus

	mu     sync.Mutex
	flying map[string]bool
	later  map[string]delay
}

func newProcessor(o Options) *processor {
	return &processor{op: o.Operator, runs: o.Runs, shelf: o.Shelf, inbox: o.Inbox, now: o.Now, log: o.Logger, timing: o.Timing,
		health: func() SocketStatus { return SocketStatus{} }, wake: make(chan struct{}, 1), flying: map[string]bool{}, later: map[string]delay{}}
}

// delay is how often a request has been put off, and until when.
type delay struct {
	first time.Time
	tries int
	until time.Time
}

// unhurried returns a context that outlives ctx by grace: work that has begun may
// finish, but not hold up a stop for ever.
func unhurried(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-work.Done():
		}
	})
	return work, func() { stop(); cancel() }
}

// poke makes the processor look again. It never blocks.
func poke(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// run answers requests until ctx ends, then lets those under way finish for a
// bounded time; a request that is cut stays in the inbox.
func (p *processor) run(ctx context.Context) {
	work, cut := unhurried(ctx, p.timing.Stop)
	defer cut()
	slots := make(chan struct{}, processWorkers)
	var working sync.WaitGroup
	defer working.Wait()
	for {
		wait := p.turn(ctx, work, slots, &working)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-p.wake:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// turn starts what is due and returns how long nothing else will be.
func (p *processor) turn(ctx, work context.Context, slots chan struct{}, working *sync.WaitGroup) time.Duration {
	// Taken before the inbox is read: a request that is answered between the two is
	// still in the list, but must not be answered again.
	before := p.inFlight()
	items, err := p.inbox.PendingInbox(ctx)
	if err != nil {
		if ctx.Err() == nil {
			p.log.ErrorContext(ctx, "reading the inbox", "err", err)
		}
		return p.timing.Again
	}
	wait := processPoll
	for _, item := range items {
		if before[item.ID] {
			continue
		}
		due := p.due(item.ID)
		if due > 0 {
			wait = min(wait, due)
			continue
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return wait
		}
		p.takeOff(item.ID)
		working.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(work, answerWithin)
			defer cancel()
			p.answer(ctx, item)
			p.land(item.ID)
		})
	}
	return wait
}

// due returns how long the request is put off; zero: it may be taken.
func (p *processor) due(id string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	d, ok := p.later[id]
	if !ok {
		return 0
	}
	return max(0, d.until.Sub(p.now()))
}

func (p *processor) inFlight() map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.flying)
}

func (p *processor) takeOff(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flying[id] = true
}

func (p *processor) land(id string) {
	p.mu.Lock()
	delete(p.flying, id)
	_, postponed := p.later[id]
	p.mu.Unlock()
	if postponed {
		poke(p.wake) // the timer must learn of it
	}
	p.settled()
}

// answer answers one request and makes sure that it is closed or put off.
func (p *processor) answer(ctx context.Context, item blastdoor.InboxItem) {
	var req request
	defer func() {
		if v := recover(); v != nil {
			ref := p.report(ctx, item, fmt.Errorf("panic: %v", v), "stack", string(debug.Stack()))
			p.settle(ctx, item, req, internalReply(ref))
		}
	}()
	if err := json.Unmarshal(item.Payload, &req); err != nil || req.Slash == nil && req.Click == nil {
		p.log.ErrorContext(ctx, "request closed unread", "item", item.ID, "kind", item.Kind, "err", err)
		p.settle(ctx, item, request{}, Message{})
		return
	}
	reply, done, err := p.do(ctx, item, req)
	if err != nil {
		reply, done = p.explain(ctx, item, err)
	}
	if !done {
		p.settle(ctx, item, req, reply)
	} else if err == nil {
		p.forget(item.ID)
	}
}

// explain turns an error into an answer, or puts the request off.
func (p *processor) explain(ctx context.Context, item blastdoor.InboxItem, err error) (reply Message, postponed bool) {
	if blastdoor.ErrNotPosted.Is(err) || blastdoor.ErrUnavailable.Is(err) {
		if p.postpone(item.ID) {
			p.log.InfoContext(ctx, "request put off", "item", item.ID, "err", err)
			return Message{}, true
		}
	}
	known, ok := errors.AsType[*blastdoor.Error](err)
	if !ok || known.Code == blastdoor.ErrIntegrity {
		return internalReply(p.report(ctx, item, err)), false
	}
	if known.Err != nil {
		p.log.WarnContext(ctx, "request refused", "item", item.ID, "err", err)
	}
	reply, composeErr := errorReply(known)
	if composeErr != nil {
		return internalReply(p.report(ctx, item, errors.Join(err, composeErr))), false
	}
	return reply, false
}

// postpone puts a request off with growing pauses; false when it has been put off
// for long enough.
func (p *processor) postpone(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	d := p.later[id]
	if d.tries == 0 {
		d.first = now
	}
	if now.Sub(d.first) >= p.timing.GiveUp {
		return false
	}
	d.until = now.Add(min(p.timing.Again<<min(d.tries, 4), 8*p.timing.Again))
	d.tries++
	p.later[id] = d
	return true
}

// hurry makes requests that were put off due now: a message may have found its
// address meanwhile.
func (p *processor) hurry() {
	p.mu.Lock()
	for id, d := range p.later {
		d.until = time.Time{}
		p.later[id] = d
	}
	p.mu.Unlock()
	poke(p.wake)
}

// settle closes a request with an answer to the person who made it; an empty
// message closes it without one.
func (p *processor) settle(ctx context.Context, item blastdoor.InboxItem, req request, reply Message) {
	var ds []blastdoor.Delivery
	if d, ok := replyTo(item, req, reply, p.now()); ok {
		ds = append(ds, d)
	}
	err := p.inbox.Settle(ctx, item.ID, ds)
	if err != nil && !blastdoor.ErrConflict.Is(err) { // a conflict: answered already
		p.log.ErrorContext(ctx, "closing a request", "item", item.ID, "err", err)
		p.mu.Lock()
		p.later[item.ID] = delay{first: p.now(), tries: 1, until: p.now().Add(p.timing.Again)}
		p.mu.Unlock()
		return
	}
	p.forget(item.ID)
}

func (p *processor) forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.later, id)
}

func replyTo(item blastdoor.InboxItem, req request, reply Message, now time.Time) (blastdoor.Delivery, bool) {
	if reply.Text == "" {
		return blastdoor.Delivery{}, false
	}
	body, err := json.Marshal(reply)
	if err != nil {
		body = json.RawMessage(`{"text":"Blast Door could not write its answer."}`)
	}
	d := blastdoor.Delivery{ID: "reply-" + item.ID, Kind: blastdoor.ReplyMsg, Urgent: true, Body: body, CreatedAt: now}
	switch {
	case req.Slash != nil:
		d.Channel, d.User, d.ResponseURL = req.Slash.Channel, req.Slash.UserID, req.Slash.ResponseURL
	case req.Click != nil:
		d.Channel, d.User, d.ResponseURL = req.Click.Channel, req.Click.UserID, req.Click.ResponseURL
	default:
		return blastdoor.Delivery{}, false
	}
	return d, true
}

// report logs an error under a short reference that a person can quote.
func (p *processor) report(ctx context.Context, item blastdoor.InboxItem, err error, more ...any) string {
	ref := reference()
	p.log.ErrorContext(ctx, "request failed", append([]any{"ref", ref, "item", item.ID, "kind", item.Kind, "err", err}, more...)...)
	return ref
}

func reference() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails since Go 1.24
	return hex.EncodeToString(b[:])
}
