package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"blastdoor"
)

func boardChecks() []Check {
	return []Check{
		{Name: "InFlight must return the live intents of all runs", Run: checkInFlight},
		{Name: "Posted must say ErrNotPosted, then the address, and ErrNotFound for no such delivery", Run: checkPosted},
		{Name: "Settle must fail with ErrConflict the second time and add nothing", Run: checkSettle},
	}
}

func inboxChecks() []Check {
	return []Check{
		{Name: "Accept must be durable on return", Mailbox: true, Durable: true, Run: checkAcceptDurable},
		{Name: "Accept must know an envelope again, settled or not", Mailbox: true, Run: checkAcceptAgain},
		{Name: "Accept must lose and double nothing when 200 come at once", Mailbox: true, Run: checkAcceptAtOnce},
		{Name: "PendingInbox must return what is not settled, the oldest first", Mailbox: true, Run: checkPendingInbox},
		{Name: "Commit must settle the envelope that it answers", Mailbox: true, Run: checkCommitSettles},
	}
}

func checkInFlight(ctx context.Context, h Harness) error {
	one, err1 := begun(ctx, h, "r1")
	two, err2 := begun(ctx, h, "r2")
	_, err3 := begun(ctx, h, "r3")
	err := first(err1, err2, err3, h.Journal.Commit(ctx, Fly(Follow(one, observed()), "db", "cache")),
		h.Journal.Commit(ctx, Fly(Follow(two, observed()), "web")))
	if err != nil {
		return err
	}
	flights, err := h.Board.InFlight(ctx)
	if err != nil {
		return err
	}
	if len(flights) != 2 || flights[0].RunID != "r1" || flights[1].RunID != "r2" || flights[0].StepID != "drain" ||
		!slices.Equal(flights[0].Targets, []string{"db", "cache"}) || !slices.Equal(flights[0].Affected, []string{"api", "web"}) {
		return fmt.Errorf("the flights are %+v", flights)
	}
	return nil
}

func checkPosted(ctx context.Context, h Harness) error {
	c := Begin("r1", "src-r1")
	c.Deliveries = []blastdoor.Delivery{Card("r1", 1)}
	if _, _, err := h.Journal.Begin(ctx, "src-r1", c); err != nil {
		return err
	}
	_, notPosted := h.Board.Posted(ctx, "card-r1")
	_, unknown := h.Board.Posted(ctx, "card-r9")
	err := first(wantCode("a message that is due", notPosted, blastdoor.ErrNotPosted),
		wantCode("a message that is not", unknown, blastdoor.ErrNotFound), h.Post(ctx, "card-r1"))
	if err != nil {
		return err
	}
	ref, err := h.Board.Posted(ctx, "card-r1")
	if err == nil && (ref.Channel != "C1" || ref.TS == "") {
		err = fmt.Errorf("a posted message is at %+v", ref)
	}
	return err
}

func checkSettle(ctx context.Context, h Harness) error {
	reply := func(id string) []blastdoor.Delivery {
		return []blastdoor.Delivery{{ID: id, Kind: blastdoor.ReplyMsg, Channel: "C1", User: "UALICE", Body: []byte(`{"text":"hello"}`), CreatedAt: start()}}
	}
	if err := first(accepted(ctx, h, "click"), h.Board.Settle(ctx, "click", reply("reply-1"))); err != nil {
		return err
	}
	again := h.Board.Settle(ctx, "click", reply("reply-2"))
	_, firstReply := h.Board.Posted(ctx, "reply-1")
	_, secondReply := h.Board.Posted(ctx, "reply-2")
	return first(wantCode("settling twice", again, blastdoor.ErrConflict),
		wantCode("the first answer", firstReply, blastdoor.ErrNotPosted),
		wantCode("the second answer", secondReply, blastdoor.ErrNotFound))
}

func checkAcceptDurable(ctx context.Context, h Harness) error {
	item := blastdoor.InboxItem{ID: "slash-1", Kind: "slash_commands", Payload: []byte(`{"text": "run  drain"}`), ReceivedAt: start()}
	isNew, err := h.Inbox.Accept(ctx, item)
	if err != nil {
		return err
	}
	h, err = h.Reopen(ctx)
	if err != nil {
		return err
	}
	items, err := h.Inbox.PendingInbox(ctx)
	if err != nil {
		return err
	}
	if !isNew || len(items) != 1 || items[0].ID != item.ID || items[0].Kind != item.Kind ||
		string(items[0].Payload) != string(item.Payload) || !items[0].ReceivedAt.Equal(item.ReceivedAt) {
		return fmt.Errorf("an accepted envelope (new: %t) came back as %+v", isNew, items)
	}
	return nil
}

