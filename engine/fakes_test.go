package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"blastdoor"
	"blastdoor/internal/memstore"
)

// world is an environment in memory: services with versions, dependents of db,
// and a ledger. It reports its own misuse by failing the test.
type world struct {
	t        *testing.T
	mu       sync.Mutex
	restarts map[string]int
	versions map[string]int
	ledger   []string
	receipts map[string]blastdoor.Receipt
	extra    []blastdoor.Edge // dependencies added later
	naive    bool             // negative control: no keys, no versions
	hang     bool             // a write lands and never answers
	// fault is asked before and after every call: "dry_run", "lookup", "apply", "observe".
	fault func(op string) (before, after error)
}

func newWorld(t *testing.T) *world {
	return &world{t: t, restarts: map[string]int{}, versions: map[string]int{"db": 1, "api": 1, "web": 1, "solo": 1},
		receipts: map[string]blastdoor.Receipt{}, fault: func(string) (error, error) { return nil, nil }}
}

func (w *world) Actions() []blastdoor.Action {
	return []blastdoor.Action{{Name: "get_status", Kind: blastdoor.Read}, {Name: "restart_service", Kind: blastdoor.Write}}
}

func (w *world) enter(op string) (leave func() error, err error) {
	before, after := w.fault(op)
	return func() error { return after }, before
}

func (w *world) Observe(context.Context, string, blastdoor.Params) (blastdoor.Observation, error) {
	leave, err := w.enter("observe")
	if err != nil {
		return blastdoor.Observation{}, err
	}
	return blastdoor.Observation{Summary: "all is well"}, leave()
}

func (w *world) DryRun(_ context.Context, _ string, params blastdoor.Params) (blastdoor.Rehearsal, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	leave, err := w.enter("dry_run")
	if err != nil {
		return blastdoor.Rehearsal{}, err
	}
	service, _ := params["service"].(string)
	if w.versions[service] == 0 {
		return blastdoor.Rehearsal{}, blastdoor.Errorf(blastdoor.ErrNotFound, "there is no service %q", service)
	}
	nodes := []blastdoor.Node{{Name: "db", Protected: true}, {Name: "api"}, {Name: "web"}, {Name: "solo"}}
	graph, err := blastdoor.NewGraph(nodes, append([]blastdoor.Edge{{From: "api", To: "db", Kind: blastdoor.Calls},
		{From: "web", To: "api", Kind: blastdoor.Calls}}, w.extra...))
	require.NoError(w.t, err)
	n := w.restarts[service]
	if w.naive {
		n = 0
	}
	return blastdoor.Rehearsal{Targets: []string{service}, Graph: graph, GraphAsOf: time.Now(),
		Changes:  []blastdoor.Change{{Target: service, Field: "restarts", Before: strconv.Itoa(n), After: strconv.Itoa(n + 1)}},
		Versions: map[string]string{service: strconv.Itoa(w.versions[service])}}, leave()
}

func (w *world) Apply(ctx context.Context, key string, plan blastdoor.Plan) (blastdoor.Receipt, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	leave, err := w.enter("apply")
	if err != nil {
		return blastdoor.Receipt{}, err
	}
	service := plan.Targets[0]
	if receipt, ok := w.receipts[key]; ok && !w.naive {
		receipt.Replayed = true
		return receipt, leave()
	}
	if plan.Versions[service] != strconv.Itoa(w.versions[service]) && !w.naive {
		return blastdoor.Receipt{}, blastdoor.Errorf(blastdoor.ErrWorldMoved, "%s has moved", service)
	}
	w.restarts[service]++
	if !w.naive {
		w.versions[service]++
	}
	w.ledger = append(w.ledger, key)
	w.receipts[key] = blastdoor.Receipt{Key: key, Effect: strconv.Itoa(len(w.ledger)), At: time.Now(), Summary: "restarted " + service}
	if w.hang {
		w.mu.Unlock()
		<-ctx.Done()
		w.mu.Lock()
		return blastdoor.Receipt{}, ctx.Err()
	}
	return w.receipts[key], leave()
}

func (w *world) Lookup(_ context.Context, key string) (blastdoor.Outcome, blastdoor.Receipt, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	leave, err := w.enter("lookup")
	if err != nil {
		return blastdoor.OutcomeUnknown, blastdoor.Receipt{}, err
	}
	if receipt, ok := w.receipts[key]; ok && !w.naive {
		return blastdoor.OutcomeApplied, receipt, leave()
	}
	return blastdoor.OutcomeNotApplied, blastdoor.Receipt{}, leave()
}

