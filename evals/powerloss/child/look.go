package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"blastdoor"
	"blastdoor/engine"
	"blastdoor/evals/powerloss/promise"
	"blastdoor/store"
)

// look holds what is there after a start against what was promised, and against
// itself: the chains, the tree with every head that was signed, and the properties
// of the engine with the world's ledger.
func (b *bot) look(ctx context.Context, book *promise.Book) ([]promise.Broken, error) {
	l := &looker{bot: b}
	if err := l.read(ctx); err != nil {
		return nil, err
	}
	for i := range book.Promises {
		if err := l.hold(ctx, &book.Promises[i]); err != nil {
			return nil, err
		}
	}
	return l.found, l.verify(ctx, book.Notes(), false)
}

// ready says so, once everything is quiet and every run has come to its end as it
// should.
func (b *bot) ready(ctx context.Context) error {
	l := &looker{bot: b}
	if err := errors.Join(l.read(ctx), l.verify(ctx, nil, true)); err != nil {
		return err
	}
	if len(l.found) > 0 {
		return fmt.Errorf("after everything was finished: %s", l.found[0].What)
	}
	return b.out.Write(promise.Report{Ready: true})
}

// looker is one look.
type looker struct {
	bot     *bot
	pending map[string]bool // envelopes without an answer
	ledger  []string        // keys of effects
	found   []promise.Broken
}

func (l *looker) read(ctx context.Context) error {
	l.pending = map[string]bool{}
	items, err := l.bot.journal.PendingInbox(ctx)
	if err != nil {
		return err
	}
	for _, item := range items {
		l.pending[item.ID] = true
	}
	effects, err := l.bot.env.Ledger(ctx)
	for _, e := range effects {
		l.ledger = append(l.ledger, e.Key)
	}
	return err
}

func (l *looker) lost(format string, args ...any) {
	l.found = append(l.found, promise.Broken{Lost: true, What: fmt.Sprintf(format, args...)})
}

func (l *looker) wrong(format string, args ...any) {
	l.found = append(l.found, promise.Broken{What: fmt.Sprintf(format, args...)})
}

// hold looks for what one promise is about. Signed heads are anchors of the
// verification.
func (l *looker) hold(ctx context.Context, p *promise.Promise) error {
	switch p.Kind {
	case promise.Committed:
		return l.holdRun(ctx, p)
	case promise.Applied:
		if !slices.Contains(l.ledger, p.ID) {
			l.lost("the effect under key %s", p.ID)
		}
	case promise.Accepted:
		if l.pending[p.ID] {
			return nil
		}
		// Slack sends it again: the log must know it.
		isNew, err := l.bot.journal.Accept(ctx, blastdoor.InboxItem{ID: p.ID, Kind: "again", ReceivedAt: time.Now()})
		if err != nil {
			return err
		}
		if isNew {
			l.lost("envelope %s", p.ID)
		}
	case promise.Attempted, promise.Delivered:
		return l.holdDelivery(ctx, p)
	}
	return nil
}

func (l *looker) holdDelivery(ctx context.Context, p *promise.Promise) error {
	row, err := l.bot.journal.Delivery(ctx, p.ID)
	switch {
	case blastdoor.ErrNotFound.Is(err):
		l.lost("delivery %s", p.ID)
	case err != nil:
		return err
	case p.Kind == promise.Delivered && row.TS != p.TS:
		l.lost("the address %s of delivery %s, which has %q", p.TS, p.ID, row.TS)
	case p.Kind == promise.Attempted && row.AttemptAt.IsZero() && row.TS == "":
		l.lost("the attempt at delivery %s", p.ID)
	}
	return nil
}

func (l *looker) holdRun(ctx context.Context, p *promise.Promise) error {
	shown, err := l.bot.journal.Show(ctx, p.ID)
	switch {
	case blastdoor.ErrNotFound.Is(err):
		l.lost("run %s, %d events", p.ID, p.Len)
		return nil
	case err != nil:
		return err
	case len(shown) < p.Len:
		l.lost("run %s: %d events were promised, there are %d", p.ID, p.Len, len(shown))
	case shown[p.Len-1].ChainHash != p.Hash:
		l.wrong("run %s: event %d is another one than was promised", p.ID, p.Len)
	}
	if p.Settles != "" && l.pending[p.Settles] {
		l.lost("the answer to envelope %s, which run %s settled", p.Settles, p.ID)
	}
	return nil
}

// verify holds the log against itself and against heads that were kept elsewhere,
// and everything against the properties of the engine.
func (l *looker) verify(ctx context.Context, anchors []string, quiet bool) error {
	report, err := l.bot.journal.Verify(ctx, store.AuditOptions{Anchors: anchors})
	if err != nil {
		return err
	}
	for _, finding := range report.Findings {
		l.wrong("%s", finding)
	}
	if len(report.Findings) > 0 {
		return nil // properties of a log that does not verify mean nothing
	}
	evidence, err := l.evidence(ctx)
	if err != nil {
		return err
	}
	evidence.Quiet = quiet
	for _, violation := range engine.CheckProperties(evidence) {
		l.wrong("%s", violation)
	}
	if quiet {
		l.completed(evidence.Projections)
	}
	return nil
}

// completed looks for runs that have not come to the end that they should.
func (l *looker) completed(projections map[string]blastdoor.Projection) {
	for id, p := range projections {
		if p.Run.Status != string(blastdoor.RunCompleted) {
			l.wrong("run %s is %s", id, p.Run.Status)
		}
	}
	if len(l.ledger) != len(projections) {
		l.wrong("%d runs are completed, and there are %d effects", len(projections), len(l.ledger))
	}
	for id := range l.pending {
		l.wrong("envelope %s has no answer", id)
	}
}

func (l *looker) evidence(ctx context.Context) (engine.Evidence, error) {
	e := engine.Evidence{Ledger: l.ledger, Projections: map[string]blastdoor.Projection{}, Policies: map[string]blastdoor.Policy{}}
	var shown []store.ShownEvent
	for p, err := range l.bot.journal.Projections(ctx) {
		if err != nil {
			return e, err
		}
		history, err := l.bot.journal.Show(ctx, p.Run.ID)
		if err != nil {
			return e, err
		}
		e.Projections[p.Run.ID] = p
		shown = append(shown, history...)
	}
	slices.SortFunc(shown, func(a, b store.ShownEvent) int { return cmp.Compare(a.Leaf, b.Leaf) })
	for _, s := range shown {
		e.History = append(e.History, s.Event)
		for _, digest := range engine.PolicyDigests(s.Event.Body) {
			if err := l.policy(ctx, digest, e.Policies); err != nil {
				return e, err
			}
		}
	}
	return e, nil
}

func (l *looker) policy(ctx context.Context, digest string, into map[string]blastdoor.Policy) error {
	if _, known := into[digest]; known {
		return nil
	}
	body, err := l.bot.journal.Document(ctx, digest)
	if err != nil {
		return fmt.Errorf("reading a policy: %w", err)
	}
	into[digest], err = engine.ParsePolicy(body)
	return err
}
