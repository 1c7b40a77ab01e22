package verifier

import "blastdoor"

// Input is everything a verdict depends on. A nil part denies.
type Input struct {
	Plan   *blastdoor.Plan
	Policy *blastdoor.Policy
	*blastdoor.Circumstances
}

// withinPolicy is the shared reason of every allow. Its capacity equals its
// length, so that appending to it copies.
var withinPolicy = []blastdoor.Reason{{
	Code: blastdoor.WithinPolicy, Effect: blastdoor.Allow, Text: "nothing in the policy objects",
}}

// Verify judges a plan. It collects every reason that applies, in the order of
// blastdoor.ReasonCodes; then any deny denies, else any ask asks, else it allows
// with the single reason within_policy. An allow allocates nothing.
func Verify(in Input) blastdoor.Verdict { return judge(in, rules[:]) }

func judge(in Input, rules []rule) blastdoor.Verdict {
	if reasons := missing(in); reasons != nil {
		return blastdoor.Verdict{Decision: blastdoor.Deny, Reasons: reasons}
	}
	var reasons []blastdoor.Reason
	// Only a plan that says it is a read is spared the rules for writes: a kind
	// that is not understood is judged by all of them.
	read := in.Plan.Kind == blastdoor.Read
	for i := range rules {
		if read && rules[i].writesOnly {
			continue
		}
		reasons = rules[i].check(in, reasons)
	}
	if reasons == nil {
		return blastdoor.Verdict{Decision: blastdoor.Allow, Reasons: withinPolicy}
	}
	return blastdoor.Verdict{Decision: strictest(reasons), Reasons: reasons}
}

// missing returns the reasons to deny an input that lacks a part.
func missing(in Input) (reasons []blastdoor.Reason) {
	if in.Plan == nil {
		reasons = deny(reasons, blastdoor.DryRunFailed, "there is no plan to judge")
	}
	if in.Policy == nil {
		reasons = deny(reasons, blastdoor.ActionNotOnMenu, "there is no policy, so no action is on the menu")
	}
	if in.Circumstances == nil {
		reasons = deny(reasons, blastdoor.RequesterNotAllowed, "it is not known who asks, where and when")
	}
	return reasons
}

func deny(reasons []blastdoor.Reason, code blastdoor.ReasonCode, text string) []blastdoor.Reason {
	return append(reasons, blastdoor.Reason{Code: code, Effect: blastdoor.Deny, Text: text})
}

func ask(reasons []blastdoor.Reason, code blastdoor.ReasonCode, text string) []blastdoor.Reason {
	return append(reasons, blastdoor.Reason{Code: code, Effect: blastdoor.NeedsApproval, Text: text})
}

// effectOf says what a policy's rule does; false means nothing. A rule that is
// not understood denies.
func effectOf(r blastdoor.Rule) (blastdoor.Decision, bool) {
	switch r {
	case blastdoor.RuleAllow:
		return blastdoor.Allow, false
	case blastdoor.RuleAsk:
		return blastdoor.NeedsApproval, true
	default:
		return blastdoor.Deny, true
	}
}

// strictness orders decisions; one that is not understood is a deny.
func strictness(d blastdoor.Decision) int {
	switch d {
	case blastdoor.Allow:
		return 0
	case blastdoor.NeedsApproval:
		return 1
	default:
		return 2
	}
}

func strictest(reasons []blastdoor.Reason) blastdoor.Decision {
	worst := blastdoor.Allow
	for _, r := range reasons {
		worst = stricterDecision(worst, r.Effect)
	}
	return worst
}

func stricterDecision(a, b blastdoor.Decision) blastdoor.Decision {
	switch max(strictness(a), strictness(b)) {
	case 0:
		return blastdoor.Allow
	case 1:
		return blastdoor.NeedsApproval
	default:
		return blastdoor.Deny
	}
}
