package store_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"blastdoor"
	"blastdoor/internal/storetest"
	"blastdoor/store"
)

func TestShow(t *testing.T) {
	path, _ := history(t)
	s, err := store.OpenReadOnly(t.Context(), path, options())
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	shown, err := s.Show(t.Context(), "r2")
	require.NoError(t, err)
	require.Len(t, shown, 3)
	chain := blastdoor.Genesis()
	for i, event := range shown {
		chain = blastdoor.ChainHash(chain, event.Canonical)
		require.Equal(t, hex.EncodeToString(chain[:]), event.ChainHash)
		require.Equal(t, i+1, event.Event.Seq)
	}
	require.Equal(t, []int64{1, 6, 7}, []int64{shown[0].Leaf, shown[1].Leaf, shown[2].Leaf})
	_, err = s.Show(t.Context(), "ghost")
	require.True(t, blastdoor.ErrNotFound.Is(err))
}

func TestExportVerifiesOffline(t *testing.T) {
	path, head := history(t)
	s, err := store.OpenReadOnly(t.Context(), path, options())
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	var out bytes.Buffer
	require.NoError(t, s.Export(t.Context(), &out))
	key := publicKey(t, path)

	online, err := s.Verify(t.Context(), store.AuditOptions{Anchors: []string{head}})
	require.NoError(t, err)
	offline, err := store.VerifyExport(bytes.NewReader(out.Bytes()), store.AuditOptions{Anchors: []string{head}, VerifierKey: key})
	require.NoError(t, err)
	require.True(t, offline.OK(), "%v", offline.Findings)
	require.Equal(t, online, offline)

	for name, tc := range map[string]struct{ from, to, words string }{
		"body changed":    {"UALICE", "UMALLORY", "its chain hash does not follow"},
		"event gone":      {lineWith(t, out.String(), `\"run\":\"r3\",\"seq\":2`), "", "the history has a gap"},
		"tail gone":       {lineWith(t, out.String(), `\"run\":\"r2\",\"seq\":3`), "", "the tail was cut"},
		"document edited": {"shipped", "relaxed", "has the digest"},
	} {
		if name == "event gone" { // the second event of r3 is its last: the tree shows it
			tc.words = "events are missing"
		}
		tampered := strings.Replace(out.String(), tc.from, tc.to, 1)
		require.NotEqual(t, out.String(), tampered, name)
		report, err := store.VerifyExport(strings.NewReader(tampered), store.AuditOptions{VerifierKey: key})
		require.NoError(t, err, name)
		var words []string
		for _, finding := range report.Findings {
			words = append(words, finding.String())
		}
		require.Contains(t, strings.Join(words, "\n"), tc.words, name)
	}
	for _, garbage := range []string{"", "{}", "[]\n", out.String() + `{"wish":1}`, out.String() + "{}"} {
		_, err := store.VerifyExport(strings.NewReader(garbage), store.AuditOptions{})
		require.Error(t, err)
	}
}

func lineWith(t *testing.T, text, part string) string {
	t.Helper()
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			return line
		}
	}
	t.Fatalf("no line has %s", part)
	return ""
}

func TestSignHead(t *testing.T) {
	s := create(t)
	c := begun(t, s, "r1")
	one, err := s.SignHead(t.Context())
	require.NoError(t, err)
	again, err := s.SignHead(t.Context())
	require.NoError(t, err)
	require.Equal(t, one, again, "the same tree has one head")
	require.NoError(t, s.Commit(t.Context(), storetest.Follow(c, &blastdoor.Observed{})))
	two, err := s.SignHead(t.Context())
	require.NoError(t, err)
	require.NotEqual(t, one, two)
	latest, err := s.LatestHead(t.Context())
	require.NoError(t, err)
	require.Equal(t, two, latest)
	require.Regexp(t, `^blastdoor\.example/test\n2\n[A-Za-z0-9+/]{43}=\n\n— blastdoor\.example/test [A-Za-z0-9+/]+=*\n$`, latest)
}

