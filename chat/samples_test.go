package chat

import (
	"fmt"
	"time"

	"blastdoor"
	"blastdoor/chat/slacksim"
)

func at(minutes int) time.Time {
	return time.Date(2026, 11, 29, 14, 0, 0, 0, time.UTC).Add(time.Duration(minutes) * time.Minute)
}

const sampleHash = "sha256:3f2a9c41d0e5b7a6918273645546372819a0b1c2d3e4f5061728394a5b6c7d8e"

// sampleRun is a drain of host-a that waits for a second person.
func sampleRun() blastdoor.Run {
	plan := blastdoor.Plan{RunID: "drain-host-a-1", StepID: "drain", Action: "drain_host", Kind: blastdoor.Write,
		Params: blastdoor.Params{"host": "host-a"}, Targets: []string{"cache", "db", "host-a"},
		Changes: []blastdoor.Change{
			{Target: "cache", Field: "host", Before: "host-a", After: "host-b"},
			{Target: "db", Field: "host", Before: "host-a", After: "host-c"},
			{Target: "host-a", Field: "drained", Before: "false", After: "true"}},
		Radius: blastdoor.Radius{Direct: []string{"cache", "db"},
			Dependents: []string{"api", "auth-svc", "batch-report", "search", "web", "worker"},
			Hosts:      []string{"host-a"}, Protected: []string{"auth-svc", "db"}, Complete: true},
		Versions: map[string]string{"cache": "1", "db": "1", "host-a": "1"}}
	verdict := blastdoor.Verdict{Decision: blastdoor.NeedsApproval, Reasons: []blastdoor.Reason{
		{Code: blastdoor.BlastRadiusOverThreshold, Effect: blastdoor.NeedsApproval, Text: "8 services are affected, more than 3"},
		{Code: blastdoor.ProtectedResource, Effect: blastdoor.NeedsApproval, Text: "auth-svc and db are protected"}}}
	approval := blastdoor.Approval{ID: "ap-1", StepID: "drain", PlanHash: sampleHash, DeliveryID: "drain-host-a-1/drain/plan-1",
		RequestedAt: at(1), ExpiresAt: at(16), Quorum: 1, Status: blastdoor.PendingApproval,
		Approvers: blastdoor.Approvers{Groups: []string{slacksim.SRE}, Quorum: 1}}
	return blastdoor.Run{ID: "drain-host-a-1", Runbook: "drain-host-a", RunbookDigest: "sha256:aaaa1111", PolicyDigest: "sha256:bbbb2222",
		Inputs: blastdoor.Params{"reason": "disk is failing"}, Requester: blastdoor.Principal{UserID: slacksim.Alice, TeamID: slacksim.TeamID, Verified: true},
		Channel: slacksim.Ops, RequestedAt: at(0), UpdatedAt: at(1), Len: 5,
		Steps: []blastdoor.StepState{
			{Step: blastdoor.Step{ID: "drain", Action: "drain_host"}, Status: blastdoor.StatusWaiting, Plan: &plan, PlanHash: sampleHash,
				Plans: 1, Verdict: &verdict, Approval: &approval, Since: at(1)},
			{Step: blastdoor.Step{ID: "look", Action: "get_service_status", DependsOn: []string{"drain"}}, Status: blastdoor.StatusPending}}}
}

func vote(user string) blastdoor.Vote {
	return blastdoor.Vote{By: blastdoor.Principal{UserID: user, TeamID: slacksim.TeamID}, At: at(3)}
}