func (w *world) move(service string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.versions[service]++
}

// people is a directory; an unknown id is an error.
type people struct {
	mu     sync.Mutex
	known  map[string]blastdoor.Principal
	groups map[string][]string // by group
	err    error
}

func newPeople() *people {
	p := &people{known: map[string]blastdoor.Principal{}, groups: map[string][]string{"S0SRE": {"U0BOB", "U0CAROL"}}}
	for _, id := range []string{"U0ALICE", "U0BOB", "U0CAROL", "U0MALLORY"} {
		p.known[id] = blastdoor.Principal{UserID: id, TeamID: "T0ACME", Verified: true}
	}
	return p
}

func (p *people) Person(_ context.Context, userID, _ string) (blastdoor.Principal, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	person, ok := p.known[userID]
	if p.err != nil || !ok {
		return blastdoor.Principal{}, errors.Join(p.err, fmt.Errorf("user %s not verified", userID))
	}
	return person, nil
}

func (p *people) Groups(_ context.Context, userID string, groups []string) ([]string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var in []string
	for _, g := range groups {
		if slices.Contains(p.groups[g], userID) {
			in = append(in, g)
		}
	}
	return in, p.err
}

// shelf is a catalogue: runbooks with one step per service, and a policy.
type shelf struct {
	mu     sync.Mutex
	policy blastdoor.Policy
	err    error
}

func newShelf() *shelf {
	menu := func(name string) blastdoor.MenuEntry { return blastdoor.MenuEntry{Action: name} }
	return &shelf{policy: blastdoor.Policy{Name: "test", MaxAffected: 10, ApprovalAbove: 5, MaxWritesPerRun: 5,
		Protected: blastdoor.RuleAsk, ScaleToZero: blastdoor.RuleDeny, RadiusOverlap: blastdoor.RuleAsk,
		GraphMaxAge: time.Hour, GraphWalkBound: 100, ApprovalTTL: aliveTTL,
		Approvers: blastdoor.Approvers{Groups: []string{"S0SRE"}, Quorum: 1},
		Channels:  []blastdoor.ChannelRule{{ID: "C0OPS", Runbooks: []string{"*"}, Requesters: blastdoor.People{Anyone: true}}},
		Menu:      []blastdoor.MenuEntry{menu("get_status"), menu("restart_service")}}}
}

func (s *shelf) Policy(context.Context) (blastdoor.Policy, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.policy, s.err
}

func (s *shelf) edit(f func(*blastdoor.Policy)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.policy)
}

func (s *shelf) Runbook(_ context.Context, name string) (blastdoor.Runbook, error) {
	step := func(id, action, service string) blastdoor.Step {
		return blastdoor.Step{ID: id, Action: action, Params: blastdoor.Params{"service": service}}
	}
	books := map[string][]blastdoor.Step{
		"restart-db":   {step("look", "get_status", "db"), step("write", "restart_service", "db")},
		"restart-api":  {step("write", "restart_service", "api")},
		"restart-solo": {step("write", "restart_service", "solo")},
		"two":          {step("one", "restart_service", "solo"), step("other", "restart_service", "db")},
		"ghost":        {step("write", "restart_service", "ghost")},
		"shell":        {step("write", "exec_shell", "db")},
	}
	steps, ok := books[name]
	if !ok {
		return blastdoor.Runbook{}, blastdoor.Errorf(blastdoor.ErrNotFound, "there is no runbook %q", name)
	}
	return blastdoor.Runbook{Name: name, Steps: steps}, nil
}

func (s *shelf) Resolve(rb blastdoor.Runbook, _ map[string]string) (blastdoor.Params, []blastdoor.Step, error) {
	return nil, rb.Steps, nil
}

func (s *shelf) ValidateParams(_ blastdoor.Action, params blastdoor.Params) error {
	if _, ok := params["service"].(string); !ok {
		return blastdoor.Errorf(blastdoor.ErrParamsInvalid, "service is missing")
	}
	return nil
}

// bench is a runner with everything around it, under virtual time.
type bench struct {
	t      *testing.T
	world  *world
	people *people
	shelf  *shelf
	store  *memstore.Store
	runner *Runner
	stop   func()
	seen   []blastdoor.Event // of an earlier look
	clicks int
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, world: newWorld(t), people: newPeople(), shelf: newShelf(), store: memstore.New()}
	b.start()
	t.Cleanup(func() { b.stop() })
	return b
}

