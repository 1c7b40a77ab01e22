package engine

import (
	"context"
	"fmt"
	"time"

	"blastdoor"
	"blastdoor/verifier"
)

// perform does what the effect says and commits the outcome. ErrUnavailable means
// that nothing was decided and it may be tried again; on the last try whatever is
// missing counts against the run instead.
func (r *Runner) perform(ctx context.Context, run blastdoor.Run, effect Effect, last bool) (blastdoor.Run, error) {
	switch effect.Kind {
	case EffectPropose:
		return r.propose(ctx, run)
	case EffectRehearse:
		return r.rehearse(ctx, run, last)
	case EffectJudge:
		return r.judge(ctx, run, last)
	case EffectAsk:
		return r.ask(ctx, run)
	case EffectObserve:
		return r.observe(ctx, run, last)
	case EffectRecheck:
		return r.recheck(ctx, run, last)
	case EffectResolve:
		return r.resolve(ctx, run, last)
	case EffectEnd:
		return r.record(ctx, run, Finish{}, extras{})
	default:
		// Checks, rollbacks and pages have their place in the state machine; no
		// plan declares them yet, so reaching this is a fault, and it stops the run.
		return run, fmt.Errorf("no performer for effect %q", effect.Kind)
	}
}

func (r *Runner) propose(ctx context.Context, run blastdoor.Run) (blastdoor.Run, error) {
	step := run.Current()
	proposal, err := r.Planner.Propose(ctx, run, *step)
	if err != nil {
		return run, fmt.Errorf("asking the planner: %w", err)
	}
	return r.record(ctx, run, Propose{Proposal: proposal}, extras{})
}

func (r *Runner) rehearse(ctx context.Context, run blastdoor.Run, last bool) (blastdoor.Run, error) {
	pinned, err := r.pinned(ctx, run)
	if err != nil {
		return run, err
	}
	sealed, err := r.seal(ctx, run.ID, run.Current(), pinned.GraphWalkBound, last)
	if err != nil {
		return run, err
	}
	return r.record(ctx, run, Seal{Sealed: sealed}, extras{})
}

// seal turns the step's proposal into a plan. A proposal that cannot be planned becomes a
// plan with a fault, which the verifier denies; only ErrUnavailable is returned
// as an error, and not on the last try.
func (r *Runner) seal(ctx context.Context, runID string, step *blastdoor.StepState, bound int, last bool) (Sealed, error) {
	p := step.Proposal
	plan := blastdoor.Plan{RunID: runID, StepID: step.Step.ID, Action: p.Action, Params: p.Params, Kind: r.actions[p.Action].Kind}
	sealed := Sealed{}
	plan.Fault = r.faultOf(p, step.Step.ID)
	switch {
	case plan.Fault != nil:
	case plan.Kind == blastdoor.Write:
		if err := r.dryRun(ctx, &plan, &sealed, bound, last); err != nil {
			return Sealed{}, err
		}
	default:
		plan.Radius.Complete = true // a read reaches nobody
	}
	hash, err := plan.Hash()
	if err != nil {
		return Sealed{}, err
	}
	sealed.Plan, sealed.Hash = plan, hash
	return sealed, nil
}

// faultOf says why a proposal cannot even be rehearsed, or nil.
func (r *Runner) faultOf(p *blastdoor.Proposal, stepID string) *blastdoor.Reason {
	action, known := r.actions[p.Action]
	switch {
	case p.StepID != stepID:
		return fault(blastdoor.ParamsInvalid, fmt.Sprintf("the proposal is for step %q, not for this one", cut(p.StepID, 64)))
	case !known:
		return fault(blastdoor.UnknownAction, fmt.Sprintf("the environment has no action %q", cut(p.Action, 64)))
	}
	if err := r.Catalogue.ValidateParams(action, p.Params); err != nil {
		return fault(blastdoor.ParamsInvalid, Words(err))
	}
	return nil
}

