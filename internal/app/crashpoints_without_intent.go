//go:build crashpoints && without_intent

package app

import (
	"context"
	"slices"
	"sync"

	"blastdoor"
	"blastdoor/engine"
)

// weaken is a negative control: the intent is kept in memory and becomes durable
// only together with the outcome of the write.
func weaken(_ context.Context, p *parts) error {
	p.journal = &lateJournal{Journal: p.journal, intents: map[string]blastdoor.Commit{}}
	return nil
}

type lateJournal struct {
	engine.Journal

	mu      sync.Mutex
	intents map[string]blastdoor.Commit // by run
}

func (j *lateJournal) Commit(ctx context.Context, c blastdoor.Commit) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, intent := c.Events[0].Body.(*blastdoor.ApplyIntended); intent {
		j.intents[c.RunID] = c
		return nil
	}
	if intent, late := j.intents[c.RunID]; late {
		delete(j.intents, c.RunID)
		c.At = intent.At
		c.Events = slices.Concat(intent.Events, c.Events)
		c.Documents = slices.Concat(intent.Documents, c.Documents)
	}
	return j.Journal.Commit(ctx, c)
}