// start makes a fresh runner on the same store: what a restart does.
func (b *bench) start() {
	var err error
	b.runner, err = NewRunner(Options{Environment: b.world, Planner: Script{}, Journal: b.store, Board: b.store,
		Directory: b.people, Catalogue: b.shelf, Now: time.Now})
	require.NoError(b.t, err)
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan struct{})
	runner := b.runner
	go func() {
		defer close(done)
		_ = runner.Run(ctx)
	}()
	b.stop = func() { cancel(); <-done }
	synctest.Wait()
}

func (b *bench) request(runbook string) blastdoor.StartRequest {
	return blastdoor.StartRequest{SourceID: "src-" + runbook, Runbook: runbook, UserID: "U0ALICE", TeamID: "T0ACME", Channel: "C0OPS"}
}

func (b *bench) begin(runbook string) string {
	b.t.Helper()
	id, err := b.runner.Start(b.t.Context(), b.request(runbook))
	require.NoError(b.t, err)
	synctest.Wait()
	return id
}

func (b *bench) run(id string) *blastdoor.Run {
	b.t.Helper()
	var events []blastdoor.Event
	for _, e := range b.store.History() {
		if e.RunID == id {
			events = append(events, e)
		}
	}
	run, err := Fold(events)
	require.NoError(b.t, err)
	b.check(false)
	return &run
}

// waiting returns the run, which must wait for a click, with its card posted.
func (b *bench) waiting(id string) (*blastdoor.StepState, blastdoor.MessageRef) {
	b.t.Helper()
	step := b.run(id).Current()
	require.NotNil(b.t, step)
	require.Equal(b.t, blastdoor.StatusWaiting, step.Status)
	ref, err := b.store.Post(step.Approval.DeliveryID)
	require.NoError(b.t, err)
	return step, ref
}

// clickOn builds a click by a person on the open card of a run.
func (b *bench) clickOn(id, user string, approve bool) blastdoor.Click {
	b.t.Helper()
	step, ref := b.waiting(id)
	b.clicks++
	return blastdoor.Click{RunID: id, ApprovalID: step.Approval.ID, PlanHash: step.PlanHash, Approve: approve,
		UserID: user, TeamID: "T0ACME", Message: ref, InboxID: fmt.Sprintf("in-%d", b.clicks)}
}

func (b *bench) click(c blastdoor.Click) {
	b.t.Helper()
	require.NoError(b.t, b.runner.Click(b.t.Context(), c))
	synctest.Wait()
}

// refusal brings a click that must not count and returns its reason.
func (b *bench) refusal(c blastdoor.Click) blastdoor.RefusalCode {
	b.t.Helper()
	b.click(c)
	history, err := b.store.Load(b.t.Context(), c.RunID)
	require.NoError(b.t, err)
	refused, ok := history[len(history)-1].Body.(*blastdoor.ApprovalRefused)
	require.True(b.t, ok, "the click counted: %s", history[len(history)-1].Body.Kind())
	notice, ok := b.store.Delivery("notice/" + c.InboxID)
	require.True(b.t, ok, "nobody told the clicker")
	require.Equal(b.t, c.UserID, notice.User)
	require.Equal(b.t, string(refused.Code), notice.Notice.Code)
	return refused.Code
}

// check holds everything that has happened against the ten properties.
func (b *bench) check(quiet bool) {
	b.t.Helper()
	require.Empty(b.t, b.violations(quiet))
}

func (b *bench) violations(quiet bool) []string {
	b.world.mu.Lock()
	ledger := slices.Clone(b.world.ledger)
	b.world.mu.Unlock()
	history := b.store.History()
	found := CheckProperties(Evidence{History: history, Earlier: b.seen, Ledger: ledger, Projections: b.store.Projections(),
		Policies: b.policies(history), Quiet: quiet})
	b.seen = history
	return found
}

func (b *bench) policies(history []blastdoor.Event) map[string]blastdoor.Policy {
	digests := map[string]bool{}
	for _, e := range history {
		for _, digest := range PolicyDigests(e.Body) {
			digests[digest] = true
		}
	}
	out := map[string]blastdoor.Policy{}
	for digest := range maps.Keys(digests) {
		body, err := b.store.Document(b.t.Context(), digest)
		require.NoError(b.t, err)
		policy, err := ParsePolicy(body)
		require.NoError(b.t, err)
		out[digest] = policy
	}
	return out
}
