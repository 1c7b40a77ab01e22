package verifier

import (
	"slices"

	"blastdoor"
)

// Stricter joins two verdicts on the same plan, one under the policy that the run
// pinned and one under the policy of now: the stricter decision, with the reasons
// of both in the order of blastdoor.ReasonCodes, each once.
func Stricter(a, b blastdoor.Verdict) blastdoor.Verdict {
	var all []blastdoor.Reason
	for _, list := range [...][]blastdoor.Reason{a.Reasons, b.Reasons} {
		for _, r := range list {
			if r.Code != blastdoor.WithinPolicy {
				all = addReason(all, r)
			}
		}
	}
	decision := stricterDecision(a.Decision, b.Decision)
	if len(all) == 0 && decision == blastdoor.Allow {
		return blastdoor.Verdict{Decision: decision, Reasons: withinPolicy}
	}
	order := blastdoor.ReasonCodes()
	slices.SortStableFunc(all, func(x, y blastdoor.Reason) int {
		return slices.Index(order, x.Code) - slices.Index(order, y.Code)
	})
	return blastdoor.Verdict{Decision: decision, Reasons: all}
}

// addReason adds r unless the same words are there; of two effects the stricter stays.
func addReason(all []blastdoor.Reason, r blastdoor.Reason) []blastdoor.Reason {
	for i := range all {
		if all[i].Code == r.Code && all[i].Text == r.Text {
			all[i].Effect = stricterDecision(all[i].Effect, r.Effect)
			return all
		}
	}
	return append(all, r)
}

// Covered reports whether an approval given on one verdict still answers for a
// later verdict on the same plan: nothing is denied now, and everything that asks
// now asked before the eyes of the approver. The number of affected services must
// be the very number that was shown.
func Covered(approved, now blastdoor.Verdict) bool {
	if strictness(now.Decision) > strictness(blastdoor.NeedsApproval) ||
		strictness(approved.Decision) > strictness(blastdoor.NeedsApproval) {
		return false
	}
	for _, r := range now.Reasons {
		if r.Effect != blastdoor.Allow && !seen(approved, r) {
			return false
		}
	}
	return now.Decision == blastdoor.Allow || len(now.Reasons) > 0
}

func seen(v blastdoor.Verdict, r blastdoor.Reason) bool {
	return slices.ContainsFunc(v.Reasons, func(shown blastdoor.Reason) bool {
		return shown.Code == r.Code && (r.Code != blastdoor.BlastRadiusOverThreshold || shown.Text == r.Text)
	})
}
