// Package memstore is a journal and board in memory, with the contract of the real
// store and none of its durability, for tests of the engine under virtual time. It
// checks what it is given as strictly as the database does, and it can fail on
// demand, before or after it has done what was asked. It must not know of the
// engine, Slack or SQL.
package memstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"blastdoor"
)

// Store is an in-memory journal and board.
type Store struct {
	mu          sync.Mutex
	histories   map[string][]blastdoor.Event
	order       []blastdoor.Event // of all runs, as committed
	sources     map[string]string
	projections map[string]blastdoor.Projection
	documents   map[string][]byte
	settled     map[string]bool
	deliveries  map[string]blastdoor.Delivery
	posted      map[string]blastdoor.MessageRef
	fault       func(op string) (before, after error)
}

// New returns an empty store.
func New() *Store {
	return &Store{histories: map[string][]blastdoor.Event{}, sources: map[string]string{},
		projections: map[string]blastdoor.Projection{}, documents: map[string][]byte{}, settled: map[string]bool{},
		deliveries: map[string]blastdoor.Delivery{}, posted: map[string]blastdoor.MessageRef{},
		fault: func(string) (error, error) { return nil, nil }}
}

// Fault sets what happens at each operation ("begin", "commit", "load"): an error
// before anything is done, or one after it has been done.
func (s *Store) Fault(f func(op string) (before, after error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// Begin implements the journal.
func (s *Store) Begin(_ context.Context, sourceID string, c blastdoor.Commit) (string, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, after := s.fault("begin")
	if before != nil {
		return "", false, before
	}
	if id, ok := s.sources[sourceID]; ok {
		if c.Settles != "" {
			s.settled[c.Settles] = true
		}
		return id, false, after
	}
	if err := s.append(c); err != nil {
		return "", false, err
	}
	s.sources[sourceID] = c.RunID
	return c.RunID, true, after
}

// Commit implements the journal.
func (s *Store) Commit(_ context.Context, c blastdoor.Commit) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, after := s.fault("commit")
	if before != nil {
		return before
	}
	if c.At == 0 {
		return blastdoor.Errorf(blastdoor.ErrConflict, "run %s has not begun", c.RunID)
	}
	if err := s.append(c); err != nil {
		return err
	}
	return after
}

func (s *Store) append(c blastdoor.Commit) error {
	if err := s.check(c); err != nil {
		return err
	}
	for _, e := range c.Events {
		// A trip through the canonical form, as a database would make it.
		data, err := e.Canonical()
		if err != nil {
			return err
		}
		stored, err := blastdoor.ParseEvent(data)
		if err != nil {
			return err
		}
		s.histories[c.RunID] = append(s.histories[c.RunID], stored)
		s.order = append(s.order, stored)
	}
	for _, d := range c.Documents {
		s.documents[d.Digest] = slices.Clone(d.Body)
	}
	for _, d := range c.Deliveries {
		d.Want = max(d.Want, s.deliveries[d.ID].Want)
		s.deliveries[d.ID] = d
	}
	s.projections[c.RunID] = c.Projection
	if c.Settles != "" {
		s.settled[c.Settles] = true
	}
	return nil
}

func (s *Store) check(c blastdoor.Commit) error {
	if got := len(s.histories[c.RunID]); got != c.At {
		return blastdoor.Errorf(blastdoor.ErrConflict, "run %s has %d events, not %d", c.RunID, got, c.At)
	}
	for i, e := range c.Events {
		if e.RunID != c.RunID || e.Seq != c.At+i+1 {
			return blastdoor.Errorf(blastdoor.ErrConflict, "event %s/%d does not follow %s/%d", e.RunID, e.Seq, c.RunID, c.At+i)
		}
	}
	if c.Settles != "" && s.settled[c.Settles] {
		return blastdoor.Errorf(blastdoor.ErrConflict, "inbox row %s is settled already", c.Settles)
	}
	if err := s.checkLocks(c); err != nil {
		return err
	}
	for _, d := range c.Deliveries {
		if !slices.Contains(blastdoor.DeliveryKinds(), d.Kind) {
			return fmt.Errorf("delivery %s is of unknown kind %q", d.ID, d.Kind)
		}
	}
	for _, row := range c.Projection.Approvals {
		for _, old := range s.projections[c.RunID].Approvals {
			if old.ID == row.ID && !old.ConsumedAt.IsZero() && !row.ConsumedAt.Equal(old.ConsumedAt) {
				return blastdoor.Errorf(blastdoor.ErrConflict, "approval %s has been consumed", row.ID)
			}
		}
	}
	return nil
}

func (s *Store) checkLocks(c blastdoor.Commit) error {
	if c.Projection.Flight == nil {
		return nil
	}
	for id, p := range s.projections {
		if id == c.RunID || p.Flight == nil {
			continue
		}
		for _, target := range c.Projection.Flight.Targets {
			if slices.Contains(p.Flight.Targets, target) {
				return blastdoor.Errorf(blastdoor.ErrTargetLocked, "%s is locked by run %s", target, id)
			}
		}
	}
	return nil
}

// Load implements the journal.
func (s *Store) Load(_ context.Context, runID string) ([]blastdoor.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, _ := s.fault("load"); before != nil {
		return nil, before
	}
	events, ok := s.histories[runID]
	if !ok {
		return nil, blastdoor.Errorf(blastdoor.ErrNotFound, "there is no run %s", runID)
	}
	return slices.Clone(events), nil
}

// Unfinished implements the journal.
func (s *Store) Unfinished(context.Context) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, id := range slices.Sorted(maps.Keys(s.projections)) {
		if !s.projections[id].Ended {
			out = append(out, id)
		}
	}
	return out, nil
}