func projections(t *testing.T, s *store.Store) []blastdoor.Projection {
	t.Helper()
	var all []blastdoor.Projection
	for p, err := range s.Projections(t.Context()) {
		require.NoError(t, err)
		all = append(all, p)
	}
	return all
}

func TestProjectionsAreRebuilt(t *testing.T) {
	path, _ := history(t)
	s, err := store.Open(t.Context(), path, options())
	require.NoError(t, err)
	good := projections(t, s)
	require.Len(t, good, 3)
	require.Equal(t, "db", good[0].Flight.Targets[0])
	one, err := s.StoredProjection(t.Context(), "r1")
	require.NoError(t, err)
	require.Equal(t, good[0], one)
	require.Empty(t, store.CompareProjection(one, good[0]))
	require.NoError(t, s.Close())

	keepTriggers(t, path, `UPDATE approvals SET plan_hash = 'sha256:evil', status = 'granted', consumed_at = NULL`,
		`DELETE FROM locks`, `DELETE FROM flights`, `UPDATE runs SET status = 'waiting', len = 1 WHERE id = 'r3'`, `DELETE FROM runs WHERE id = 'r2'`)
	s, err = store.Open(t.Context(), path, options())
	require.NoError(t, err)
	damaged := projections(t, s)
	require.Len(t, damaged, 2)
	diffs := strings.Join(store.CompareProjection(damaged[0], good[0]), "\n")
	require.Contains(t, diffs, "flight is stored as none")
	require.Contains(t, diffs, "approval ap1 is stored as")

	require.True(t, blastdoor.ErrConflict.Is(s.ReplaceProjections(t.Context(), good[:2])), "one is missing")
	short := append([]blastdoor.Projection(nil), good...)
	short[2].Run.Len = 1
	require.True(t, blastdoor.ErrConflict.Is(s.ReplaceProjections(t.Context(), short)), "one is behind")
	require.Equal(t, damaged, projections(t, s), "a rebuild that fails changes nothing")

	require.NoError(t, s.ReplaceProjections(t.Context(), good))
	require.Equal(t, good, projections(t, s))
	requireVerified(t, s)
	_, err = s.Load(t.Context(), "r1")
	require.NoError(t, err)
	require.NoError(t, s.Close())

	// The guards are back.
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	_, err = db.Exec(`UPDATE approvals SET status = 'granted', consumed_at = NULL`)
	require.ErrorContains(t, err, "a consumed approval is never changed")
	_, err = db.Exec(`DELETE FROM runs`)
	require.ErrorContains(t, err, "a run is never deleted")
}

// keepTriggers damages projections and puts the triggers back.
func keepTriggers(t *testing.T, path string, statements ...string) {
	t.Helper()
	triggers := texts(t, path, `SELECT sql FROM sqlite_schema WHERE type = 'trigger'`)
	vandal(t, path, statements...)
	for _, text := range triggers {
		rawExec(t, path, text)
	}
}

// texts returns the first column of a query.
func texts(t *testing.T, path, query string) []string {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	rows, err := db.Query(query)
	require.NoError(t, err)
	var out []string
	for rows.Next() {
		var text string
		require.NoError(t, rows.Scan(&text))
		out = append(out, text)
	}
	require.NoError(t, rows.Err())
	return out
}

func requireVerified(t *testing.T, s *store.Store) {
	t.Helper()
	report, err := s.Verify(t.Context(), store.AuditOptions{})
	require.NoError(t, err)
	require.Empty(t, report.Findings)
}

