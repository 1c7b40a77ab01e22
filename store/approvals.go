package store

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"blastdoor"
)

// approvalLedger gathers from a run's events what its approvals are bound to and
// which of them are spent: the part of an approval's row that safety rests on.
type approvalLedger struct {
	runID     string
	requested map[string]blastdoor.ApprovalRow
	spent     map[string]time.Time
}

func newApprovalLedger(runID string) *approvalLedger {
	return &approvalLedger{runID: runID, requested: make(map[string]blastdoor.ApprovalRow), spent: make(map[string]time.Time)}
}

func (l *approvalLedger) note(event blastdoor.Event) {
	switch body := event.Body.(type) {
	case *blastdoor.ApprovalRequested:
		l.requested[body.Approval.ID] = blastdoor.ApprovalRow{ID: body.Approval.ID, RunID: l.runID, StepID: body.Approval.StepID,
			PlanHash: body.Approval.PlanHash, ExpiresAt: body.Approval.ExpiresAt}
	case *blastdoor.ApplyIntended:
		if body.ApprovalID != "" {
			l.spent[body.ApprovalID] = event.At
		}
	}
}

// compare returns what is wrong with the rows, in the order of the approvals' ids.
func (l *approvalLedger) compare(rows []blastdoor.ApprovalRow) []string {
	var faults []string
	seen := make(map[string]bool, len(rows))
	for _, row := range rows {
		seen[row.ID] = true
		want, ok := l.requested[row.ID]
		_, spent := l.spent[row.ID]
		switch {
		case !ok:
			faults = append(faults, fmt.Sprintf("approval %s was never requested", row.ID))
		case row.RunID != want.RunID || row.StepID != want.StepID || row.PlanHash != want.PlanHash || !row.ExpiresAt.Equal(want.ExpiresAt):
			faults = append(faults, fmt.Sprintf("approval %s has another step, plan or expiry than was requested", row.ID))
		case spent != (row.Status == blastdoor.ConsumedApproval):
			faults = append(faults, fmt.Sprintf("approval %s has status %q, but its events say spent: %t", row.ID, row.Status, spent))
		}
	}
	for id := range l.requested {
		if !seen[id] {
			faults = append(faults, fmt.Sprintf("approval %s has no row", id))
		}
	}
	slices.Sort(faults)
	return faults
}

// superseded returns the rows of approvals that no projection lists any more: a
// newer question took their place. What was spent stays spent; the rest is void.
func (l *approvalLedger) superseded(current []blastdoor.ApprovalRow) []blastdoor.ApprovalRow {
	var rows []blastdoor.ApprovalRow
	for _, id := range slices.Sorted(maps.Keys(l.requested)) {
		if slices.ContainsFunc(current, func(a blastdoor.ApprovalRow) bool { return a.ID == id }) {
			continue
		}
		row := l.requested[id]
		row.Status = blastdoor.VoidApproval
		if at, ok := l.spent[id]; ok {
			row.Status, row.ConsumedAt = blastdoor.ConsumedApproval, at
		}
		rows = append(rows, row)
	}
	return rows
}
