package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"blastdoor"
)

const (
	deliverWorkers = 8
	// horizon is how far ahead the outbox is read, and so how often at least.
	horizon = 30 * time.Second
	// updatePause is the least time between two refreshes of one message.
	updatePause = time.Second
	// updatesPerMinute bounds refreshes that are not urgent. Slack allows about 50 a
	// minute for the workspace; the rest is kept for what is urgent.
	updatesPerMinute = 40
	// privateTTL is how long a private answer is worth delivering.
	privateTTL = 30 * time.Minute
	// responseTTL is how long a response_url is used; Slack honours it for 30 minutes.
	responseTTL = 25 * time.Minute
	// maxLooks is how many times a message is looked for before it is posted again.
	maxLooks = 4
)

// deliverer drains the outbox: one call at a time per method and channel, urgent
// first, the newest state of a card only, and never two posts for one delivery as
// far as Slack lets that be known.
type deliverer struct {
	web    *web
	outbox Outbox
	posts  Posts
	runs   Runs
	self   installation
	key    []byte // of the MAC
	now    func() time.Time
	log    *slog.Logger
	timing Timing
	wake   chan struct{}
	moved  func() // tells the processor that a message found its address

	// The fields below belong to the loop.
	flying  map[string]bool
	lanes   map[lane]*laneState
	memory  map[string]memory
	refresh []time.Time // when the latest refreshes were begun, oldest first
	landed  chan landing
}

func newDeliverer(o Options, w *web) *deliverer {
	return &deliverer{web: w, outbox: o.Outbox, posts: o.Posts, runs: o.Runs, key: o.MACKey, now: o.Now, log: o.Logger, timing: o.Timing,
		wake: make(chan struct{}, 1), flying: map[string]bool{}, lanes: map[lane]*laneState{}, memory: map[string]memory{}, landed: make(chan landing)}
}

// lane is what Slack limits together.
type lane struct{ method, channel string }

type laneState struct {
	busy  bool
	until time.Time // Slack asked to wait until then
}

// memory is what is known of a delivery besides its row; losing it at a restart
// costs at most some waiting.
type memory struct {
	looks     int       // how often it was looked for in vain
	fails     int       // in a row
	gone      bool      // its message was deleted: post it anew
	refreshed time.Time // when its message was last updated
}

// landing is the report of a worker.
type landing struct {
	id      string
	lane    lane
	memory  memory
	wait    time.Duration // how long Slack asked this lane to wait
	refresh bool          // a refresh was made
}

