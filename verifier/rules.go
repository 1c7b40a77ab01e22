package verifier

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"blastdoor"
)

// A rule appends the reasons that it finds. It must not allocate unless it finds one.
type rule struct {
	name string
	// writesOnly rules are about what a write does to the world; a read does nothing to it.
	writesOnly bool
	check      func(in Input, reasons []blastdoor.Reason) []blastdoor.Reason
}

// rules is the whole of the verifier, in the order of blastdoor.ReasonCodes.
var rules = [...]rule{
	{"unknown action", false, unknownAction},
	{"invalid parameters", false, paramsInvalid},
	{"failed dry run", false, dryRunFailed},
	{"menu", false, actionNotOnMenu},
	{"forbidden tier", false, actionForbidden},
	{"channel", false, channelNotAllowed},
	{"requester", false, requesterNotAllowed},
	{"freeze", true, changeFreeze},
	{"broken glass", true, breakGlass},
	{"writes per run", true, maxWritesExceeded},
	{"radius limit", true, blastRadiusExceeded},
	{"radius threshold", true, blastRadiusOverThreshold},
	{"downstream limit", true, downstreamExceeded},
	{"protected names", true, protectedResource},
	{"scale to zero", true, scaleToZero},
	{"overlap with writes in flight", true, radiusOverlap},
	{"approval tier", false, tierRequiresApproval},
	{"confidence", true, lowConfidence},
	{"incomplete graph", true, graphIncomplete},
	{"stale graph", true, graphStale},
}

func unknownAction(in Input, reasons []blastdoor.Reason) []blastdoor.Reason {
	if f := in.Plan.Fault; f != nil && f.Code == blastdoor.UnknownAction {
		return deny(reasons, blastdoor.UnknownAction, f.Text)
	}
	if k := in.Plan.Kind; k != blastdoor.Read && k != blastdoor.Write {
		return deny(reasons, blastdoor.UnknownAction,
			fmt.Sprintf("%s is of kind %q, neither a read nor a write", in.Plan.Action, k))
	}
	return reasons
}

func paramsInvalid(in Input, reasons []blastdoor.Reason) []blastdoor.Reason {
	if f := in.Plan.Fault; f != nil && f.Code == blastdoor.ParamsInvalid {
		return deny(reasons, blastdoor.ParamsInvalid, f.Text)
	}
	return reasons
}

// dryRunFailed denies a plan whose rehearsal failed, and a write that would touch
// or change nothing: an empty effect means that the rehearsal looked at the wrong
// thing, never that the write is harmless.
func dryRunFailed(in Input, reasons []blastdoor.Reason) []blastdoor.Reason {
	p := in.Plan
	switch {
	case p.Fault != nil && (p.Fault.Code == blastdoor.UnknownAction || p.Fault.Code == blastdoor.ParamsInvalid):
		return reasons // told already
	case p.Fault != nil:
		return deny(reasons, blastdoor.DryRunFailed, p.Fault.Text)
	case p.Kind == blastdoor.Write && len(p.Targets) == 0:
		return deny(reasons, blastdoor.DryRunFailed, "the dry run names no target")
	case p.Kind == blastdoor.Write && len(p.Changes) == 0:
		return deny(reasons, blastdoor.DryRunFailed, "the dry run shows no change")
	default:
		return reasons
	}
}

func actionNotOnMenu(in Input, reasons []blastdoor.Reason) []blastdoor.Reason {
	if _, ok := in.Policy.Entry(in.Plan.Action); !ok {
		return deny(reasons, blastdoor.ActionNotOnMenu, fmt.Sprintf("%s is not on the policy's menu", in.Plan.Action))
	}
	return reasons
}

func actionForbidden(in Input, reasons []blastdoor.Reason) []blastdoor.Reason {
	entry, ok := in.Policy.Entry(in.Plan.Action)
	switch {
	case !ok || entry.Tier == blastdoor.TierUnattended || entry.Tier == blastdoor.TierApproval:
		return reasons
	case entry.Tier != blastdoor.TierForbidden:
		return deny(reasons, blastdoor.ActionForbidden,
			fmt.Sprintf("%s has tier %d, which does not exist", entry.Action, entry.Tier))
	case entry.Reason == "":
		return deny(reasons, blastdoor.ActionForbidden, fmt.Sprintf("the policy forbids %s", entry.Action))
	default:
		return deny(reasons, blastdoor.ActionForbidden, fmt.Sprintf("the policy forbids %s: %s", entry.Action, entry.Reason))
	}
}