// sampleStates are the runs that the goldens show, one for each state of a card.
func sampleStates() map[string]blastdoor.Run {
	out := map[string]blastdoor.Run{"waiting": sampleRun()}
	state := func(name string, change func(run *blastdoor.Run, step *blastdoor.StepState)) {
		run := sampleRun()
		run.Len, run.UpdatedAt = 9, at(4)
		run.Steps[0].Since = at(4)
		change(&run, &run.Steps[0])
		out[name] = run
	}
	end := func(run *blastdoor.Run, outcome blastdoor.RunOutcome) {
		run.Outcome = outcome
		run.Steps[1].Status = blastdoor.StatusSkipped
	}
	grant := func(step *blastdoor.StepState, status blastdoor.ApprovalStatus) {
		step.Approval.Status, step.Approval.Votes = status, []blastdoor.Vote{vote(slacksim.Bob)}
	}
	state("quorum", func(_ *blastdoor.Run, step *blastdoor.StepState) {
		step.Approval.Quorum, step.Approval.Votes = 2, []blastdoor.Vote{vote(slacksim.Bob)}
	})
	state("break_glass", func(run *blastdoor.Run, step *blastdoor.StepState) {
		run.BreakGlass = "the database is on fire"
		step.Verdict = &blastdoor.Verdict{Decision: blastdoor.NeedsApproval, Reasons: append([]blastdoor.Reason{{Code: blastdoor.BreakGlass,
			Effect: blastdoor.NeedsApproval, Text: `the glass is broken: freeze "sale" covers everything; the reason given: the database is on fire`}},
			step.Verdict.Reasons...)}
		step.Approval.Quorum = 2
	})
	state("approved", func(_ *blastdoor.Run, step *blastdoor.StepState) {
		grant(step, blastdoor.GrantedApproval)
		step.Status = blastdoor.StatusApproved
	})
	state("intended", func(run *blastdoor.Run, step *blastdoor.StepState) {
		grant(step, blastdoor.ConsumedApproval)
		step.Status, run.Writes = blastdoor.StatusIntended, 1
		step.Intent = &blastdoor.Intent{Key: "bd1-0011", PlanHash: sampleHash, At: at(4)}
	})
	state("doubtful", func(run *blastdoor.Run, step *blastdoor.StepState) {
		grant(step, blastdoor.ConsumedApproval)
		step.Status, run.Writes = blastdoor.StatusDoubtful, 1
		step.Detail = "the connection was cut while the write was being made"
	})
	state("applied", func(run *blastdoor.Run, step *blastdoor.StepState) {
		grant(step, blastdoor.ConsumedApproval)
		step.Status, run.Writes = blastdoor.StatusDone, 1
		step.Intent = &blastdoor.Intent{Key: "bd1-0011", PlanHash: sampleHash, At: at(4)}
		step.Receipt = &blastdoor.Receipt{Key: "bd1-0011", Effect: "effect-17", At: at(4), Summary: "drained host-a: moved cache and db"}
		run.Steps[1].Status, run.Steps[1].Output, run.Steps[1].Since = blastdoor.StatusDone, "cache: 2 replicas on host-b\ndb: 3 replicas on host-c", at(4)
		run.Outcome = blastdoor.RunCompleted
	})
	state("declined", func(run *blastdoor.Run, step *blastdoor.StepState) {
		v := vote(slacksim.Bob)
		step.Approval.Status, step.Approval.DeclinedBy = blastdoor.DeclinedApproval, &v
		step.Status, run.EndedBy = blastdoor.StatusDeclined, &v.By
		end(run, blastdoor.RunDeclined)
	})
	state("expired", func(run *blastdoor.Run, step *blastdoor.StepState) {
		step.Approval.Status, step.Status = blastdoor.ExpiredApproval, blastdoor.StatusExpired
		end(run, blastdoor.RunExpired)
	})
	state("cancelled", func(run *blastdoor.Run, step *blastdoor.StepState) {
		step.Approval.Status, step.Status = blastdoor.VoidApproval, blastdoor.StatusCancelled
		run.EndedBy = &run.Requester
		end(run, blastdoor.RunCancelled)
	})
	state("drifted", func(_ *blastdoor.Run, step *blastdoor.StepState) {
		grant(step, blastdoor.VoidApproval)
		step.Status, step.Detail = blastdoor.StatusProposed, "what would change is no longer the same: db host host-a → host-e"
	})
	state("superseded", func(_ *blastdoor.Run, step *blastdoor.StepState) { step.Plans = 2 })
	state("denied", func(run *blastdoor.Run, step *blastdoor.StepState) {
		step.Approval, step.Status = nil, blastdoor.StatusDenied
		step.Verdict = &blastdoor.Verdict{Decision: blastdoor.Deny, Reasons: []blastdoor.Reason{
			{Code: blastdoor.BlastRadiusExceeded, Effect: blastdoor.Deny, Text: "8 services are affected, 5 are allowed"},
			{Code: blastdoor.ProtectedResource, Effect: blastdoor.Deny, Text: "auth-svc and db are protected"}}}
		end(run, blastdoor.RunDenied)
	})
	state("fault", func(run *blastdoor.Run, step *blastdoor.StepState) {
		fault := blastdoor.Reason{Code: blastdoor.DryRunFailed, Effect: blastdoor.Deny, Text: "there is no host host-z"}
		step.Approval, step.Status = nil, blastdoor.StatusDenied
		step.Plan.Fault, step.Plan.Changes, step.Plan.Radius = &fault, nil, blastdoor.Radius{}
		step.Verdict = &blastdoor.Verdict{Decision: blastdoor.Deny, Reasons: []blastdoor.Reason{fault}}
		end(run, blastdoor.RunDenied)
	})
	state("allowed", func(_ *blastdoor.Run, step *blastdoor.StepState) {
		step.Approval, step.Status = nil, blastdoor.StatusAllowed
		step.Step.Action, step.Plan.Targets = "restart_service", []string{"search"}
		step.Plan.Radius = blastdoor.Radius{Direct: []string{"search"}, Hosts: []string{"host-d"}, Complete: true}
		step.Plan.Changes = []blastdoor.Change{{Target: "search", Field: "restarts", Before: "0", After: "1"}}
		step.Verdict = &blastdoor.Verdict{Decision: blastdoor.Allow, Reasons: []blastdoor.Reason{
			{Code: blastdoor.WithinPolicy, Effect: blastdoor.Allow, Text: "within policy"}}}
	})
	state("read", func(_ *blastdoor.Run, step *blastdoor.StepState) {
		step.Approval, step.Status, step.Output = nil, blastdoor.StatusDone, "api: 4 of 4 replicas up"
		step.Step.Action, step.Plan.Kind, step.Plan.Changes = "get_service_status", blastdoor.Read, nil
		step.Plan.Targets, step.Plan.Radius = []string{"api"}, blastdoor.Radius{Complete: true}
		step.Verdict = &blastdoor.Verdict{Decision: blastdoor.Allow, Reasons: []blastdoor.Reason{
			{Code: blastdoor.WithinPolicy, Effect: blastdoor.Allow, Text: "within policy"}}}
	})
	state("failed", func(run *blastdoor.Run, step *blastdoor.StepState) {
		grant(step, blastdoor.ConsumedApproval)
		step.Status, step.Detail, run.Writes = blastdoor.StatusFailed, "host-a has moved since the plan was made; nothing was written", 1
		end(run, blastdoor.RunFailed)
	})
	state("in_doubt", func(run *blastdoor.Run, step *blastdoor.StepState) {
		grant(step, blastdoor.ConsumedApproval)
		step.Status, step.Detail, run.Writes = blastdoor.StatusInDoubt, "the environment cannot say whether the write happened", 1
		run.Detail = step.Detail
		end(run, blastdoor.RunInDoubt)
	})
	state("incomplete", func(_ *blastdoor.Run, step *blastdoor.StepState) {
		step.Plan.Radius.Complete, step.Plan.Radius.Unknown = false, []string{"ghost"}
		step.Plan.Radius.Downstream = []string{"cache", "db", "mail"}
	})
	state("huge", func(_ *blastdoor.Run, step *blastdoor.StepState) { widen(step.Plan, 500) })
	return out
}

// widen makes a plan affect n services.
func widen(plan *blastdoor.Plan, n int) {
	plan.Radius.Dependents = nil
	for i := range n - len(plan.Radius.Direct) {
		plan.Radius.Dependents = append(plan.Radius.Dependents, fmt.Sprintf("service-%04d", i))
	}
	for i := range n {
		plan.Changes = append(plan.Changes, blastdoor.Change{Target: fmt.Sprintf("service-%04d", i), Field: "host", Before: "host-a", After: "host-b"})
	}
}
