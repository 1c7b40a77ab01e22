package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"blastdoor"
)

// AuditOptions say what a verification holds the history against.
type AuditOptions struct {
	// Anchors are notes of heads that were kept elsewhere. Only they can show that
	// somebody with the database and the signing key has rewritten both.
	Anchors []string
	// VerifierKey verifies the heads and anchors, as note.NewVerifier reads it.
	// Empty: the key that is stored with the history, which a forger could have
	// replaced; an auditor brings the key.
	VerifierKey string
}

// Report is the outcome of a verification.
type Report struct {
	Origin   string    `json:"origin"`
	Events   int64     `json:"events"`
	Runs     int       `json:"runs"`
	Heads    int       `json:"heads"`
	Anchors  int       `json:"anchors"`
	Root     string    `json:"root"` // of the tree over all events, base64
	Findings []Finding `json:"findings"`
}

// OK reports whether nothing was found.
func (r *Report) OK() bool { return len(r.Findings) == 0 }

// Finding is one thing that does not verify.
type Finding struct {
	RunID string `json:"run,omitempty"` // empty: it concerns no single run
	Seq   int    `json:"seq,omitempty"` // 0: it concerns no single event
	What  string `json:"what"`
}

func (f Finding) String() string {
	if f.RunID == "" {
		return f.What
	}
	return place(f.RunID, f.Seq) + ": " + f.What
}

// auditor recomputes everything from the events, in the order of the tree. It is
// fed from the database or from an export alike.
type auditor struct {
	report   Report
	origin   string
	verifier note.Verifier
	tree     tree
	runs     map[string]*auditedRun
	heads    map[int64][]claim // by size
}

// auditedRun is what the events of a run come to.
type auditedRun struct {
	source    string
	length    int
	chain     [32]byte
	outcome   blastdoor.RunOutcome
	approvals *approvalLedger
}

// claim is a head, stored or kept elsewhere, that the tree of its size must match.
type claim struct {
	head
	name string
}

func newAuditor(origin, storedKey string, o AuditOptions) (*auditor, error) {
	key := o.VerifierKey
	if key == "" {
		key = storedKey
	}
	verifier, err := note.NewVerifier(key)
	if err != nil {
		return nil, fmt.Errorf("reading the verifier key: %w", err)
	}
	a := &auditor{origin: origin, verifier: verifier, runs: make(map[string]*auditedRun), heads: make(map[int64][]claim)}
	a.report.Origin, a.report.Anchors = origin, len(o.Anchors)
	if o.VerifierKey != "" && storedKey != o.VerifierKey {
		a.found("", 0, "the stored verifier key is not the one given")
	}
	for i, text := range o.Anchors {
		a.claim(fmt.Sprintf("anchor %d", i+1), text)
	}
	return a, nil
}

func (a *auditor) found(runID string, seq int, format string, args ...any) {
	a.report.Findings = append(a.report.Findings, Finding{RunID: runID, Seq: seq, What: fmt.Sprintf(format, args...)})
}

// claim notes a head, to be compared when the tree has its size.
func (a *auditor) claim(name, text string) {
	h, err := openHead(text, a.origin, a.verifier)
	if err != nil {
		a.found("", 0, "%s does not verify: %v", name, err)
		return
	}
	c := claim{head: h, name: name}
	a.heads[h.Size] = append(a.heads[h.Size], c)
	if h.Size == 0 {
		a.settleClaims()
	}
}

// settleClaims compares the heads of the tree's present size.
func (a *auditor) settleClaims() {
	claims := a.heads[a.tree.size]
	if len(claims) == 0 {
		return
	}
	delete(a.heads, a.tree.size)
	root, err := a.tree.root()
	for _, c := range claims {
		if err != nil || root != c.Root {
			a.found("", 0, "%s covers %d events, and the first %d events here are others", c.name, c.Size, c.Size)
		}
	}
}