func checkAcceptAgain(ctx context.Context, h Harness) error {
	item := blastdoor.InboxItem{ID: "slash-1", Kind: "slash_commands", ReceivedAt: start()}
	one, err1 := h.Inbox.Accept(ctx, item)
	two, err2 := h.Inbox.Accept(ctx, item)
	err3 := h.Board.Settle(ctx, "slash-1", nil)
	three, err4 := h.Inbox.Accept(ctx, item)
	if err := first(err1, err2, err3, err4); err != nil {
		return err
	}
	if !one || two || three {
		return fmt.Errorf("an envelope that came three times was new: %t, %t, and after settling %t", one, two, three)
	}
	items, err := h.Inbox.PendingInbox(ctx)
	if err == nil && len(items) != 0 {
		err = fmt.Errorf("a settled envelope is pending again: %+v", items)
	}
	return err
}

func checkAcceptAtOnce(ctx context.Context, h Harness) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	fresh := 0
	var failed error
	for i := range 400 { // each of 200 comes twice
		wg.Go(func() {
			isNew, err := h.Inbox.Accept(ctx, blastdoor.InboxItem{ID: fmt.Sprintf("e%d", i%200), Kind: "interactive",
				Payload: []byte(`{}`), ReceivedAt: start()})
			mu.Lock()
			defer mu.Unlock()
			if isNew {
				fresh++
			}
			failed = errors.Join(failed, err)
		})
	}
	wg.Wait()
	items, err := h.Inbox.PendingInbox(ctx)
	if err := first(failed, err); err != nil {
		return err
	}
	if fresh != 200 || len(items) != 200 {
		return fmt.Errorf("of 200 envelopes %d were new and %d are pending", fresh, len(items))
	}
	return nil
}

func checkPendingInbox(ctx context.Context, h Harness) error {
	for _, id := range []string{"z", "a", "m"} {
		if err := accepted(ctx, h, id); err != nil {
			return err
		}
	}
	if err := h.Board.Settle(ctx, "a", nil); err != nil {
		return err
	}
	items, err := h.Inbox.PendingInbox(ctx)
	if err != nil {
		return err
	}
	if len(items) != 2 || items[0].ID != "z" || items[1].ID != "m" {
		return fmt.Errorf("pending are %+v, want z and m", items)
	}
	return nil
}

func checkCommitSettles(ctx context.Context, h Harness) error {
	c := Begin("r1", "src-r1")
	c.Settles = "slash-1"
	next := Follow(c, observed())
	next.Settles = "click"
	if err := first(accepted(ctx, h, "slash-1"), accepted(ctx, h, "click")); err != nil {
		return err
	}
	if _, _, err := h.Journal.Begin(ctx, "src-r1", c); err != nil {
		return err
	}
	items, err := h.Inbox.PendingInbox(ctx)
	if err != nil || len(items) != 1 || items[0].ID != "click" {
		return fmt.Errorf("after Begin pending are %+v: %w", items, err)
	}
	if err := h.Journal.Commit(ctx, next); err != nil {
		return err
	}
	if items, err = h.Inbox.PendingInbox(ctx); err != nil || len(items) != 0 {
		return fmt.Errorf("after Commit pending are %+v: %w", items, err)
	}
	return nil
}

func outboxChecks() []Check {
	return []Check{
		{Name: "A refresh must raise what is wanted, never lower it, and keep the address", Mailbox: true, Run: checkRefresh},
		{Name: "PendingDeliveries must return the urgent first, then the oldest", Mailbox: true, Run: checkOrder},
		{Name: "A message in a thread must wait for the one it hangs under", Mailbox: true, Run: checkThread},
		{Name: "BeginAttempt must be durable on return", Mailbox: true, Durable: true, Run: checkAttempt},
		{Name: "Delivered must close the attempt and be found by its address", Mailbox: true, Run: checkDelivered},
		{Name: "Retry must wait, and keep the attempt open only in doubt", Mailbox: true, Run: checkRetry},
		{Name: "Drop must never be delivered and never be lost", Mailbox: true, Run: checkDrop},
		{Name: "Delivery must return everything that was to be delivered", Mailbox: true, Run: checkDelivery},
	}
}

