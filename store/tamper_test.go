package store_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"

	"blastdoor"
	"blastdoor/internal/storetest"
	"blastdoor/store"
)

// history makes a closed database with three runs: r1 has spent an approval and
// is in flight, r2 has ended, r3 is plain. It returns the path and the note of its
// last head. Runs are interleaved, so that none of them is the tail of the tree.
func history(t *testing.T) (path, head string) {
	t.Helper()
	files, err := historyFiles()
	require.NoError(t, err)
	path = filepath.Join(t.TempDir(), "bot.db")
	require.NoError(t, os.WriteFile(path, files.database, 0o600))
	require.NoError(t, os.WriteFile(path+".key", files.key, 0o600))
	return path, files.head
}

type historyContent struct {
	database, key []byte
	head          string
}

// historyFiles is made once: every test gets a copy.
var historyFiles = sync.OnceValues(func() (content historyContent, err error) {
	dir, err := os.MkdirTemp("", "history")
	if err != nil {
		return content, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "bot.db")
	if content.head, err = writeHistory(context.Background(), path); err != nil {
		return content, err
	}
	var err1, err2 error
	content.database, err1 = os.ReadFile(path)
	content.key, err2 = os.ReadFile(path + ".key")
	return content, errors.Join(err1, err2)
})

func writeHistory(ctx context.Context, path string) (head string, err error) {
	s, err := store.Create(ctx, path, options())
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	var started []blastdoor.Commit
	for _, runID := range []string{"r1", "r2", "r3"} {
		c := storetest.Begin(runID, "src-"+runID)
		if _, _, err := s.Begin(ctx, "src-"+runID, c); err != nil {
			return "", err
		}
		started = append(started, c)
	}
	body := []byte(`{"name":"shipped"}`)
	asked := storetest.Ask(started[0], "ap1")
	asked.Documents = []blastdoor.Document{{Digest: blastdoor.DigestBytes(body), Body: body}}
	ended := storetest.Follow(started[1], &blastdoor.Observed{Summary: "fine"}, &blastdoor.RunEnded{Outcome: blastdoor.RunCompleted})
	ended.Projection.Ended, ended.Projection.Run.Status = true, string(blastdoor.RunCompleted)
	for _, c := range []blastdoor.Commit{asked, storetest.Follow(started[2], &blastdoor.Observed{Summary: "fine"}),
		storetest.Spend(asked, "db"), ended} {
		if err := s.Commit(ctx, c); err != nil {
			return "", err
		}
	}
	return s.SignHead(ctx)
}

// vandal is somebody with a shell: a raw connection, the triggers gone.
func vandal(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	var drop []string
	for _, name := range texts(t, path, `SELECT name FROM sqlite_schema WHERE type = 'trigger'`) {
		drop = append(drop, `DROP TRIGGER `+name)
	}
	for _, statement := range append(drop, statements...) {
		result, err := db.Exec(statement)
		require.NoError(t, err, statement)
		changed, err := result.RowsAffected()
		require.NoError(t, err)
		if !strings.HasPrefix(statement, "DROP") {
			require.Positive(t, changed, "%s changed nothing", statement)
		}
	}
}

// notice says which of the three ways of looking finds damage, with its words.
func notice(ctx context.Context, path, runID string) map[string]string {
	found := map[string]string{}
	s, err := store.Open(ctx, path, options())
	if err != nil {
		found["Open"] = err.Error()
	} else {
		_ = s.Close()
	}
	reader, err := store.OpenReadOnly(ctx, path, options())
	if err != nil {
		found["OpenReadOnly"] = err.Error()
		return found
	}
	defer func() { _ = reader.Close() }()
	if _, err := reader.Load(ctx, runID); err != nil {
		found["Load"] = err.Error()
	}
	report, err := reader.Verify(ctx, store.AuditOptions{})
	if err != nil {
		found["Verify"] = err.Error()
	}
	for _, finding := range report.Findings {
		found["Verify"] += finding.String() + "\n"
	}
	return found
}

func TestNothingToNotice(t *testing.T) {
	path, _ := history(t)
	for _, runID := range []string{"r1", "r2", "r3"} {
		require.Empty(t, notice(t.Context(), path, runID))
	}
}