func (r *Runner) dryRun(ctx context.Context, plan *blastdoor.Plan, sealed *Sealed, bound int, last bool) error {
	limited, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	rehearsal, err := r.Environment.DryRun(limited, plan.Action, plan.Params)
	err = overdue(limited, "the rehearsal", err)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case blastdoor.ErrUnavailable.Is(err) && !last:
		return fmt.Errorf("rehearsing %s: %w", plan.Action, err)
	case err != nil:
		plan.Fault = fault(blastdoor.DryRunFailed, Words(err))
		return nil
	}
	plan.Targets, plan.Changes, plan.Versions = rehearsal.Targets, rehearsal.Changes, rehearsal.Versions
	plan.Radius = verifier.Reach(rehearsal.Graph, rehearsal.Targets, bound)
	sealed.GraphAsOf = rehearsal.GraphAsOf
	return nil
}

func fault(code blastdoor.ReasonCode, text string) *blastdoor.Reason {
	return &blastdoor.Reason{Code: code, Effect: blastdoor.Deny, Text: text}
}

func (r *Runner) judge(ctx context.Context, run blastdoor.Run, last bool) (blastdoor.Run, error) {
	step := run.Current()
	sealed := Sealed{Plan: *step.Plan, Hash: step.PlanHash, GraphAsOf: step.GraphAsOf}
	j, now, err := r.verdict(ctx, run, sealed, last)
	if err != nil {
		return run, err
	}
	return r.record(ctx, run, Judge{Judgement: j}, extras{documents: now.documents})
}

// rules are the policy of now beside the one that the run pinned.
type rules struct {
	pinned, current blastdoor.Policy
	digest          string // of current
	documents       []blastdoor.Document
}

func (r *Runner) rules(ctx context.Context, run blastdoor.Run) (rules, error) {
	pinned, err := r.pinned(ctx, run)
	if err != nil {
		return rules{}, err
	}
	current, err := r.Catalogue.Policy(ctx)
	if err != nil {
		return rules{}, &blastdoor.Error{Code: blastdoor.ErrUnavailable, Msg: "the policy cannot be read", Err: err}
	}
	doc, err := document(current)
	if err != nil {
		return rules{}, err
	}
	return rules{pinned: pinned, current: current, digest: doc.Digest, documents: []blastdoor.Document{doc}}, nil
}

// verdict asks the verifier under the pinned policy and under the policy of now;
// the stricter answer counts.
func (r *Runner) verdict(ctx context.Context, run blastdoor.Run, sealed Sealed, last bool) (Judgement, rules, error) {
	now, err := r.rules(ctx, run)
	if err != nil {
		return Judgement{}, rules{}, err
	}
	circumstances, err := r.circumstances(ctx, run, sealed, now, last)
	if err != nil {
		return Judgement{}, rules{}, err
	}
	return Judgement{PolicyDigest: now.digest, Circumstances: circumstances,
		Verdict: Verdict(sealed.Plan, now.pinned, now.current, circumstances)}, now, nil
}

// Verdict is the stricter of the verdicts under two policies. It is pure, so that
// a stored verdict can be computed again from what is stored beside it.
func Verdict(plan blastdoor.Plan, pinned, current blastdoor.Policy, c blastdoor.Circumstances) blastdoor.Verdict {
	return verifier.Stricter(
		verifier.Verify(verifier.Input{Plan: &plan, Policy: &pinned, Circumstances: &c}),
		verifier.Verify(verifier.Input{Plan: &plan, Policy: &current, Circumstances: &c}))
}

// circumstances reads the world around a plan, fresh. A requester who cannot be
// looked up counts as nobody on the last try, and nobody may ask for anything.
func (r *Runner) circumstances(ctx context.Context, run blastdoor.Run, sealed Sealed, now rules, last bool) (blastdoor.Circumstances, error) {
	flights, err := r.Board.InFlight(ctx)
	if err != nil {
		return blastdoor.Circumstances{}, fmt.Errorf("reading writes in flight: %w", err)
	}
	requester, groups, err := r.requester(ctx, run, now)
	if err != nil {
		if !last || ctx.Err() != nil {
			return blastdoor.Circumstances{}, err
		}
		requester, groups = blastdoor.Principal{UserID: run.Requester.UserID, TeamID: run.Requester.TeamID}, nil
	}
	step := run.Current()
	return blastdoor.Circumstances{Now: r.Now().UTC(), WritesSoFar: writesBefore(run, step), InFlight: others(flights, run.ID),
		Requester: requester, RequesterGroups: groups, Channel: run.Channel, Runbook: run.Runbook,
		Confidence: step.Proposal.Confidence, GraphAsOf: sealed.GraphAsOf.UTC(), BreakGlass: run.BreakGlass,
		Planned: step.Proposal.Planner != blastdoor.RunbookPlanner}, nil
}