// queue settles a new envelope with deliveries.
func queue(ctx context.Context, h Harness, deliveries ...blastdoor.Delivery) error {
	id := "for-" + deliveries[0].ID + fmt.Sprint(deliveries[0].Want)
	return first(accepted(ctx, h, id), h.Board.Settle(ctx, id, deliveries))
}

// wantPending says whether exactly these messages are due.
func wantPending(ctx context.Context, h Harness, now time.Time, ids ...string) error {
	rows, err := h.Outbox.PendingDeliveries(ctx, now)
	if err != nil {
		return err
	}
	var got []string
	for _, row := range rows {
		got = append(got, row.ID)
	}
	if !slices.Equal(got, ids) {
		return fmt.Errorf("due are %v, want %v", got, ids)
	}
	return nil
}

func checkRefresh(ctx context.Context, h Harness) error {
	higher, lower := Card("r1", 5), Card("r1", 2)
	err := first(queue(ctx, h, Card("r1", 3)), h.Outbox.Delivered(ctx, "card-r1", "17.1", 3), wantPending(ctx, h, start()),
		queue(ctx, h, lower), wantPending(ctx, h, start()), queue(ctx, h, higher), wantPending(ctx, h, start(), "card-r1"))
	if err != nil {
		return err
	}
	row, err := h.Messages.Delivery(ctx, "card-r1")
	if err == nil && (row.Want != 5 || row.TS != "17.1" || row.Sent != 3) {
		err = fmt.Errorf("after a refresh to 5 the row is %+v", row)
	}
	return err
}

func checkOrder(ctx context.Context, h Harness) error {
	urgent := Card("r3", 1)
	urgent.Urgent = true
	return first(queue(ctx, h, Card("r2", 1)), queue(ctx, h, Card("r1", 1)), queue(ctx, h, urgent),
		wantPending(ctx, h, start(), "card-r3", "card-r2", "card-r1"))
}

func checkThread(ctx context.Context, h Harness) error {
	child := blastdoor.Delivery{ID: "list", Kind: blastdoor.RadiusList, Channel: "C1", Thread: "card-r1", Urgent: true, CreatedAt: start()}
	return first(queue(ctx, h, child), queue(ctx, h, Card("r1", 1)), wantPending(ctx, h, start(), "card-r1"),
		h.Outbox.Delivered(ctx, "card-r1", "17.1", 1), wantPending(ctx, h, start(), "list"))
}

func checkAttempt(ctx context.Context, h Harness) error {
	at := start().Add(time.Minute)
	if err := first(queue(ctx, h, Card("r1", 1)), h.Outbox.BeginAttempt(ctx, "card-r1", at)); err != nil {
		return err
	}
	h, err := h.Reopen(ctx)
	if err != nil {
		return err
	}
	row, err := h.Messages.Delivery(ctx, "card-r1")
	if err == nil && (!row.AttemptAt.Equal(at) || row.Attempts != 1 || row.TS != "") {
		err = fmt.Errorf("after a crash in an attempt the row is %+v", row)
	}
	return first(err, wantPending(ctx, h, at, "card-r1"),
		wantCode("an attempt of no message", h.Outbox.BeginAttempt(ctx, "ghost", at), blastdoor.ErrNotFound))
}

func checkDelivered(ctx context.Context, h Harness) error {
	private := blastdoor.Delivery{ID: "note", Kind: blastdoor.NoticeMsg, Channel: "C1", User: "UALICE",
		Notice: &blastdoor.Notice{Code: "expired"}, ResponseURL: "https://hooks.example/secret", CreatedAt: start()}
	err := first(queue(ctx, h, Card("r1", 1)), h.Outbox.BeginAttempt(ctx, "card-r1", start()),
		h.Outbox.Delivered(ctx, "card-r1", "17.1", 1), queue(ctx, h, private), h.Outbox.Delivered(ctx, "note", "", 0),
		wantPending(ctx, h, start()))
	if err != nil {
		return err
	}
	row, err := h.Messages.FindMessage(ctx, blastdoor.MessageRef{Channel: "C1", TS: "17.1"})
	if err != nil || row.ID != "card-r1" || !row.AttemptAt.IsZero() || row.Attempts != 0 {
		return fmt.Errorf("the message at its address is %+v: %w", row, err)
	}
	secret, err := h.Messages.Delivery(ctx, "note")
	if err != nil || secret.TS == "" || secret.ResponseURL != "" {
		return fmt.Errorf("a delivered private message is %+v: %w", secret, err)
	}
	_, elsewhere := h.Messages.FindMessage(ctx, blastdoor.MessageRef{Channel: "C2", TS: "17.1"})
	return wantCode("a message elsewhere", elsewhere, blastdoor.ErrNotFound)
}