// An approval that a newer question has replaced is in no fold any more: its row
// stays, and a rebuild brings it back from the events.
func TestSupersededApprovalIsRebuilt(t *testing.T) {
	s := create(t)
	first := storetest.Ask(begun(t, s, "r1"), "ap1")
	require.NoError(t, s.Commit(t.Context(), first))
	drifted := storetest.Follow(first, &blastdoor.PlanDrifted{OldHash: "a", NewHash: "b"})
	drifted.Projection.Approvals = []blastdoor.ApprovalRow{first.Projection.Approvals[0]}
	drifted.Projection.Approvals[0].Status = blastdoor.VoidApproval
	require.NoError(t, s.Commit(t.Context(), drifted))
	second := storetest.Ask(drifted, "ap2")
	require.NoError(t, s.Commit(t.Context(), second))

	stored, err := s.StoredProjection(t.Context(), "r1")
	require.NoError(t, err)
	require.Len(t, stored.Approvals, 2)
	require.Empty(t, store.CompareProjection(stored, second.Projection))
	require.NoError(t, s.ReplaceProjections(t.Context(), []blastdoor.Projection{second.Projection}))
	again, err := s.StoredProjection(t.Context(), "r1")
	require.NoError(t, err)
	require.Equal(t, stored, again)
	_, err = s.Load(t.Context(), "r1")
	require.NoError(t, err)

	// The control: one that was replaced without being closed is noticed.
	open := stored
	open.Approvals = append([]blastdoor.ApprovalRow(nil), stored.Approvals...)
	open.Approvals[0].Status = blastdoor.GrantedApproval
	require.NotEmpty(t, store.CompareProjection(open, second.Projection))
}

func TestRunsAndPrune(t *testing.T) {
	path, _ := history(t)
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	o := options()
	o.Now = func() time.Time { return now }
	s, err := store.Open(t.Context(), path, o)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	list := func(f store.RunFilter) []string {
		runs, err := s.Runs(t.Context(), f)
		require.NoError(t, err)
		var ids []string
		for _, run := range runs {
			ids = append(ids, run.ID+" "+run.Status)
		}
		return ids
	}
	require.Equal(t, []string{"r3 running", "r2 completed", "r1 running"}, list(store.RunFilter{}))
	require.Equal(t, []string{"r3 running", "r1 running"}, list(store.RunFilter{Channel: "C1", Unfinished: true}))
	require.Equal(t, []string{"r3 running"}, list(store.RunFilter{Limit: 1}))
	require.Empty(t, list(store.RunFilter{Channel: "C2"}))

	for _, id := range []string{"settled", "open"} {
		_, err := s.Accept(t.Context(), blastdoor.InboxItem{ID: id, Kind: "interactive", Payload: []byte(`{}`), ReceivedAt: now})
		require.NoError(t, err)
	}
	require.NoError(t, s.Settle(t.Context(), "settled", nil))
	pruned, err := s.PruneInbox(t.Context(), now)
	require.NoError(t, err)
	require.Zero(t, pruned)
	pruned, err = s.PruneInbox(t.Context(), now.Add(1))
	require.NoError(t, err)
	require.Equal(t, 1, pruned)
	items, err := s.PendingInbox(t.Context())
	require.NoError(t, err)
	require.Len(t, items, 1)
}

// The questions that are asked again and again are answered from small indexes.
func TestQueriesUseTheirIndexes(t *testing.T) {
	path, _ := history(t)
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	for query, index := range store.IndexedQueries() {
		rows, err := db.QueryContext(context.Background(), `EXPLAIN QUERY PLAN `+query, make([]any, strings.Count(query, "?"))...)
		require.NoError(t, err)
		var plan []string
		for rows.Next() {
			var id, parent, unused int
			var detail string
			require.NoError(t, rows.Scan(&id, &parent, &unused, &detail))
			plan = append(plan, detail)
		}
		require.NoError(t, rows.Err())
		require.Contains(t, strings.Join(plan, "\n"), index, query)
	}
}

// publicKey reads the verifier key that a database was created with.
func publicKey(t *testing.T, path string) string {
	t.Helper()
	return texts(t, path, `SELECT verifier_key FROM deployment`)[0]
}
