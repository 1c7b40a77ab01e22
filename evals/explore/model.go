package explore

import (
	"fmt"
	"slices"
	"time"

	"blastdoor"
	"blastdoor/engine"
	"blastdoor/verifier"
)

// The model is small on purpose: one target, a few seconds, five people.
const (
	target   = "db"
	channel  = "C0OPS"
	workers  = 2 // runs, each with one worker
	cardLife = 2 * time.Second
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// bounds keep a model finite. Everything else in it is finite by itself.
type bounds struct {
	runs    int  // how many of the two runs are ever asked for
	disturb int  // how often somebody else changes the target, its dependents, a freeze or the limits
	stale   bool // whether workers can lose their lease and not know
}

// flaws are ways to break the model on purpose, one at a time.
type flaws struct {
	reusesApproval bool // a write that failed goes back to its approval, which is not spent
	countsAtExpiry bool // an approval still counts at the instant of its expiry
	naive          bool // the environment enforces neither key nor version
	ignoresKey     bool // the environment enforces versions only
	skipsRecheck   bool // the looks before the write are those of the first verdict
	selfApproval   bool // the requester counts as a second person
	noConflict     bool // the journal takes what was decided on an older history
	noLocks        bool // the journal does not lock targets
	guesses        bool // Lookup says "not applied" of a write that is on its way
	lengthOnly     bool // a lease is given away while nobody has written since
	writesStale    bool // a worker that has lost its lease still writes
}

// model is the world around the core: policies, people, plans, and what is broken.
type model struct {
	bounds
	flaws
	policies map[rules]*policy
	byDigest map[string]blastdoor.Policy
	plans    map[planKey]engine.Sealed
	pages    map[string]blastdoor.Principal
}

// rules are what people may change while runs are under way.
type rules struct {
	frozen bool // a freeze on a dependent of the target
	strict bool // a lower threshold and a quorum of two
}

type policy struct {
	body   blastdoor.Policy
	digest string
}

// world is what a rehearsal sees.
type world struct {
	version int  // of the target
	edge    bool // a dependency has been added
}

type planKey struct {
	run  int
	step string
	world
}

func newModel(b bounds, f flaws) (*model, error) {
	m := &model{bounds: b, flaws: f, policies: map[rules]*policy{}, byDigest: map[string]blastdoor.Policy{},
		plans: map[planKey]engine.Sealed{}, pages: map[string]blastdoor.Principal{}}
	for _, id := range []string{"U0ALICE", "U0BOB", "U0CAROL", "U0MALLORY", "U0GUEST"} {
		m.pages[id] = blastdoor.Principal{UserID: id, TeamID: "T0ACME", Verified: true, Guest: id == "U0GUEST"}
	}
	for _, r := range []rules{{}, {frozen: true}, {strict: true}, {frozen: true, strict: true}} {
		body := policyOf(r)
		digest, err := blastdoor.Digest(body)
		if err != nil {
			return nil, err
		}
		m.policies[r] = &policy{body, digest}
		m.byDigest[digest] = body
	}
	for run := range workers {
		for _, step := range steps(run) {
			for version := range 2 + 2*workers + b.disturb {
				for _, edge := range []bool{false, true} {
					key := planKey{run, step.ID, world{version, edge}}
					sealed, err := seal(key, step)
					if err != nil {
						return nil, err
					}
					m.plans[key] = sealed
				}
			}
		}
	}
	return m, nil
}

func policyOf(r rules) blastdoor.Policy {
	p := blastdoor.Policy{Name: "model", MaxAffected: 10, ApprovalAbove: 5, MaxWritesPerRun: 3, Protected: blastdoor.RuleAsk,
		ScaleToZero: blastdoor.RuleDeny, RadiusOverlap: blastdoor.RuleAsk, GraphMaxAge: 10_000 * time.Hour, GraphWalkBound: 100,
		ApprovalTTL: cardLife,
		Approvers:   blastdoor.Approvers{Users: []string{"U0ALICE", "U0BOB", "U0CAROL", "U0GUEST"}, Quorum: 1},
		Channels:    []blastdoor.ChannelRule{{ID: channel, Runbooks: []string{"*"}, Requesters: blastdoor.People{Anyone: true}}},
		Menu: []blastdoor.MenuEntry{{Action: "get_status"}, {Action: "restart_service"},
			{Action: "scale_service", Tier: blastdoor.TierApproval}}}
	if r.strict {
		p.ApprovalAbove, p.Approvers.Quorum = 1, 2
	}
	if r.frozen {
		p.Freezes = []blastdoor.Freeze{{Name: "incident", Names: []string{"api"}}}
	}
	return p
}

// steps of the two runs: the first asks for one write that always needs a second
// person, the second reads, and then makes a write that may need nobody.
func steps(run int) []blastdoor.Step {
	params := blastdoor.Params{"service": target}
	if run == 0 {
		return []blastdoor.Step{{ID: "scale", Action: "scale_service", Params: params}}
	}
	return []blastdoor.Step{{ID: "look", Action: "get_status", Params: params}, {ID: "restart", Action: "restart_service", Params: params}}
}

// requester of a run. The second run's is an approver of the first.
func requester(run int) string { return []string{"U0ALICE", "U0BOB"}[run] }

func runID(run int) string { return []string{"first", "second"}[run] }

func seal(key planKey, step blastdoor.Step) (engine.Sealed, error) {
	plan := blastdoor.Plan{RunID: runID(key.run), StepID: step.ID, Action: step.Action, Kind: blastdoor.Write, Params: step.Params}
	if step.Action == "get_status" {
		plan.Kind, plan.Radius.Complete = blastdoor.Read, true
	} else {
		edges := []blastdoor.Edge{{From: "api", To: target, Kind: blastdoor.Calls}}
		if key.edge {
			edges = append(edges, blastdoor.Edge{From: "web", To: target, Kind: blastdoor.Calls})
		}
		graph, err := blastdoor.NewGraph([]blastdoor.Node{{Name: target}, {Name: "api"}, {Name: "web"}}, edges)
		if err != nil {
			return engine.Sealed{}, err
		}
		was := fmt.Sprint(key.version)
		plan.Targets, plan.Versions = []string{target}, map[string]string{target: was}
		plan.Changes = []blastdoor.Change{{Target: target, Field: "generation", Before: was, After: fmt.Sprint(key.version + 1)}}
		plan.Radius = verifier.Reach(graph, plan.Targets, 100)
	}
	hash, err := plan.Hash()
	return engine.Sealed{Plan: plan, Hash: hash}, err
}

// at is the clock's reading.
func at(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

// sealed is what the rehearsal of a step answers in the world of now.
func (m *model) sealed(s *state, run int, step string) engine.Sealed {
	sealed := m.plans[planKey{run, step, s.env.world}]
	sealed.GraphAsOf = at(s.now)
	return sealed
}

// judge asks the verifier as the runner does: under the pinned policy and under that of now.
func (m *model) judge(s *state, run int, sealed engine.Sealed) engine.Judgement {
	current := m.policies[s.rules]
	r := &s.runs[run].run
	step := r.Current()
	writes := r.Writes
	if step.Intent != nil {
		writes--
	}
	c := blastdoor.Circumstances{Now: at(s.now), WritesSoFar: writes, Requester: r.Requester, Channel: r.Channel,
		Runbook: r.Runbook, Confidence: step.Proposal.Confidence, GraphAsOf: sealed.GraphAsOf}
	for other := range s.runs {
		if p := s.runs[other]; other != run && p != nil && p.proj.Flight != nil {
			c.InFlight = append(c.InFlight, *p.proj.Flight)
		}
	}
	return engine.Judgement{PolicyDigest: current.digest, Circumstances: c,
		Verdict: engine.Verdict(sealed.Plan, m.byDigest[r.PolicyDigest], current.body, c)}
}

// decide is engine.Decide, or a broken one.
func (m *model) decide(run blastdoor.Run, cmd engine.Command, now time.Time) ([]blastdoor.Event, error) {
	if _, ok := cmd.(engine.Recheck); ok && m.countsAtExpiry {
		if step := run.Current(); step != nil && step.Approval != nil && step.Approval.ExpiresAt.Equal(now) {
			events, err := engine.Decide(run, cmd, now.Add(-time.Nanosecond))
			for i := range events {
				events[i].At = now
			}
			return events, err
		}
	}
	if vote, ok := cmd.(engine.Vote); ok && m.selfApproval && vote.Person.Same(run.Requester) {
		run.Requester = blastdoor.Principal{UserID: "U0NOBODY"}
	}
	return engine.Decide(run, cmd, now)
}

// next is engine.Next, or a broken one.
func (m *model) next(run blastdoor.Run, now time.Time) engine.Effect {
	if step := run.Current(); m.countsAtExpiry && step != nil && step.Status == blastdoor.StatusApproved && step.Approval.ExpiresAt.Equal(now) {
		now = now.Add(-time.Nanosecond)
	}
	return engine.Next(run, now)
}

// evolve is engine.Evolve, or a broken one.
func (m *model) evolve(run blastdoor.Run, e blastdoor.Event) (blastdoor.Run, error) {
	next, err := engine.Evolve(run, e)
	if failed, ok := e.Body.(*blastdoor.ApplyFailed); ok && err == nil && m.reusesApproval && failed.Code == blastdoor.ErrNotApplied {
		step := next.StepByID(e.Step)
		if step.Approval != nil {
			approval := *step.Approval
			approval.Status = blastdoor.GrantedApproval
			step.Approval, step.Status = &approval, blastdoor.StatusApproved
		}
	}
	return next, err
}

// mayApprove is who may, said independently of the verifier.
func (m *model) mayApprove(user string, run *blastdoor.Run) bool {
	return user != run.Requester.UserID && slices.Contains([]string{"U0ALICE", "U0BOB", "U0CAROL"}, user)
}