func channelNotAllowed(in Input, reasons []blastdoor.Reason) []blastdoor.Reason {
	rule, ok := in.Policy.ChannelRule(in.Channel)
	if !ok || in.Channel == "" {
		return deny(reasons, blastdoor.ChannelNotAllowed, "the policy lets nothing run in this channel")
	}
	if in.Runbook == "" {
		return deny(reasons, blastdoor.ChannelNotAllowed, "it is not known which runbook this is")
	}
	if !named(rule.Runbooks, in.Runbook) {
		return deny(reasons, blastdoor.ChannelNotAllowed,
			fmt.Sprintf("the policy does not let %s run in this channel", in.Runbook))
	}
	return reasons
}

func requesterNotAllowed(in Input, reasons []blastdoor.Reason) []blastdoor.Reason {
	if !in.Requester.FullMember() {
		return deny(reasons, blastdoor.RequesterNotAllowed, "only a full member of the workspace may ask: "+standing(in.Requester))
	}
	rule, ok := in.Policy.ChannelRule(in.Channel)
	if !ok {
		return reasons // told by channelNotAllowed: there is no list to be on
	}
	r := &rule.Requesters
	if r.Anyone || slices.Contains(r.Users, in.Requester.UserID) || shareName(r.Groups, in.RequesterGroups) {
		return reasons
	}
	return deny(reasons, blastdoor.RequesterNotAllowed, "the requester is not among those who may ask in this channel")
}

// standing says why a principal is not a full member.
func standing(p blastdoor.Principal) string {
	switch {
	case !p.Verified || p.UserID == "":
		return "the identity is not verified"
	case p.Bot:
		return "this is a bot"
	case p.External:
		return "this person belongs to another workspace"
	case p.Inactive:
		return "this account is not active"
	default:
		return "this person is a guest"
	}
}

// changeFreeze looks at the targets and at everything in the radius: a freeze on
// payments stops the restart of a cache that payments calls.
func changeFreeze(in Input, reasons []blastdoor.Reason) []blastdoor.Reason {
	if in.Now.IsZero() && len(in.Policy.Freezes) > 0 {
		return deny(reasons, blastdoor.ChangeFreeze, "it is not known what time it is, so no freeze can be ruled out")
	}
	for i := range in.Policy.Freezes {
		f := &in.Policy.Freezes[i]
		if !f.Active(in.Now) || mayBreak(f, in) {
			continue
		}
		if name, where, ok := covered(f, in.Plan); ok {
			reasons = deny(reasons, blastdoor.ChangeFreeze, freezeText(f, name, where))
		}
	}
	return reasons
}

// breakGlass asks where a freeze is broken by somebody whom it names.
func breakGlass(in Input, reasons []blastdoor.Reason) []blastdoor.Reason {
	if in.BreakGlass == "" {
		return reasons
	}
	for i := range in.Policy.Freezes {
		f := &in.Policy.Freezes[i]
		if !f.Active(in.Now) || !mayBreak(f, in) {
			continue
		}
		if name, where, ok := covered(f, in.Plan); ok {
			reasons = ask(reasons, blastdoor.BreakGlass,
				fmt.Sprintf("the glass is broken: %s; the reason given: %s", freezeText(f, name, where), in.BreakGlass))
		}
	}
	return reasons
}

// mayBreak reports whether the requester may act in spite of a freeze: one of the
// people whom the freeze names, as themselves, with a reason.
func mayBreak(f *blastdoor.Freeze, in Input) bool {
	return f.BreakGlass != nil && in.BreakGlass != "" && !in.Planned && in.Requester.FullMember() &&
		(slices.Contains(f.BreakGlass.Users, in.Requester.UserID) || shareName(f.BreakGlass.Groups, in.RequesterGroups))
}