// writesBefore counts the run's writes without the one that is being decided.
func writesBefore(run blastdoor.Run, step *blastdoor.StepState) int {
	if step.Intent != nil {
		return run.Writes - 1
	}
	return run.Writes
}

func others(flights []blastdoor.Flight, runID string) []blastdoor.Flight {
	var out []blastdoor.Flight
	for _, f := range flights {
		if f.RunID != runID {
			out = append(out, f)
		}
	}
	return out
}

func (r *Runner) requester(ctx context.Context, run blastdoor.Run, now rules) (blastdoor.Principal, []string, error) {
	person, err := r.Directory.Person(ctx, run.Requester.UserID, run.Requester.TeamID)
	if err != nil {
		return blastdoor.Principal{}, nil, unavailable("looking up the requester", err)
	}
	var named []string
	for _, policy := range []blastdoor.Policy{now.pinned, now.current} {
		rule, _ := policy.ChannelRule(run.Channel)
		named = append(named, rule.Requesters.Groups...)
		for _, freeze := range policy.Freezes {
			if run.BreakGlass != "" && freeze.BreakGlass != nil {
				named = append(named, freeze.BreakGlass.Groups...)
			}
		}
	}
	if len(named) == 0 {
		return person, nil, nil
	}
	groups, err := r.Directory.Groups(ctx, person.UserID, named)
	if err != nil {
		return blastdoor.Principal{}, nil, unavailable("looking up the requester's groups", err)
	}
	return person, groups, nil
}

func unavailable(doing string, err error) error {
	return &blastdoor.Error{Code: blastdoor.ErrUnavailable, Msg: doing + " is not possible right now", Err: err}
}

func (r *Runner) ask(ctx context.Context, run blastdoor.Run) (blastdoor.Run, error) {
	now, err := r.rules(ctx, run)
	if err != nil {
		return run, err
	}
	pinned, current := r.approvers(run.Current(), now)
	pinned.Quorum = max(pinned.Quorum, current.Quorum)
	return r.record(ctx, run, Ask{Approvers: pinned, TTL: min(now.pinned.ApprovalTTL, now.current.ApprovalTTL)}, extras{})
}

// approvers are who may approve the step under the pinned policy and under that of
// now; a vote must satisfy both.
func (r *Runner) approvers(step *blastdoor.StepState, now rules) (pinned, current blastdoor.Approvers) {
	broken := step.Verdict != nil && step.Verdict.Has(blastdoor.BreakGlass)
	return verifier.ApproversFor(&now.pinned, step.Plan, r.Now(), broken), verifier.ApproversFor(&now.current, step.Plan, r.Now(), broken)
}

func (r *Runner) observe(ctx context.Context, run blastdoor.Run, last bool) (blastdoor.Run, error) {
	plan := run.Current().Plan
	limited, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	observation, err := r.Environment.Observe(limited, plan.Action, plan.Params)
	err = overdue(limited, "the read", err)
	switch {
	case ctx.Err() != nil:
		return run, ctx.Err()
	case blastdoor.ErrUnavailable.Is(err) && !last:
		return run, err
	}
	observation.Summary = cut(observation.Summary, 4000)
	return r.record(ctx, run, Observe{Observation: observation, Err: err}, extras{})
}

// pinned returns the policy that was in force when the run began.
func (r *Runner) pinned(ctx context.Context, run blastdoor.Run) (blastdoor.Policy, error) {
	body, err := r.Journal.Document(ctx, run.PolicyDigest)
	if err != nil {
		return blastdoor.Policy{}, fmt.Errorf("reading the pinned policy: %w", err)
	}
	return ParsePolicy(body)
}