// event takes the next event and returns the tree's new hashes. After a finding
// it goes on from what the row says, so that one change is not reported for
// every event behind it.
func (a *auditor) event(e *storedEvent) []tlog.Hash {
	if e.Leaf != a.tree.size {
		a.found(e.RunID, e.Seq, "it is leaf %d of the tree, where leaf %d should be: events are missing", e.Leaf, a.tree.size)
	}
	run := a.runs[e.RunID]
	if run == nil {
		run = &auditedRun{chain: blastdoor.Genesis(), approvals: newApprovalLedger(e.RunID)}
		a.runs[e.RunID] = run
	}
	if e.Seq != run.length+1 {
		a.found(e.RunID, e.Seq, "event %d should be here: the history has a gap", run.length+1)
	}
	event, chain, err := e.open(run.chain)
	if err != nil {
		a.found(e.RunID, e.Seq, "%s", reason(err))
	} else {
		run.note(event)
	}
	run.length = e.Seq
	if run.chain = chain; len(e.Chain) == 32 {
		run.chain = [32]byte(e.Chain)
	}
	// The recomputed hash, not the stored one, is what the tree must have held.
	hashes, err := a.tree.add(LeafData(chain, e.RunID, e.Seq))
	if err != nil {
		a.found(e.RunID, e.Seq, "%v", err)
	}
	a.report.Events++
	a.settleClaims()
	return hashes
}

// reason is the message of an integrity error without its place, which a finding
// has by itself.
func reason(err error) string {
	if e, ok := errors.AsType[*blastdoor.Error](err); ok {
		bare := *e
		bare.Where = ""
		return bare.Error()
	}
	return err.Error()
}

func (r *auditedRun) note(event blastdoor.Event) {
	r.approvals.note(event)
	switch body := event.Body.(type) {
	case *blastdoor.RunRequested:
		r.source = body.SourceID
	case *blastdoor.RunEnded:
		r.outcome = body.Outcome
	}
}

// document holds a stored document against its digest.
func (a *auditor) document(digest string, body []byte) {
	if got := blastdoor.DigestBytes(body); got != digest {
		a.found("", 0, "document %s has the digest %s", digest, got)
	}
}

// finish reports heads of a size that the tree never reached.
func (a *auditor) finish() Report {
	for size, claims := range a.heads {
		for _, c := range claims {
			a.found("", 0, "%s covers %d events, only %d are here: the tail was cut, or this is an old copy", c.name, size, a.tree.size)
		}
	}
	a.report.Runs = len(a.runs)
	if root, err := a.tree.root(); err == nil {
		a.report.Root = root.String()
	}
	return a.report
}

// Verify recomputes every hash from the events and holds them against the stored
// chain and tree, the signed heads, the given anchors, and the rows of runs,
// approvals and documents. It reads one instant and may run while the bot works.
// What does not verify is in the report; the error is for what could not be read.
func (s *Store) Verify(ctx context.Context, o AuditOptions) (Report, error) {
	var report Report
	err := s.read.view(ctx, func(q querier) error {
		origin, key, err := readDeployment(ctx, q)
		if err != nil {
			return err
		}
		a, err := newAuditor(origin, key, o)
		if err != nil {
			return err
		}
		if err := a.readAll(ctx, q); err != nil {
			return err
		}
		report = a.finish()
		return nil
	})
	if err != nil {
		return Report{}, fmt.Errorf("verifying %s: %w", s.path, err)
	}
	return report, nil
}

func (a *auditor) readAll(ctx context.Context, q querier) error {
	if err := a.readHeads(ctx, q); err != nil {
		return err
	}
	if err := a.readEvents(ctx, q); err != nil {
		return err
	}
	if err := a.readRuns(ctx, q); err != nil {
		return err
	}
	if err := a.readApprovals(ctx, q); err != nil {
		return err
	}
	if err := a.readLocks(ctx, q); err != nil {
		return err
	}
	return each(ctx, q, `SELECT digest, body FROM documents ORDER BY digest`, nil, func(rows *sql.Rows) error {
		var digest string
		var body []byte
		err := rows.Scan(&digest, &body)
		if err == nil {
			a.document(digest, body)
		}
		return err
	})
}

