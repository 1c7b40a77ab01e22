package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"

	"blastdoor"
	"blastdoor/evals/powerloss/promise"
	"blastdoor/simenv"
	"blastdoor/store"
)

// journal is the log, which says what it has acknowledged, and tells who waits
// where a run is.
type journal struct {
	*store.Store
	out *promise.Writer

	mu      sync.Mutex
	changed *sync.Cond
	runs    map[string]place
	failure error // nothing moves any more
}

// place is where a run is, as far as this process knows.
type place struct {
	head   [32]byte
	status string
	ended  bool
}

func newJournal(ctx context.Context, log *store.Store, out *promise.Writer) (*journal, error) {
	j := &journal{Store: log, out: out, runs: map[string]place{}}
	j.changed = sync.NewCond(&j.mu)
	for p, err := range log.Projections(ctx) {
		if err != nil {
			return nil, err
		}
		if p.Ended {
			continue
		}
		shown, err := log.Show(ctx, p.Run.ID)
		if err != nil {
			return nil, err
		}
		head, err := hex.DecodeString(shown[len(shown)-1].ChainHash)
		if err != nil || len(head) != 32 {
			return nil, fmt.Errorf("run %s has the chain hash %q", p.Run.ID, shown[len(shown)-1].ChainHash)
		}
		j.runs[p.Run.ID] = place{head: [32]byte(head), status: p.Run.Status}
	}
	return j, nil
}

// Begin begins a run and says so.
func (j *journal) Begin(ctx context.Context, sourceID string, c blastdoor.Commit) (string, bool, error) {
	if err := j.announce(&c); err != nil {
		return "", false, err
	}
	id, isNew, err := j.Store.Begin(ctx, sourceID, c)
	if err != nil || !isNew {
		return id, isNew, err
	}
	return id, true, j.promise(&c, blastdoor.Genesis())
}

// Commit appends to a run and says so.
func (j *journal) Commit(ctx context.Context, c blastdoor.Commit) error {
	if err := j.announce(&c); err != nil {
		return err
	}
	if err := j.Store.Commit(ctx, c); err != nil {
		return err
	}
	j.mu.Lock()
	head := j.runs[c.RunID].head
	j.mu.Unlock()
	return j.promise(&c, head)
}

func (j *journal) announce(c *blastdoor.Commit) error {
	return j.out.Write(promise.Report{Begins: string(c.Events[len(c.Events)-1].Body.Kind())})
}

func (j *journal) promise(c *blastdoor.Commit, head [32]byte) error {
	for _, e := range c.Events {
		body, err := e.Canonical()
		if err != nil {
			return err
		}
		head = blastdoor.ChainHash(head, body)
	}
	err := j.out.Write(promise.Report{Promise: &promise.Promise{Kind: promise.Committed, ID: c.RunID, Len: c.Projection.Run.Len,
		Hash: hex.EncodeToString(head[:]), Settles: c.Settles}})
	j.mu.Lock()
	defer j.mu.Unlock()
	j.runs[c.RunID] = place{head: head, status: c.Projection.Run.Status, ended: c.Projection.Ended}
	j.changed.Broadcast()
	return err
}

// fail wakes whoever waits for a run that will not move any more.
func (j *journal) fail(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failure == nil {
		j.failure = err
	}
	j.changed.Broadcast()
}

// await returns once the run has ended or waits for a person.
func (j *journal) await(runID string) (place, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for {
		p := j.runs[runID]
		if p.ended || p.status == blastdoor.RunWaiting || j.failure != nil {
			return p, j.failure
		}
		j.changed.Wait()
	}
}

// unfinished lists the runs that have not ended.
func (j *journal) unfinished() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var ids []string
	for id, p := range j.runs {
		if !p.ended {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// environment is the world, which says what it has written.
type environment struct {
	*simenv.Env
	out *promise.Writer
}

// Apply writes and says so.
func (e environment) Apply(ctx context.Context, key string, plan blastdoor.Plan) (blastdoor.Receipt, error) {
	receipt, err := e.Env.Apply(ctx, key, plan)
	if err != nil {
		return receipt, err
	}
	return receipt, e.out.Write(promise.Report{Promise: &promise.Promise{Kind: promise.Applied, ID: key}})
}