// again rehearses the stored proposal once more and judges it under the rules of now.
func (r *Runner) again(ctx context.Context, run blastdoor.Run, last bool) (Sealed, Judgement, rules, error) {
	step := run.Current()
	if err := genuine(step); err != nil {
		return Sealed{}, Judgement{}, rules{}, err
	}
	pinned, err := r.pinned(ctx, run)
	if err != nil {
		return Sealed{}, Judgement{}, rules{}, err
	}
	sealed, err := r.seal(ctx, run.ID, step, pinned.GraphWalkBound, last)
	if err != nil {
		return Sealed{}, Judgement{}, rules{}, err
	}
	j, now, err := r.verdict(ctx, run, sealed, last)
	return sealed, j, now, err
}

// genuine refuses a plan that is not the one its hash was taken of.
func genuine(step *blastdoor.StepState) error {
	hash, err := step.Plan.Hash()
	if err != nil {
		return err
	}
	if hash != step.PlanHash {
		return blastdoor.Errorf(blastdoor.ErrIntegrity, "step %s: the stored plan hashes to %s, not to %s", step.Step.ID, hash, step.PlanHash)
	}
	return nil
}

// recheck is the last look before the intent is journalled.
func (r *Runner) recheck(ctx context.Context, run blastdoor.Run, last bool) (blastdoor.Run, error) {
	sealed, judgement, now, err := r.again(ctx, run, last)
	if err != nil {
		return run, err
	}
	before, since := r.approvers(run.Current(), now)
	cmd := Recheck{Sealed: sealed, Judgement: judgement, TTL: min(now.pinned.ApprovalTTL, now.current.ApprovalTTL),
		Quorum: max(before.Quorum, since.Quorum)}
	return r.record(ctx, run, cmd, extras{documents: now.documents})
}

// resolve asks the environment about the intent's key and goes on from the
// answer. It is the only caller of Apply, so the first write and the write after
// a crash take the same way: look up, look again at world and rules, write.
func (r *Runner) resolve(ctx context.Context, run blastdoor.Run, last bool) (blastdoor.Run, error) {
	step := run.Current()
	cmd := r.lookup(ctx, step.Intent.Key)
	if ctx.Err() != nil {
		return run, ctx.Err()
	}
	if cmd.Outcome != blastdoor.OutcomeNotApplied {
		return r.record(ctx, run, cmd, extras{})
	}
	var now rules
	var err error
	if cmd.Sealed, cmd.Judgement, now, err = r.again(ctx, run, last); err != nil {
		return run, err
	}
	next, err := r.record(ctx, run, cmd, extras{documents: now.documents})
	if err != nil || next.Len != run.Len {
		return next, err // abandoned
	}
	limited, cancel := context.WithTimeout(ctx, applyLimit)
	defer cancel()
	receipt, err := r.Environment.Apply(limited, step.Intent.Key, *step.Plan)
	if ctx.Err() != nil && err != nil {
		return run, ctx.Err() // the intent stands; the next start looks the key up
	}
	// A shutdown that began during the write must not lose a known outcome.
	return r.record(context.WithoutCancel(ctx), run, Outcome{Receipt: receipt, Err: err}, extras{})
}

func (r *Runner) lookup(ctx context.Context, key string) Resolve {
	limited, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	outcome, receipt, err := r.Environment.Lookup(limited, key)
	if err != nil {
		outcome = blastdoor.OutcomeUnknown
	}
	return Resolve{Outcome: outcome, Receipt: receipt}
}

// askLimit bounds a question to the environment and applyLimit a write: a call
// that hangs must not hold a run, and what it has locked, for ever. A write that
// is cut off is unknown, and its key is looked up.
const (
	askLimit   = 30 * time.Second
	applyLimit = 2 * time.Minute
)

// overdue turns a call that ran out of its own time into ErrUnavailable.
func overdue(limited context.Context, what string, err error) error {
	if err != nil && limited.Err() == context.DeadlineExceeded {
		return &blastdoor.Error{Code: blastdoor.ErrUnavailable, Msg: what + " took too long", Err: err}
	}
	return err
}