// run delivers until ctx ends, and then, for a bounded time, whatever can still be
// delivered at once; the rest is in the store and goes out at the next start. Calls
// under way are finished and cut only after that time: a cut post is one whose
// outcome is unknown.
func (d *deliverer) run(ctx context.Context) {
	work, cut := unhurried(ctx, d.timing.Stop)
	defer cut()
	var working sync.WaitGroup
	defer working.Wait()
	slots := make(chan struct{}, deliverWorkers)
	start := func(row blastdoor.OutboxRow, l lane, m memory) {
		working.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			out := d.deliver(work, row, m)
			out.id, out.lane = row.ID, l
			d.landed <- out
		})
	}
	stopped := ctx.Done()
	for {
		wait := d.turn(work, start)
		if stopped == nil && len(d.flying) == 0 {
			return
		}
		timer := time.NewTimer(wait)
		select {
		case <-stopped:
			stopped = nil
		case out := <-d.landed:
			d.land(out)
		case <-d.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// turn starts whatever may start now and returns how long nothing else will.
func (d *deliverer) turn(ctx context.Context, start func(blastdoor.OutboxRow, lane, memory)) time.Duration {
	now := d.now()
	d.forget(now)
	rows, err := d.outbox.PendingDeliveries(ctx, now.Add(horizon))
	if err != nil {
		if ctx.Err() == nil {
			d.log.ErrorContext(ctx, "reading the outbox", "err", err)
		}
		return d.timing.Again
	}
	wait := horizon
	for _, row := range rows {
		if d.flying[row.ID] {
			continue
		}
		l := d.laneOf(row)
		state := d.lanes[l]
		if state == nil {
			state = &laneState{}
			d.lanes[l] = state
		}
		if state.busy {
			continue
		}
		if due := d.due(row, state); due.After(now) {
			wait = min(wait, due.Sub(now))
			continue
		}
		d.flying[row.ID], state.busy = true, true
		if l.method == "chat.update" {
			// Counted when begun, or many begun at once would not see each other.
			d.refresh = append(d.refresh, now)
			d.refresh = d.refresh[max(0, len(d.refresh)-updatesPerMinute):]
		}
		start(row, l, d.memory[row.ID])
	}
	return max(wait, time.Millisecond)
}

// forget drops what can no longer delay anything.
func (d *deliverer) forget(now time.Time) {
	for l, state := range d.lanes {
		if !state.busy && !state.until.After(now) {
			delete(d.lanes, l)
		}
	}
	for id, m := range d.memory {
		if m == (memory{refreshed: m.refreshed}) && now.Sub(m.refreshed) > updatePause {
			delete(d.memory, id)
		}
	}
}

// laneOf says which of Slack's limits a delivery falls under. Refreshes share one
// limit in the whole workspace, posts have one for each channel.
// Source: https://docs.slack.dev/apis/web-api/rate-limits
func (d *deliverer) laneOf(row blastdoor.OutboxRow) lane {
	switch {
	case row.User != "":
		return lane{"private", row.Channel + "/" + row.User}
	case row.TS != "" && !d.memory[row.ID].gone:
		return lane{"chat.update", row.Channel}
	default:
		return lane{"chat.postMessage", row.Channel}
	}
}

// due is the earliest instant at which the delivery may start.
func (d *deliverer) due(row blastdoor.OutboxRow, state *laneState) time.Time {
	due := latest(row.NotBefore, state.until)
	if row.TS == "" || row.User != "" {
		return due
	}
	due = latest(due, d.lanes[lane{"chat.update", ""}].after())
	if row.Urgent {
		return due
	}
	if n := len(d.refresh); n >= updatesPerMinute {
		due = latest(due, d.refresh[n-updatesPerMinute].Add(time.Minute))
	}
	return latest(due, d.memory[row.ID].refreshed.Add(updatePause))
}

func (s *laneState) after() time.Time {
	if s == nil {
		return time.Time{}
	}
	return s.until
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// land takes in a worker's report.
func (d *deliverer) land(out landing) {
	now := d.now()
	delete(d.flying, out.id)
	d.lanes[out.lane].busy = false
	if out.wait > 0 {
		d.lanes[out.lane].until = now.Add(out.wait)
		if out.lane.method == "chat.update" { // limited for the workspace, not the channel
			d.lanes[lane{"chat.update", ""}] = &laneState{until: now.Add(out.wait)}
		}
	}
	if out.refresh {
		out.memory.refreshed = now
	}
	if out.memory == (memory{}) {
		delete(d.memory, out.id)
	} else {
		d.memory[out.id] = out.memory
	}
	d.moved()
}

// deliver makes one attempt at one delivery. A panic costs this attempt only.
func (d *deliverer) deliver(ctx context.Context, row blastdoor.OutboxRow, m memory) (out landing) {
	defer func() {
		if p := recover(); p != nil {
			d.log.ErrorContext(ctx, "delivering panicked", "delivery", row.ID, "panic", p)
			out = d.again(ctx, row, m, fmt.Errorf("panic: %v", p), true)
		}
	}()
	if row.User != "" {
		return d.private(ctx, row, m)
	}
	shown, seen, err := d.render(ctx, row)
	if err != nil {
		if blastdoor.ErrNotFound.Is(err) {
			return d.drop(ctx, row, m, "the run does not exist")
		}
		return d.again(ctx, row, m, err, !row.AttemptAt.IsZero())
	}
	if row.TS != "" && !m.gone {
		return d.update(ctx, row, m, shown, seen)
	}
	return d.post(ctx, row, m, shown, seen)
}

// render makes the message of a delivery from the store, and says how much of the
// run's history it shows.
func (d *deliverer) render(ctx context.Context, row blastdoor.OutboxRow) (Message, int, error) {
	switch row.Kind {
	case blastdoor.ReplyMsg:
		var m Message
		if err := json.Unmarshal(row.Body, &m); err != nil {
			return Message{}, 0, fmt.Errorf("reading the body of %s: %w", row.ID, err)
		}
		return m, row.Want, m.check()
	case blastdoor.NoticeMsg:
		if row.Notice == nil {
			return Message{}, 0, fmt.Errorf("reading notice %s: it is empty", row.ID)
		}
		m, err := noticeMessage(*row.Notice)
		return m, row.Want, err
	}
	run, err := d.runs.Run(ctx, row.RunID)
	if err != nil {
		return Message{}, 0, fmt.Errorf("reading run %s: %w", row.RunID, err)
	}
	m, err := renderCard(&run, row)
	if err != nil {
		// A card that cannot be shown is never left out: a small one says so.
		d.log.ErrorContext(ctx, "rendering a card", "delivery", row.ID, "run", row.RunID, "err", err)
		m = fallbackCard(&run)
	}
	return m, run.Len, nil
}

func renderCard(run *blastdoor.Run, row blastdoor.OutboxRow) (Message, error) {
	switch row.Kind {
	case blastdoor.RunCard:
		return runCard(run)
	case blastdoor.DryRunCard:
		return dryRunCard(run, row.StepID, row.PlanNo)
	case blastdoor.RadiusList:
		return radiusList(run, row.StepID, row.PlanNo)
	case blastdoor.OutcomeNote:
		return outcomeNote(run)
	}
	return Message{}, fmt.Errorf("rendering %s: unknown kind %q", row.ID, row.Kind)
}

// done records a delivery.
func (d *deliverer) done(ctx context.Context, row blastdoor.OutboxRow, m memory, ts string, seen int, refreshed bool) landing {
	if err := d.outbox.Delivered(ctx, row.ID, ts, seen); err != nil {
		// The attempt stays open, so the message is looked for and not posted again.
		d.log.ErrorContext(ctx, "recording a delivery", "delivery", row.ID, "err", err)
		m.fails++
		return landing{memory: m, wait: d.timing.Again}
	}
	return landing{memory: memory{refreshed: m.refreshed}, refresh: refreshed}
}

// again puts a delivery off with growing pauses.
func (d *deliverer) again(ctx context.Context, row blastdoor.OutboxRow, m memory, cause error, keepDoubt bool) landing {
	pause := min(d.timing.Again<<min(m.fails, 6), time.Minute)
	m.fails++
	d.log.WarnContext(ctx, "delivery put off", "delivery", row.ID, "kind", row.Kind, "pause", pause, "err", cause)
	return d.retry(ctx, row, m, pause, cause.Error(), keepDoubt)
}

// retry records that the delivery is put off. When even that fails its lane pauses
// in its place, so that a broken store does not make a busy loop.
func (d *deliverer) retry(ctx context.Context, row blastdoor.OutboxRow, m memory, pause time.Duration, reason string, keepDoubt bool) landing {
	if err := d.outbox.Retry(ctx, row.ID, d.now().Add(pause), cut(reason, 300), keepDoubt); err != nil {
		d.log.ErrorContext(ctx, "putting off a delivery", "delivery", row.ID, "err", err)
		return landing{memory: m, wait: max(pause, d.timing.Again)}
	}
	return landing{memory: m}
}

// throttled puts a delivery off for as long as Slack asks, and its lane with it.
func (d *deliverer) throttled(ctx context.Context, row blastdoor.OutboxRow, m memory, wait time.Duration, word string) landing {
	d.log.InfoContext(ctx, "Slack asks to wait", "delivery", row.ID, "wait", wait)
	out := d.retry(ctx, row, m, wait, word, false)
	out.wait = max(out.wait, wait)
	return out
}

// drop gives a delivery up, with its reason in the store and in the log.
func (d *deliverer) drop(ctx context.Context, row blastdoor.OutboxRow, m memory, reason string) landing {
	d.log.ErrorContext(ctx, "delivery dropped", "delivery", row.ID, "kind", row.Kind, "run", row.RunID, "channel", row.Channel, "reason", reason)
	if err := d.outbox.Drop(ctx, row.ID, reason); err != nil {
		d.log.ErrorContext(ctx, "dropping a delivery", "delivery", row.ID, "err", err)
		return landing{memory: m, wait: d.timing.Again}
	}
	return landing{}
}
