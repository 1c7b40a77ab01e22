package storetest

import (
	"context"
	"fmt"
	"time"

	"blastdoor"
)

func approvalChecks() []Check {
	return []Check{
		{Name: "Commit must never consume an approval twice", Run: checkConsumedTwice},
		{Name: "Commit must never bring a consumed approval back", Run: checkConsumedBack},
		{Name: "Commit may carry a consumed approval along", Run: checkConsumedCarried},
		{Name: "Load must go on verifying after an approval was consumed", Run: checkConsumedLoads},
	}
}

// Ask makes c the commit that asks a second person: a pending approval.
func Ask(last blastdoor.Commit, approvalID string) blastdoor.Commit {
	approval := blastdoor.Approval{ID: approvalID, StepID: "drain", PlanHash: "sha256:plan", DeliveryID: "dry-" + last.RunID,
		RequestedAt: start(), ExpiresAt: start().Add(15 * time.Minute), Quorum: 1, Status: blastdoor.PendingApproval}
	c := Follow(last, &blastdoor.ApprovalRequested{Approval: approval})
	c.Projection.Run.Status, c.Projection.WakeAt = blastdoor.RunWaiting, approval.ExpiresAt
	c.Projection.Approvals = []blastdoor.ApprovalRow{{ID: approval.ID, RunID: c.RunID, StepID: approval.StepID,
		PlanHash: approval.PlanHash, Status: blastdoor.PendingApproval, ExpiresAt: approval.ExpiresAt}}
	return c
}

// Spend makes c the commit point: the approval is consumed, the target locked.
func Spend(last blastdoor.Commit, target string) blastdoor.Commit {
	old := last.Projection.Approvals[0]
	c := Fly(Follow(last, &blastdoor.ApplyIntended{PlanHash: old.PlanHash, Key: "key-" + last.RunID, ApprovalID: old.ID,
		FreshUntil: old.ExpiresAt, Locks: []string{target}}), target)
	c.Projection.Run.Status, c.Projection.WakeAt = blastdoor.RunActive, time.Time{}
	old.Status, old.ConsumedAt = blastdoor.ConsumedApproval, c.Events[0].At
	c.Projection.Approvals = []blastdoor.ApprovalRow{old}
	return c
}

// spent opens a run whose approval is consumed.
func spent(ctx context.Context, h Harness) (blastdoor.Commit, error) {
	c, err := begun(ctx, h, "r1")
	asked := Ask(c, "ap1")
	done := Spend(asked, "db")
	return done, first(err, h.Journal.Commit(ctx, asked), h.Journal.Commit(ctx, done))
}

func checkConsumedTwice(ctx context.Context, h Harness) error {
	c, err := spent(ctx, h)
	if err != nil {
		return err
	}
	// The second intent names the same approval, and stamps it anew.
	again := Spend(c, "db")
	return first(wantCode("consuming an approval twice", h.Journal.Commit(ctx, again), blastdoor.ErrConflict),
		wantLength(ctx, h, "r1", 3))
}

func checkConsumedBack(ctx context.Context, h Harness) error {
	c, err := spent(ctx, h)
	if err != nil {
		return err
	}
	back := Follow(c, observed())
	row := c.Projection.Approvals[0]
	row.Status, row.ConsumedAt = blastdoor.GrantedApproval, time.Time{}
	back.Projection.Approvals = []blastdoor.ApprovalRow{row}
	return first(wantCode("un-consuming an approval", h.Journal.Commit(ctx, back), blastdoor.ErrConflict),
		wantLength(ctx, h, "r1", 3))
}

func checkConsumedCarried(ctx context.Context, h Harness) error {
	c, err := spent(ctx, h)
	if err != nil {
		return err
	}
	if err := h.Journal.Commit(ctx, Follow(c, observed())); err != nil {
		return fmt.Errorf("a commit that changes nothing about a spent approval: %w", err)
	}
	return nil
}

func checkConsumedLoads(ctx context.Context, h Harness) error {
	if _, err := spent(ctx, h); err != nil {
		return err
	}
	return wantLength(ctx, h, "r1", 3)
}
