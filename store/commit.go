package store

import (
	"context"
	"errors"
	"fmt"

	"blastdoor"
)

// prepared is a commit whose events are encoded and whose claims about itself
// have been checked, before it takes the committer's time.
type prepared struct {
	blastdoor.Commit
	bodies [][]byte // canonical bytes of Events
}

func prepare(c blastdoor.Commit) (prepared, error) {
	p := prepared{Commit: c, bodies: make([][]byte, len(c.Events))}
	if c.RunID == "" || len(c.RunID) > maxRunID {
		return p, fmt.Errorf("committing: a run id has 1 to %d bytes, not %d", maxRunID, len(c.RunID))
	}
	for i, event := range c.Events {
		if event.RunID != c.RunID || event.Seq != c.At+i+1 || event.At.IsZero() || event.Body == nil {
			return p, fmt.Errorf("committing to run %s: event %d is not number %d of this run, or has no time or body",
				c.RunID, i, c.At+i+1)
		}
		body, err := event.Canonical()
		if err != nil {
			return p, fmt.Errorf("committing to run %s: %w", c.RunID, err)
		}
		p.bodies[i] = body
	}
	if c.Projection.Run.ID != c.RunID || c.Projection.Run.Len != c.At+len(c.Events) {
		return p, fmt.Errorf("committing to run %s: the projection is of run %q at length %d, not at %d",
			c.RunID, c.Projection.Run.ID, c.Projection.Run.Len, c.At+len(c.Events))
	}
	for _, d := range c.Documents {
		if got := blastdoor.DigestBytes(d.Body); got != d.Digest {
			return p, blastdoor.Errorf(blastdoor.ErrIntegrity, "document %s has the digest %s", d.Digest, got)
		}
	}
	return p, nil
}

// Begin opens a run: the events of c, the first of them the RunRequested of this
// source, and everything that belongs to them become durable at once, and the
// run's id and true are returned.
// A source id that has begun a run already returns that run's id and false; then
// nothing is written but the settling of c.Settles, if it is not settled yet. A
// run id that exists under another source, or an envelope that is settled
// already, is ErrConflict.
func (s *Store) Begin(ctx context.Context, sourceID string, c blastdoor.Commit) (string, bool, error) {
	p, err := prepare(c)
	if err != nil {
		return "", false, err
	}
	if c.At != 0 || len(c.Events) == 0 || sourceID == "" {
		return "", false, fmt.Errorf("beginning run %s: it needs a source, events, and a history of 0", c.RunID)
	}
	if first, ok := c.Events[0].Body.(*blastdoor.RunRequested); !ok || first.SourceID != sourceID {
		return "", false, fmt.Errorf("beginning run %s: its first event is not the request of source %q", c.RunID, sourceID)
	}
	var runID string
	var isNew bool
	err = s.write(ctx, func(ses *session) (err error) {
		runID, isNew, err = ses.begin(sourceID, &p)
		return err
	})
	if err != nil {
		return "", false, err
	}
	return runID, isNew, nil
}

// Commit appends to a run. ErrConflict: the history is not c.At long, the
// envelope c.Settles is settled already, or an approval of c.Projection is spent,
// over or bound otherwise. ErrTargetLocked: another run holds a target of
// c.Projection.Flight. ErrNotFound: there is no such envelope. In all these cases
// nothing is written.
func (s *Store) Commit(ctx context.Context, c blastdoor.Commit) error {
	p, err := prepare(c)
	if err != nil {
		return err
	}
	return s.write(ctx, func(ses *session) error { return ses.append(&p) })
}

func (s *session) begin(sourceID string, p *prepared) (string, bool, error) {
	var known string
	found, err := s.find(`SELECT id FROM runs WHERE source_id = ?`, []any{sourceID}, &known)
	if err != nil {
		return "", false, fmt.Errorf("looking for source %s: %w", sourceID, err)
	}
	if found {
		// Settled already is as good: the request has been answered by this very run.
		if err := s.settle(p.Settles); err != nil && !blastdoor.ErrConflict.Is(err) {
			return "", false, err
		}
		return known, false, nil
	}
	head, err := s.appendEvents(p, blastdoor.Genesis())
	if err != nil {
		return "", false, err
	}
	if err := s.insertRun(sourceID, &p.Projection, head); err != nil {
		return "", false, err
	}
	if err := s.attach(p, false); err != nil {
		return "", false, err
	}
	return p.RunID, true, nil
}

