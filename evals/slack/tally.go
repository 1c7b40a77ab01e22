package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"blastdoor/chat/slacksim"
	"blastdoor/engine"
	"blastdoor/internal/app"
	"blastdoor/simenv"
	"blastdoor/store"
)

// tally is what is counted when a scenario is over.
type tally struct {
	lost       int   // requests never answered, and messages never posted
	doubled    int   // cards and answers beyond the first, and runs beyond those asked for
	duplicates int   // writes beyond those that were approved
	refused    int   // clicks that were refused
	told       int   // refusals that the clicker has read
	err        error // the first thing that was not as it should be
}

func (t *tally) sound() bool {
	return t.err == nil && t.lost == 0 && t.doubled == 0 && t.duplicates == 0 && t.refused == t.told
}

// counts is the tally in words, without what went wrong first.
func (t *tally) counts() string {
	return fmt.Sprintf("lost %d, doubled %d, duplicate writes %d, refused %d, told %d", t.lost, t.doubled, t.duplicates, t.refused, t.told)
}

func (t *tally) String() string {
	if t.err == nil {
		return t.counts()
	}
	return t.counts() + ": " + t.err.Error()
}

// finish stops the bot and counts. It is called once, whatever went wrong before.
func (s *stage) finish() tally {
	s.stop()
	t := tally{doubled: s.copies(), told: s.told()}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), 30*time.Second)
	defer cancel()
	s.fail(errors.Join(s.countLog(ctx, &t), s.countWrites(ctx, &t)))
	s.ws.Close()
	t.err = s.err
	return t
}

// copies counts messages that are there more than once, by the name that each
// carries. What was deleted is not there.
func (s *stage) copies() (n int) {
	seen := map[string]bool{}
	for _, m := range s.ws.Messages("ops") {
		if m.Metadata == nil || m.Tombstone {
			continue
		}
		var stamp struct {
			ID string `json:"delivery_id"`
		}
		if json.Unmarshal(m.Metadata.EventPayload, &stamp) != nil || stamp.ID == "" {
			continue
		}
		if seen[stamp.ID] {
			n++
		}
		seen[stamp.ID] = true
	}
	return n
}

// told counts refusals that people have read.
func (s *stage) told() (n int) {
	for _, u := range slacksim.DefaultWorld().Users {
		for _, m := range s.ws.Ephemerals(u.ID) {
			if strings.Contains(read(m), "did not count") {
				n++
			}
		}
	}
	return n
}

// countLog looks for what the bot has promised and not done.
func (s *stage) countLog(ctx context.Context, t *tally) (err error) {
	log, err := store.OpenReadOnly(ctx, s.conf.Files.Store(), store.Options{Now: s.now})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	counts, err := log.Counts(ctx)
	if err != nil {
		return err
	}
	pending, err := log.PendingDeliveries(ctx, s.now().Add(24*time.Hour))
	if err != nil {
		return err
	}
	t.lost += counts.Unsettled + counts.Dropped + max(0, s.requests-counts.Runs)
	t.doubled += max(0, counts.Runs-s.requests)
	for _, row := range pending {
		if row.TS == "" { // one that is posted and out of date is not lost
			t.lost++
		}
	}
	runs, err := log.Runs(ctx, store.RunFilter{Limit: counts.Runs})
	for _, r := range runs {
		events, loadErr := log.Load(ctx, r.ID)
		run, foldErr := engine.Fold(events)
		t.refused += run.Refusals
		err = errors.Join(err, loadErr, foldErr)
	}
	return err
}

// countWrites holds the ledger against what was approved, and the log against the
// properties of the engine.
func (s *stage) countWrites(ctx context.Context, t *tally) error {
	env, err := simenv.Open(ctx, s.conf.Files.World(), simenv.Options{Now: s.now})
	if err != nil {
		return err
	}
	ledger, err := env.Ledger(ctx)
	if err = errors.Join(err, env.Close()); err != nil {
		return err
	}
	t.duplicates += max(0, len(ledger)-s.writes)
	s.expect(len(ledger) >= s.writes, "%d writes were approved and %d were made", s.writes, len(ledger))
	audit, err := app.Verify(ctx, s.conf.Files, store.AuditOptions{}, s.now)
	if err != nil {
		return err
	}
	s.expect(audit.OK(), "the log does not verify: %v", audit.Violations)
	return nil
}
