//go:build crashpoints

package app

import (
	"context"
	"sync"
	"time"

	"blastdoor"
	"blastdoor/chat"
	"blastdoor/engine"
)

// crashingEnvironment has points around the write itself.
type crashingEnvironment struct {
	engine.Environment
	c *crasher
}

func (e crashingEnvironment) Apply(ctx context.Context, key string, plan blastdoor.Plan) (blastdoor.Receipt, error) {
	e.c.at("before_effect", plan.StepID)
	receipt, err := e.Environment.Apply(ctx, key, plan)
	if err == nil {
		e.c.at("after_effect", plan.StepID)
	}
	return receipt, err
}

// crashingJournal has points around each commit, named after its event.
type crashingJournal struct {
	engine.Journal
	c *crasher
}

func (j crashingJournal) Begin(ctx context.Context, sourceID string, c blastdoor.Commit) (string, bool, error) {
	j.around("before_", c)
	id, fresh, err := j.Journal.Begin(ctx, sourceID, c)
	if err == nil {
		j.around("after_", c)
	}
	return id, fresh, err
}

func (j crashingJournal) Commit(ctx context.Context, c blastdoor.Commit) error {
	j.around("before_", c)
	err := j.Journal.Commit(ctx, c)
	if err == nil {
		j.around("after_", c)
	}
	return err
}

func (j crashingJournal) around(side string, c blastdoor.Commit) {
	for _, e := range c.Events {
		subject := e.Step
		if subject == "" {
			subject = "run"
		}
		j.c.at(side+wordFor(e.Body.Kind()), subject)
	}
}

// wordFor is the short name of a commit in the names of its points.
func wordFor(kind blastdoor.EventKind) string {
	switch kind {
	case blastdoor.StepProposedKind:
		return "proposal"
	case blastdoor.PlanMadeKind:
		return "plan"
	case blastdoor.VerdictGivenKind:
		return "verdict"
	case blastdoor.ApprovalRequestedKind:
		return "ask"
	case blastdoor.ApprovalGrantedKind:
		return "approval"
	case blastdoor.ApprovalRefusedKind:
		return "refusal"
	case blastdoor.ApplyIntendedKind:
		return "intent"
	case blastdoor.AppliedKind, blastdoor.ObservedKind:
		return "outcome"
	case blastdoor.RunEndedKind:
		return "end"
	}
	return string(kind)
}

// crashingInbox has points around the storing of an envelope and its ack, and
// around the answer to a request that moves no run.
type crashingInbox struct {
	chat.Inbox
	c *crasher
}

func (i crashingInbox) Accept(ctx context.Context, item blastdoor.InboxItem) (bool, error) {
	subject := "command"
	if item.Kind == "interactive" {
		subject = "click"
	}
	i.c.at("before_inbox", subject)
	fresh, err := i.Inbox.Accept(ctx, item)
	if err == nil {
		i.c.at("before_ack", subject)
		// The ack itself is not a call of a port: the process is held instead, and
		// killed by whoever receives the ack.
		i.c.hold("after_ack", subject)
	}
	return fresh, err
}

func (i crashingInbox) PendingInbox(ctx context.Context) ([]blastdoor.InboxItem, error) {
	i.c.gate()
	return i.Inbox.PendingInbox(ctx)
}

func (i crashingInbox) Settle(ctx context.Context, id string, deliveries []blastdoor.Delivery) error {
	i.c.at("before_settle", "request")
	err := i.Inbox.Settle(ctx, id, deliveries)
	if err == nil {
		i.c.at("after_settle", "request")
	}
	return err
}

// crashingOutbox has points around the attempt to post, the call to Slack, and the
// record of it.
type crashingOutbox struct {
	chat.Outbox
	c *crasher

	mu   sync.Mutex
	rows map[string]*outboxRow // by delivery
}

// outboxRow is what this process knows of a delivery.
type outboxRow struct {
	subject  string
	private  bool
	inSlack  bool // its address is known
	attempts int  // posts begun and not recorded
}

func (o *crashingOutbox) PendingDeliveries(ctx context.Context, until time.Time) ([]blastdoor.OutboxRow, error) {
	o.c.gate()
	rows, err := o.Outbox.PendingDeliveries(ctx, until)
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, row := range rows {
		known := o.rows[row.ID]
		if known == nil {
			known = &outboxRow{subject: subjectOf(row), private: row.User != ""}
			o.rows[row.ID] = known
		}
		known.inSlack = known.inSlack || row.TS != ""
	}
	return rows, err
}

func subjectOf(row blastdoor.OutboxRow) string {
	if row.StepID != "" {
		return row.StepID
	}
	return string(row.Kind)
}

func (o *crashingOutbox) BeginAttempt(ctx context.Context, id string, at time.Time) error {
	o.mu.Lock()
	row := o.rows[id]
	row.attempts++
	o.mu.Unlock()
	o.c.at("before_attempt", row.subject)
	err := o.Outbox.BeginAttempt(ctx, id, at)
	if err == nil {
		o.c.at("before_post", row.subject)
	}
	return err
}

func (o *crashingOutbox) Delivered(ctx context.Context, id, ts string, sent int) error {
	subject, what := o.recordOf(id)
	o.c.at("after_"+what+"_before_record", subject)
	err := o.Outbox.Delivered(ctx, id, ts, sent)
	if err == nil {
		o.c.at("after_"+what+"_record", subject)
	}
	return err
}

// recordOf says what a record is of: an adoption is a message of an earlier process
// that was found in the channel.
func (o *crashingOutbox) recordOf(id string) (subject, what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	row := o.rows[id]
	switch {
	case row.private:
		what = "reply"
	case row.attempts > 0:
		what = "post"
	case row.inSlack:
		what = "update"
	default:
		what = "adoption"
	}
	row.inSlack, row.attempts = true, 0
	return row.subject, what
}