// ApproversFor returns who may approve a plan under a policy. Where glass is
// broken, those are the people of every freeze that covers the plan, and the
// largest quorum counts; freezes that have nobody in common leave nobody.
func ApproversFor(policy *blastdoor.Policy, plan *blastdoor.Plan, now time.Time, broken bool) blastdoor.Approvers {
	who := policy.ApproversOf(plan.Action)
	if !broken {
		return who
	}
	first := true
	for i := range policy.Freezes {
		f := &policy.Freezes[i]
		if _, _, ok := covered(f, plan); !ok || !f.Active(now) {
			continue
		}
		glass := blastdoor.Approvers{}
		if f.BreakGlass != nil {
			glass = *f.BreakGlass
		}
		if first {
			who.Users, who.Groups, first = glass.Users, glass.Groups, false
		} else {
			who.Users, who.Groups = common(who.Users, glass.Users), common(who.Groups, glass.Groups)
		}
		who.Quorum = max(who.Quorum, glass.Quorum)
	}
	return who
}

func common(a, b []string) (both []string) {
	for _, name := range a {
		if slices.Contains(b, name) {
			both = append(both, name)
		}
	}
	return both
}

// covered finds the first name of the freeze that the plan would touch. The lists
// are searched from end to end: a list that is not sorted must not hide a name.
func covered(f *blastdoor.Freeze, p *blastdoor.Plan) (name, where string, ok bool) {
	for _, name := range f.Names {
		switch {
		case name == "*":
			return name, "", true
		case slices.Contains(p.Targets, name):
			return name, "a target", true
		case slices.Contains(p.Radius.Direct, name):
			return name, "directly affected", true
		case slices.Contains(p.Radius.Dependents, name):
			return name, "a dependent", true
		case slices.Contains(p.Radius.Hosts, name):
			return name, "a host", true
		case slices.Contains(p.Radius.Downstream, name):
			return name, "downstream", true
		}
	}
	return "", "", false
}

func freezeText(f *blastdoor.Freeze, name, where string) string {
	text := fmt.Sprintf("freeze %q covers everything", f.Name)
	if name != "*" {
		text = fmt.Sprintf("freeze %q covers %s (%s)", f.Name, name, where)
	}
	if !f.Until.IsZero() {
		text += " until " + f.Until.UTC().Format(time.RFC3339)
	}
	if f.Reason != "" {
		text += ": " + f.Reason
	}
	return text
}

func maxWritesExceeded(in Input, reasons []blastdoor.Reason) []blastdoor.Reason {
	if in.WritesSoFar >= 0 && in.WritesSoFar < in.Policy.MaxWritesPerRun {
		return reasons
	}
	return deny(reasons, blastdoor.MaxWritesExceeded, fmt.Sprintf(
		"this run has made %s; the policy allows at most %d per run", count(in.WritesSoFar, "write"), in.Policy.MaxWritesPerRun))
}

func blastRadiusExceeded(in Input, reasons []blastdoor.Reason) []blastdoor.Reason {
	n := in.Plan.Radius.Affected()
	if n <= in.Policy.MaxAffected {
		return reasons
	}
	return deny(reasons, blastdoor.BlastRadiusExceeded,
		fmt.Sprintf("%s affected; the policy allows at most %d", count(n, "service"), in.Policy.MaxAffected))
}

func blastRadiusOverThreshold(in Input, reasons []blastdoor.Reason) []blastdoor.Reason {
	n := in.Plan.Radius.Affected()
	if n <= in.Policy.ApprovalAbove {
		return reasons
	}
	return ask(reasons, blastdoor.BlastRadiusOverThreshold,
		fmt.Sprintf("%s affected; above %d a second person decides", count(n, "service"), in.Policy.ApprovalAbove))
}

func downstreamExceeded(in Input, reasons []blastdoor.Reason) []blastdoor.Reason {
	limit, n := in.Policy.MaxDownstream, len(in.Plan.Radius.Downstream)
	if limit == nil || n <= *limit {
		return reasons
	}
	return deny(reasons, blastdoor.DownstreamExceeded,
		fmt.Sprintf("%s downstream; the policy allows at most %d", count(n, "service"), *limit))
}

func protectedResource(in Input, reasons []blastdoor.Reason) []blastdoor.Reason {
	effect, fires := effectOf(in.Policy.Protected)
	if names := in.Plan.Radius.Protected; fires && len(names) > 0 {
		verb := " are protected"
		if len(names) == 1 {
			verb = " is protected"
		}
		return append(reasons, blastdoor.Reason{Code: blastdoor.ProtectedResource, Effect: effect, Text: listed(names) + verb})
	}
	return reasons
}