// Document implements the journal.
func (s *Store) Document(_ context.Context, digest string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, ok := s.documents[digest]
	if !ok {
		return nil, blastdoor.Errorf(blastdoor.ErrNotFound, "there is no document %s", digest)
	}
	if blastdoor.DigestBytes(body) != digest {
		return nil, blastdoor.Errorf(blastdoor.ErrIntegrity, "document %s has another digest", digest)
	}
	return slices.Clone(body), nil
}

// InFlight implements the board.
func (s *Store) InFlight(context.Context) ([]blastdoor.Flight, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []blastdoor.Flight
	for _, id := range slices.Sorted(maps.Keys(s.projections)) {
		if f := s.projections[id].Flight; f != nil {
			out = append(out, *f)
		}
	}
	return out, nil
}

// Posted implements the board.
func (s *Store) Posted(_ context.Context, deliveryID string) (blastdoor.MessageRef, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ref, ok := s.posted[deliveryID]; ok {
		return ref, nil
	}
	if _, ok := s.deliveries[deliveryID]; ok {
		return blastdoor.MessageRef{}, blastdoor.Errorf(blastdoor.ErrNotPosted, "message %s is not posted yet", deliveryID)
	}
	return blastdoor.MessageRef{}, blastdoor.Errorf(blastdoor.ErrNotFound, "there is no message %s", deliveryID)
}

// Settle implements the board.
func (s *Store) Settle(_ context.Context, inboxID string, deliveries []blastdoor.Delivery) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.settled[inboxID] {
		return blastdoor.Errorf(blastdoor.ErrConflict, "inbox row %s is settled already", inboxID)
	}
	s.settled[inboxID] = true
	for _, d := range deliveries {
		s.deliveries[d.ID] = d
	}
	return nil
}

// Post says that a delivery has been posted, as the Slack edge would.
func (s *Store) Post(deliveryID string) (blastdoor.MessageRef, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, ok := s.deliveries[deliveryID]
	if !ok {
		return blastdoor.MessageRef{}, fmt.Errorf("there is no delivery %s", deliveryID)
	}
	ref := blastdoor.MessageRef{Channel: d.Channel, TS: fmt.Sprintf("1700000000.%06d", len(s.posted)+1)}
	if old, ok := s.posted[deliveryID]; ok {
		ref = old
	}
	s.posted[deliveryID] = ref
	return ref, nil
}

// Delivery returns a delivery by id.
func (s *Store) Delivery(id string) (blastdoor.Delivery, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, ok := s.deliveries[id]
	return d, ok
}

// History returns all events of all runs in the order of their commits.
func (s *Store) History() []blastdoor.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.order)
}

// Projections returns the projection of every run.
func (s *Store) Projections() map[string]blastdoor.Projection {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.projections)
}