func (a *auditor) readHeads(ctx context.Context, q querier) error {
	err := each(ctx, q, `SELECT size, root, note FROM heads ORDER BY size`, nil, func(rows *sql.Rows) error {
		var size int64
		var root []byte
		var text string
		if err := rows.Scan(&size, &root, &text); err != nil {
			return err
		}
		a.report.Heads++
		name := fmt.Sprintf("the signed head of %d", size)
		if h, err := openHead(text, a.origin, a.verifier); err == nil && (h.Size != size || string(h.Root[:]) != string(root)) {
			a.found("", 0, "%s: its columns differ from its note", name)
		}
		a.claim(name, text)
		return nil
	})
	if err == nil && a.report.Heads == 0 {
		a.found("", 0, "there is no signed head, not even the first one")
	}
	return err
}

func (a *auditor) readEvents(ctx context.Context, q querier) error {
	differ := false // said once: everything above a changed hash differs too
	return each(ctx, q, selectEvents+` ORDER BY leaf`, nil, func(rows *sql.Rows) error {
		e, err := scanEvent(rows)
		if err != nil {
			return err
		}
		if want := joinHashes(a.event(&e)); !differ && string(want) != string(e.Hashes) {
			differ = true
			a.found(e.RunID, e.Seq, "its tree hashes are not what the events come to")
		}
		return nil
	})
}

// readRuns holds the rows of runs against the events.
func (a *auditor) readRuns(ctx context.Context, q querier) error {
	seen := make(map[string]bool, len(a.runs))
	err := each(ctx, q, `SELECT id, source_id, status, ended, len, head FROM runs ORDER BY n`, nil, func(rows *sql.Rows) error {
		var id, source, status string
		var ended bool
		var length int
		var head []byte
		if err := rows.Scan(&id, &source, &status, &ended, &length, &head); err != nil {
			return err
		}
		seen[id] = true
		run := a.runs[id]
		switch {
		case run == nil:
			a.found(id, 0, "it has a row but no events")
		case run.length != length:
			a.found(id, 0, "its row says %d events, %d are stored", length, run.length)
		case string(head) != string(run.chain[:]):
			a.found(id, 0, "its row has another chain hash than its last event")
		case run.source != "" && run.source != source:
			a.found(id, 0, "its row names the source %q, its first event %q", source, run.source)
		case ended != (run.outcome != "") || ended && status != string(run.outcome):
			a.found(id, 0, "its row has status %q, its events say outcome %q", status, run.outcome)
		}
		return nil
	})
	for id := range a.runs {
		if !seen[id] {
			a.found(id, 0, "it has events but no row")
		}
	}
	return err
}

func (a *auditor) readApprovals(ctx context.Context, q querier) error {
	ids, err := collect(ctx, q, `SELECT DISTINCT run_id FROM approvals`, nil, scanString)
	if err != nil {
		return err
	}
	withRows := make(map[string]bool, len(ids))
	for _, id := range ids {
		withRows[id] = true
		rows, err := readApprovals(ctx, q, id)
		if err != nil {
			return err
		}
		ledger := newApprovalLedger(id)
		if run := a.runs[id]; run != nil {
			ledger = run.approvals
		}
		for _, fault := range ledger.compare(rows) {
			a.found(id, 0, "%s", fault)
		}
	}
	for id, run := range a.runs {
		if !withRows[id] {
			for _, fault := range run.approvals.compare(nil) {
				a.found(id, 0, "%s", fault)
			}
		}
	}
	return nil
}

// readLocks looks for intents of runs that have ended: nothing would free them.
func (a *auditor) readLocks(ctx context.Context, q querier) error {
	ids, err := collect(ctx, q, `SELECT run_id FROM flights UNION SELECT run_id FROM locks ORDER BY 1`, nil, scanString)
	for _, id := range ids {
		if run := a.runs[id]; run == nil || run.outcome != "" {
			a.found(id, 0, "it has ended and still holds locks")
		}
	}
	return err
}