func TestTampering(t *testing.T) {
	for _, tc := range []struct {
		name, run string
		damage    []string
		want      map[string]string // who finds it, and a piece of what is said
	}{
		{"body changed", "r1",
			[]string{`UPDATE events SET body = CAST(replace(body, 'UALICE', 'UMALLORY') AS BLOB) WHERE run_id = 'r1' AND seq = 1`},
			map[string]string{"Load": "run r1, event 1: integrity: its chain hash", "Verify": "run r1, event 1: integrity: its chain hash"}},
		{"body changed and its chain hash with it", "r3",
			[]string{rechained(t)},
			map[string]string{"Load": "its row has another chain hash", "Verify": "its tree hashes are not what the events come to"}},
		{"body unreadable", "r3",
			[]string{`UPDATE events SET body = X'00' WHERE run_id = 'r3' AND seq = 1`},
			map[string]string{"Load": "its body does not parse", "Verify": "its body does not parse"}},
		{"column changed", "r3",
			[]string{`UPDATE events SET at = at + 1 WHERE run_id = 'r3' AND seq = 1`},
			map[string]string{"Load": "its columns differ", "Verify": "its columns differ"}},
		{"event deleted from the middle", "r2",
			[]string{`DELETE FROM events WHERE run_id = 'r2' AND seq = 2`},
			map[string]string{"Open": "events are stored, but the last one", "Load": "run r2, event 2: integrity: this event is missing",
				"Verify": "the history has a gap"}},
		{"tail cut", "r2",
			[]string{`DELETE FROM events WHERE leaf = (SELECT max(leaf) FROM events)`},
			map[string]string{"Open": "the newest signed head covers 8 events, only 7", "Load": "its row says 3 events, 2 are stored", "Verify": "the tail was cut"}},
		{"tail cut without a trace in rows and tree", "r2",
			[]string{`DELETE FROM events WHERE leaf = 7`,
				`UPDATE runs SET len = 2, ended = 0, status = 'running', head = (SELECT chain_hash FROM events WHERE run_id = 'r2' AND seq = 2) WHERE id = 'r2'`},
			map[string]string{"Open": "the newest signed head covers 8 events, only 7", "Verify": "the tail was cut"}},
		{"projected length edited", "r3",
			[]string{`UPDATE runs SET len = 1 WHERE id = 'r3'`},
			map[string]string{"Load": "its row says 1 events, 2 are stored", "Verify": "its row says 1 events"}},
		{"projected status edited", "r3",
			[]string{`UPDATE runs SET status = 'completed', ended = 1 WHERE id = 'r3'`},
			map[string]string{"Verify": `its row has status "completed"`}},
		{"source edited", "r3",
			[]string{`UPDATE runs SET source_id = 'other' WHERE id = 'r3'`},
			map[string]string{"Verify": `its row names the source "other"`}},
		{"approval bound to another plan", "r1",
			[]string{`UPDATE approvals SET plan_hash = 'sha256:evil' WHERE id = 'ap1'`},
			map[string]string{"Load": "approval ap1 has another step, plan or expiry", "Verify": "approval ap1 has another"}},
		{"approval moved to another run", "r1",
			[]string{`UPDATE approvals SET run_id = 'r3' WHERE id = 'ap1'`},
			map[string]string{"Load": "approval ap1 has no row", "Verify": "run r3: approval ap1 was never requested"}},
		{"approval unspent", "r1",
			[]string{`UPDATE approvals SET status = 'granted', consumed_at = NULL WHERE id = 'ap1'`},
			map[string]string{"Load": `approval ap1 has status "granted", but its events say spent: true`, "Verify": "approval ap1"}},
		{"approval forged", "r3",
			[]string{`INSERT INTO approvals VALUES ('ap2', 'r3', 'drain', 'sha256:evil', 'granted', 9000000000000000000, NULL)`},
			map[string]string{"Load": "approval ap2 was never requested", "Verify": "approval ap2 was never requested"}},
		{"whole run removed", "r3",
			[]string{`DELETE FROM events WHERE run_id = 'r3'`, `DELETE FROM runs WHERE id = 'r3'`},
			map[string]string{"Open": "events are stored, but the last one", "Load": "not_found", "Verify": "events are missing"}},
		{"run without events", "r3",
			[]string{`UPDATE runs SET id = 'r4' WHERE id = 'r3'`},
			map[string]string{"Load": "it has events but no row", "Verify": "run r4: it has a row but no events"}},
		{"tree hash changed", "r1",
			[]string{`UPDATE events SET hashes = zeroblob(32) WHERE leaf = 0`},
			map[string]string{"Verify": "run r1, event 1: its tree hashes are not what the events come to"}},
		{"edge of the tree changed", "r2",
			[]string{`UPDATE events SET hashes = zeroblob(128) WHERE leaf = 7`},
			map[string]string{"Open": "the events are not those that the signed head", "Verify": "its tree hashes are not"}},
		{"document changed", "r1",
			[]string{`UPDATE documents SET body = CAST('{"name":"lax"}' AS BLOB)`},
			map[string]string{"Verify": "has the digest"}},
		{"head forged: a bit of its note", "r3",
			[]string{`UPDATE heads SET note = replace(note, '8', '9') WHERE size = 8`},
			map[string]string{"Open": "the newest signed head does not verify", "Verify": "the signed head of 8 does not verify"}},
		{"head forged: columns", "r3",
			[]string{`UPDATE heads SET root = zeroblob(32) WHERE size = 8`},
			map[string]string{"Verify": "its columns differ from its note"}},
		{"heads removed", "r3",
			[]string{`DELETE FROM heads`},
			map[string]string{"Open": "there is no signed head", "Verify": "there is no signed head"}},
		{"deployment re-keyed", "r3",
			[]string{`UPDATE deployment SET verifier_key = '` + otherKey(t) + `'`},
			map[string]string{"Open": "not the signing key", "Verify": "does not verify"}},
		{"lock left by a run that has ended", "r2",
			[]string{`INSERT INTO flights VALUES ('r2', 'drain', '[]')`},
			map[string]string{"Verify": "run r2: it has ended and still holds locks"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path, _ := history(t)
			vandal(t, path, tc.damage...)
			found := notice(t.Context(), path, tc.run)
			for who, words := range tc.want {
				require.Contains(t, found[who], words, "%s; all that was found: %q", who, found)
			}
			for who := range found {
				require.Contains(t, tc.want, who, "found as well: %q", found[who])
			}
		})
	}
}