func (s *session) append(p *prepared) error {
	var length int
	var head []byte
	var ended, inFlight bool
	found, err := s.find(`SELECT len, head, ended, EXISTS (SELECT 1 FROM flights WHERE run_id = runs.id) FROM runs WHERE id = ?`,
		[]any{p.RunID}, &length, &head, &ended, &inFlight)
	if err != nil {
		return fmt.Errorf("reading run %s: %w", p.RunID, err)
	}
	if !found || length != p.At {
		return blastdoor.Errorf(blastdoor.ErrConflict, "run %s has %d events, not %d", p.RunID, length, p.At)
	}
	newHead, err := s.appendEvents(p, [32]byte(head))
	if err != nil {
		return err
	}
	if err := s.updateRun(&p.Projection, newHead, ended); err != nil {
		return err
	}
	return s.attach(p, inFlight)
}

// appendEvents writes the events, each a leaf of the tree, and returns the new chain hash.
func (s *session) appendEvents(p *prepared, head [32]byte) ([32]byte, error) {
	for i, event := range p.Events {
		head = blastdoor.ChainHash(head, p.bodies[i])
		leaf := s.tree.size
		hashes, err := s.tree.add(LeafData(head, event.RunID, event.Seq))
		if err != nil {
			return head, err
		}
		_, err = s.exec(`INSERT INTO events (leaf, run_id, seq, at, kind, body, chain_hash, hashes) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			leaf, event.RunID, event.Seq, event.At.UnixNano(), string(event.Body.Kind()), p.bodies[i], head[:], joinHashes(hashes))
		if isConstraint(err) {
			return head, &blastdoor.Error{Code: blastdoor.ErrConflict,
				Msg: fmt.Sprintf("event %d of run %s cannot follow", event.Seq, event.RunID), Err: err}
		}
		if err != nil {
			return head, fmt.Errorf("storing event %d of run %s: %w", event.Seq, event.RunID, err)
		}
	}
	return head, nil
}

// attach writes what a commit carries besides its events and its run's row.
func (s *session) attach(p *prepared, inFlight bool) error {
	if err := s.settle(p.Settles); err != nil {
		return err
	}
	for i := range p.Projection.Approvals {
		if err := s.putApproval(p.RunID, &p.Projection.Approvals[i]); err != nil {
			return err
		}
	}
	if err := s.putFlight(p.RunID, p.Projection.Flight, inFlight); err != nil {
		return err
	}
	for i := range p.Documents {
		if err := s.putDocument(&p.Documents[i]); err != nil {
			return err
		}
	}
	return s.putDeliveries(p.Deliveries)
}

// settle marks an envelope as answered. An empty id is no envelope.
func (s *session) settle(inboxID string) error {
	if inboxID == "" {
		return nil
	}
	var n int64
	var settled bool
	found, err := s.find(`SELECT n, settled_at IS NOT NULL FROM inbox WHERE id = ?`, []any{inboxID}, &n, &settled)
	if err != nil {
		return fmt.Errorf("reading envelope %s: %w", inboxID, err)
	}
	if !found {
		return blastdoor.Errorf(blastdoor.ErrNotFound, "there is no envelope %s", inboxID)
	}
	if settled {
		return blastdoor.Errorf(blastdoor.ErrConflict, "envelope %s has been answered already", inboxID)
	}
	if _, err := s.exec(`UPDATE inbox SET settled_at = ? WHERE n = ?`, s.now().UnixNano(), n); err != nil {
		return fmt.Errorf("settling envelope %s: %w", inboxID, err)
	}
	return nil
}

func (s *session) putDocument(d *blastdoor.Document) error {
	var one int
	found, err := s.find(`SELECT 1 FROM documents WHERE digest = ?`, []any{d.Digest}, &one)
	if err != nil {
		return fmt.Errorf("looking for document %s: %w", d.Digest, err)
	}
	if found {
		return nil
	}
	if len(d.Body) == 0 {
		return errors.New("storing a document: it is empty")
	}
	if _, err := s.exec(`INSERT INTO documents (digest, body) VALUES (?, ?)`, d.Digest, d.Body); err != nil {
		return fmt.Errorf("storing document %s: %w", d.Digest, err)
	}
	return nil
}
