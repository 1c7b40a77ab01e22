//go:build crashpoints && without_consumption

package app

import (
	"context"
	"slices"
	"time"

	"blastdoor"
	"blastdoor/engine"
)

// weaken is a negative control: the intent leaves the approval as granted, and it
// is the next transaction that consumes it.
func weaken(_ context.Context, p *parts) error {
	p.journal = forgetfulJournal{p.journal}
	return nil
}

type forgetfulJournal struct{ engine.Journal }

func (j forgetfulJournal) Commit(ctx context.Context, c blastdoor.Commit) error {
	if intent, ok := c.Events[0].Body.(*blastdoor.ApplyIntended); ok && intent.ApprovalID != "" {
		c.Projection.Approvals = slices.Clone(c.Projection.Approvals)
		for i := range c.Projection.Approvals {
			if a := &c.Projection.Approvals[i]; a.ID == intent.ApprovalID {
				a.Status, a.ConsumedAt = blastdoor.GrantedApproval, time.Time{}
			}
		}
	}
	return j.Journal.Commit(ctx, c)
}