// rechained is an UPDATE that changes the second event of r3 and brings its chain
// hash in line, as a vandal who has read this package would.
func rechained(t *testing.T) string {
	t.Helper()
	first, err := storetest.Begin("r3", "src-r3").Events[0].Canonical()
	require.NoError(t, err)
	evil, err := storetest.Follow(storetest.Begin("r3", "src-r3"), &blastdoor.Observed{Summary: "evil"}).Events[0].Canonical()
	require.NoError(t, err)
	chain := blastdoor.ChainHash(blastdoor.ChainHash(blastdoor.Genesis(), first), evil)
	return fmt.Sprintf(`UPDATE events SET body = X'%X', chain_hash = X'%X' WHERE run_id = 'r3' AND seq = 2`, evil, chain)
}

func otherKey(t *testing.T) string {
	t.Helper()
	_, public, err := note.GenerateKey(rand.Reader, options().Origin)
	require.NoError(t, err)
	return public
}

// Whoever has database and key can write a history that verifies by itself. A
// head that was kept elsewhere finds it; without one nothing does.
func TestOnlyAnAnchorFindsAFullRewrite(t *testing.T) {
	path, anchor := history(t)
	key, err := os.ReadFile(path + ".key")
	require.NoError(t, err)

	forged := filepath.Join(t.TempDir(), "bot.db")
	require.NoError(t, os.WriteFile(forged+".key", key, 0o600))
	s, err := store.Create(t.Context(), forged, options())
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	c := begun(t, s, "r1")
	for range 10 {
		c = storetest.Follow(c, &blastdoor.Observed{Summary: "nothing happened here"})
		require.NoError(t, s.Commit(t.Context(), c))
	}
	_, err = s.SignHead(t.Context())
	require.NoError(t, err)

	report, err := s.Verify(t.Context(), store.AuditOptions{})
	require.NoError(t, err)
	require.Empty(t, report.Findings, "without an anchor the forgery verifies")
	report, err = s.Verify(t.Context(), store.AuditOptions{Anchors: []string{anchor}})
	require.NoError(t, err)
	require.Len(t, report.Findings, 1)
	require.Contains(t, report.Findings[0].What, "anchor 1 covers 8 events, and the first 8 events here are others")
}

func TestAnchors(t *testing.T) {
	path, anchor := history(t)
	old := filepath.Join(t.TempDir(), "old.db")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(old, data, 0o600))
	s, err := store.Open(t.Context(), path, options())
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	begun(t, s, "r9")
	later, err := s.SignHead(t.Context())
	require.NoError(t, err)

	verify := func(o store.AuditOptions) []string {
		report, err := s.Verify(t.Context(), o)
		require.NoError(t, err)
		require.EqualValues(t, 9, report.Events)
		require.Equal(t, 4, report.Runs)
		require.Equal(t, 3, report.Heads)
		var words []string
		for _, finding := range report.Findings {
			words = append(words, finding.String())
		}
		return words
	}
	require.Empty(t, verify(store.AuditOptions{Anchors: []string{anchor, later}}))
	require.Contains(t, verify(store.AuditOptions{Anchors: []string{strings.Replace(anchor, "8", "7", 1)}})[0], "anchor 1 does not verify")
	require.Contains(t, verify(store.AuditOptions{VerifierKey: otherKey(t)})[0], "the stored verifier key is not the one given")

	// The copy from before, held against the newer head.
	reader, err := store.OpenReadOnly(t.Context(), old, options())
	require.NoError(t, err)
	defer func() { require.NoError(t, reader.Close()) }()
	report, err := reader.Verify(t.Context(), store.AuditOptions{Anchors: []string{anchor, later}})
	require.NoError(t, err)
	require.Len(t, report.Findings, 1)
	require.Contains(t, report.Findings[0].What, "anchor 2 covers 9 events, only 8 are here")
}