// scaleToZero reads a number of replicas that it cannot read as zero.
func scaleToZero(in Input, reasons []blastdoor.Reason) []blastdoor.Reason {
	effect, fires := effectOf(in.Policy.ScaleToZero)
	if !fires {
		return reasons
	}
	for i := range in.Plan.Changes {
		c := &in.Plan.Changes[i]
		if c.Field != blastdoor.FieldReplicas || c.Before == "0" {
			continue
		}
		if n, err := strconv.Atoi(c.After); err != nil || n <= 0 {
			reasons = append(reasons, blastdoor.Reason{Code: blastdoor.ScaleToZero, Effect: effect,
				Text: fmt.Sprintf("%s would go from %s to %s replicas", c.Target, c.Before, c.After)})
		}
	}
	return reasons
}

// radiusOverlap notices that a write of another run is shaking something that
// this one would shake too: together they may be more than either plan says.
func radiusOverlap(in Input, reasons []blastdoor.Reason) []blastdoor.Reason {
	effect, fires := effectOf(in.Policy.RadiusOverlap)
	if !fires {
		return reasons
	}
	for i := range in.InFlight {
		f := &in.InFlight[i]
		if f.RunID == in.Plan.RunID {
			continue
		}
		if name, ok := overlap(in.Plan, f); ok {
			reasons = append(reasons, blastdoor.Reason{Code: blastdoor.RadiusOverlap, Effect: effect,
				Text: fmt.Sprintf("run %s has a write in flight that affects %s too", f.RunID, name)})
		}
	}
	return reasons
}

func overlap(p *blastdoor.Plan, f *blastdoor.Flight) (string, bool) {
	for _, mine := range [...][]string{p.Targets, p.Radius.Direct, p.Radius.Dependents} {
		for _, theirs := range [...][]string{f.Targets, f.Affected} {
			if name, ok := firstShared(mine, theirs); ok {
				return name, true
			}
		}
	}
	return "", false
}

func tierRequiresApproval(in Input, reasons []blastdoor.Reason) []blastdoor.Reason {
	if entry, ok := in.Policy.Entry(in.Plan.Action); ok && entry.Tier == blastdoor.TierApproval {
		return ask(reasons, blastdoor.TierRequiresApproval, fmt.Sprintf("%s always needs a second person", entry.Action))
	}
	return reasons
}

// lowConfidence is written so that a NaN on either side asks.
func lowConfidence(in Input, reasons []blastdoor.Reason) []blastdoor.Reason {
	if c := in.Confidence; c >= 0 && c <= 1 && c >= in.Policy.MinConfidence {
		return reasons
	}
	return ask(reasons, blastdoor.LowConfidence,
		fmt.Sprintf("the planner's confidence is %.2f; below %.2f a second person decides", in.Confidence, in.Policy.MinConfidence))
}

func graphIncomplete(in Input, reasons []blastdoor.Reason) []blastdoor.Reason {
	r := &in.Plan.Radius
	switch {
	case in.Plan.Fault != nil: // there was no rehearsal to compute a radius from
		return reasons
	case len(r.Unknown) > 0:
		return ask(reasons, blastdoor.GraphIncomplete,
			"the dependency graph does not know "+listed(r.Unknown)+", so more may be affected")
	case !r.Complete:
		return ask(reasons, blastdoor.GraphIncomplete, "the dependency graph was not walked to its end, so more may be affected")
	default:
		return reasons
	}
}

// graphStale distrusts a graph from the future as it does one from the past:
// either way the clocks do not say how old it is.
func graphStale(in Input, reasons []blastdoor.Reason) []blastdoor.Reason {
	if in.Plan.Fault != nil {
		return reasons
	}
	if in.GraphAsOf.IsZero() {
		return ask(reasons, blastdoor.GraphStale, "it is not known how old the dependency graph is")
	}
	if age := in.Now.Sub(in.GraphAsOf).Abs(); age > in.Policy.GraphMaxAge {
		return ask(reasons, blastdoor.GraphStale, fmt.Sprintf("the dependency graph is older than %s", in.Policy.GraphMaxAge))
	}
	return reasons
}