func checkRetry(ctx context.Context, h Harness) error {
	later := start().Add(time.Minute)
	if _, due, err := h.Messages.NextDeliveryAt(ctx); err != nil || due {
		return fmt.Errorf("an empty outbox has something due: %w", err)
	}
	err := first(queue(ctx, h, Card("r1", 1)), h.Outbox.BeginAttempt(ctx, "card-r1", start()),
		h.Outbox.Retry(ctx, "card-r1", later, "ratelimited", true), wantPending(ctx, h, later.Add(-1)), wantPending(ctx, h, later, "card-r1"))
	if err != nil {
		return err
	}
	next, due, err := h.Messages.NextDeliveryAt(ctx)
	if err != nil || !due || !next.Equal(later) {
		return fmt.Errorf("the next delivery is due %t at %v, want %v: %w", due, next, later, err)
	}
	doubt, err := h.Messages.Delivery(ctx, "card-r1")
	if err != nil || doubt.AttemptAt.IsZero() {
		return fmt.Errorf("a retry in doubt closed the attempt: %+v: %w", doubt, err)
	}
	if err := h.Outbox.Retry(ctx, "card-r1", later, "ratelimited", false); err != nil {
		return err
	}
	sure, err := h.Messages.Delivery(ctx, "card-r1")
	if err != nil || !sure.AttemptAt.IsZero() || sure.Attempts != 1 {
		return fmt.Errorf("a retry without doubt left the attempt open: %+v: %w", sure, err)
	}
	return nil
}

func checkDrop(ctx context.Context, h Harness) error {
	child := blastdoor.Delivery{ID: "list", Kind: blastdoor.RadiusList, Channel: "C1", Thread: "card-r1", CreatedAt: start()}
	late := child
	late.ID = "late"
	err := first(queue(ctx, h, Card("r1", 1), child), h.Outbox.Drop(ctx, "card-r1", "channel_not_found"),
		queue(ctx, h, Card("r1", 9), late), wantPending(ctx, h, start().Add(time.Hour)),
		wantCode("an attempt of a dropped message", h.Outbox.BeginAttempt(ctx, "card-r1", start()), blastdoor.ErrNotFound))
	if err != nil {
		return err
	}
	if _, err := h.Messages.Delivery(ctx, "card-r1"); err != nil {
		return fmt.Errorf("a dropped message is lost: %w", err)
	}
	if _, due, err := h.Messages.NextDeliveryAt(ctx); err != nil || due {
		return fmt.Errorf("a dropped message, or one in its thread, is due: %w", err)
	}
	_, err = h.Board.Posted(ctx, "card-r1")
	return wantCode("the address of a dropped message", err, blastdoor.ErrNotFound)
}

func checkDelivery(ctx context.Context, h Harness) error {
	want := blastdoor.Delivery{ID: "d1", RunID: "r1", Kind: blastdoor.ReplyMsg, StepID: "drain", PlanNo: 2, Channel: "C1", User: "UALICE",
		Want: 4, Urgent: true, Notice: &blastdoor.Notice{Code: "expired", RunID: "r1", Detail: "late"},
		Body: []byte(`{"text":"hello"}`), ResponseURL: "https://hooks.example/secret", CreatedAt: start()}
	if err := queue(ctx, h, want); err != nil {
		return err
	}
	got, err := h.Messages.Delivery(ctx, "d1")
	if err != nil {
		return err
	}
	if fmt.Sprintf("%+v %+v", got.Notice, strip(got.Delivery)) != fmt.Sprintf("%+v %+v", want.Notice, strip(want)) {
		return fmt.Errorf("a delivery came back as %+v, want %+v", got.Delivery, want)
	}
	_, err = h.Messages.Delivery(ctx, "ghost")
	return wantCode("no delivery", err, blastdoor.ErrNotFound)
}

// strip takes out the pointer, which prints as an address.
func strip(d blastdoor.Delivery) blastdoor.Delivery {
	d.Notice = nil
	return d
}
