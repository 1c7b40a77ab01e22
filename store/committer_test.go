package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"blastdoor"
	"blastdoor/internal/storetest"
)

// open makes a store whose committer can be looked into.
func open(t *testing.T) *Store {
	t.Helper()
	s, err := Create(t.Context(), filepath.Join(t.TempDir(), "bot.db"), Options{Origin: "blastdoor.example/test"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// still makes a store without a running committer: the test drives the session.
func still(t *testing.T) (*Store, *session) {
	t.Helper()
	s := open(t)
	s.committer.stop()
	return s, s.committer.session
}

// starting is a request that begins a run, with one event, and then does more.
func starting(t *testing.T, runID string, then func(*session) error) *request {
	t.Helper()
	p, err := prepare(storetest.Begin(runID, "src-"+runID))
	require.NoError(t, err)
	return &request{do: func(s *session) error {
		if _, _, err := s.begin("src-"+runID, &p); err != nil {
			return err
		}
		return then(s)
	}}
}

func nothing(*session) error { return nil }

// requireSound checks that the session's tree is the database's, and the history whole.
func requireSound(t *testing.T, s *Store, ses *session, runs ...string) {
	t.Helper()
	stored, err := readTree(t.Context(), ses.conn)
	require.NoError(t, err)
	require.Equal(t, stored.size, ses.tree.size)
	want, err := stored.root()
	require.NoError(t, err)
	got, err := ses.tree.root()
	require.NoError(t, err)
	require.Equal(t, want, got, "the tree in memory is ahead of the database")
	unfinished, err := s.Unfinished(t.Context())
	require.NoError(t, err)
	require.Equal(t, runs, unfinished)
	report, err := s.Verify(t.Context(), AuditOptions{})
	require.NoError(t, err)
	require.Empty(t, report.Findings)
}

var errWanted = errors.New("as the test wants it")

func TestOneRequestFailsInABatch(t *testing.T) {
	s, ses := still(t)
	batch := []*request{starting(t, "r1", nothing), starting(t, "r2", func(*session) error { return errWanted }), starting(t, "r3", nothing)}
	require.NoError(t, ses.commit(batch))
	require.NoError(t, batch[0].err)
	require.ErrorIs(t, batch[1].err, errWanted)
	require.NoError(t, batch[2].err)
	requireSound(t, s, ses, "r1", "r3")
}

// The control: a tree that is not restored after a failed request is noticed.
func TestTreeThatIsNotRestoredIsNoticed(t *testing.T) {
	_, ses := still(t)
	var ahead tree
	batch := []*request{starting(t, "r1", func(s *session) error { ahead = s.tree; return errWanted }), starting(t, "r2", func(s *session) error {
		s.tree = ahead
		return nil
	})}
	require.NoError(t, ses.commit(batch))
	require.ErrorIs(t, batch[0].err, errWanted)
	stored, err := readTree(t.Context(), ses.conn)
	require.NoError(t, err)
	want, err := stored.root()
	require.NoError(t, err)
	got, err := ses.tree.root()
	require.NoError(t, err)
	require.NotEqual(t, want, got)
}

func TestOneRequestAloneFails(t *testing.T) {
	s, ses := still(t)
	r := starting(t, "r1", func(*session) error { return errWanted })
	require.NoError(t, ses.commit([]*request{r}))
	require.ErrorIs(t, r.err, errWanted)
	requireSound(t, s, ses)
	require.NoError(t, ses.commit([]*request{starting(t, "r2", nothing)}))
	requireSound(t, s, ses, "r2")
}

// A COMMIT that fails, here over a foreign key that was deferred, fails everyone.
func TestCommitStatementFails(t *testing.T) {
	s, ses := still(t)
	orphan := func(s *session) error {
		_, err1 := s.exec(`PRAGMA defer_foreign_keys = 1`)
		_, err2 := s.exec(`INSERT INTO locks (target, run_id, place) VALUES ('db', 'ghost', 0)`)
		return errors.Join(err1, err2)
	}
	batch := []*request{starting(t, "r1", nothing), starting(t, "r2", orphan)}
	require.ErrorContains(t, ses.commit(batch), "committing")
	requireSound(t, s, ses)
	require.NoError(t, ses.commit([]*request{starting(t, "r3", nothing)}))
	requireSound(t, s, ses, "r3")
}

// SQLite may roll back the whole transaction by itself. Then what came before the
// failure is gone and must not be reported as done, and what comes after must not
// run outside a transaction.
func TestTransactionIsLost(t *testing.T) {
	s, ses := still(t)
	ran := false
	batch := []*request{
		starting(t, "r1", nothing),
		starting(t, "r2", func(s *session) error {
			_, err := s.exec(`ROLLBACK`)
			return errors.Join(err, errWanted)
		}),
		starting(t, "r3", func(*session) error { ran = true; return nil }),
	}
	require.ErrorContains(t, ses.commit(batch), "rolling back one request")
	require.False(t, ran)
	requireSound(t, s, ses)
	require.NoError(t, ses.commit([]*request{starting(t, "r4", nothing)}))
	requireSound(t, s, ses, "r4")
}

func TestDiskIsFull(t *testing.T) {
	s, ses := still(t)
	require.NoError(t, ses.commit([]*request{starting(t, "r1", nothing)}))
	var pages int
	require.NoError(t, ses.conn.QueryRowContext(t.Context(), `PRAGMA page_count`).Scan(&pages))
	_, err := ses.conn.ExecContext(t.Context(), fmt.Sprintf(`PRAGMA max_page_count = %d`, pages+2))
	require.NoError(t, err)
	big := func(s *session) error {
		return s.putDocument(&blastdoor.Document{Digest: blastdoor.DigestBytes(nil), Body: make([]byte, 1<<20)})
	}
	batch := []*request{starting(t, "r2", nothing), starting(t, "r3", big)}
	err = ses.commit(batch)
	require.ErrorContains(t, errors.Join(err, batch[1].err), "full")
	if err == nil { // then SQLite has undone the one statement only
		requireSound(t, s, ses, "r1", "r2")
	} else {
		requireSound(t, s, ses, "r1")
	}
	_, err = ses.conn.ExecContext(t.Context(), `PRAGMA max_page_count = 1000000`)
	require.NoError(t, err)
	require.NoError(t, ses.commit([]*request{starting(t, "r4", nothing)}), "with room again it goes on")
}

// When the database cannot even be read after a failure, nothing is written any more.
func TestBrokenStops(t *testing.T) {
	_, ses := still(t)
	require.NoError(t, ses.conn.Close())
	err := ses.commit([]*request{starting(t, "r1", nothing)})
	require.Error(t, err)
	err = ses.abandon(err)
	require.True(t, blastdoor.ErrUnavailable.Is(err), "%v", err)
	called := &request{do: func(*session) error { t.Error("a broken session ran a request"); return nil }}
	require.ErrorIs(t, ses.commit([]*request{called}), err)
	ses.conn, err = ses.db.Conn(t.Context()) // for the clean-up
	require.NoError(t, err)
}

// gate holds the committer until it is opened.
func gate(t *testing.T, s *Store) (open func()) {
	t.Helper()
	entered, released := make(chan struct{}), make(chan struct{})
	go func() {
		_ = s.committer.submit(context.Background(), func(*session) error {
			close(entered)
			<-released
			return nil
		})
	}()
	<-entered
	return func() { close(released) }
}

func queued(s *Store, n int) {
	for len(s.committer.queue) < n {
		runtime.Gosched()
	}
}

func TestCancelledBeforeAndAfterQueueing(t *testing.T) {
	s := open(t)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Accept(gone, blastdoor.InboxItem{ID: "never", ReceivedAt: time.Unix(1, 0)})
	require.ErrorIs(t, err, context.Canceled)

	release := gate(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan error, 1)
	go func() {
		_, err := s.Accept(ctx, blastdoor.InboxItem{ID: "kept", ReceivedAt: time.Unix(1, 0)})
		answer <- err
	}()
	queued(s, 1)
	cancel()
	release()
	require.NoError(t, <-answer, "once queued, the outcome is told")
	items, err := s.PendingInbox(t.Context())
	require.NoError(t, err)
	require.Len(t, items, 1)
	require.Equal(t, "kept", items[0].ID)
}

func TestCloseAnswersWhatIsQueued(t *testing.T) {
	s := open(t)
	release := gate(t, s)
	const callers = 20
	answers := make([]error, callers)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() {
			_, answers[i] = s.Accept(t.Context(), blastdoor.InboxItem{ID: fmt.Sprint(i), ReceivedAt: time.Unix(1, 0)})
		})
	}
	queued(s, callers)
	closed := make(chan error, 2)
	for range 2 {
		go func() { closed <- s.Close() }()
	}
	release()
	wg.Wait()
	require.NoError(t, errors.Join(answers...))
	require.NoError(t, <-closed)
	require.NoError(t, <-closed)
	_, err := s.Accept(t.Context(), blastdoor.InboxItem{ID: "late", ReceivedAt: time.Unix(1, 0)})
	require.True(t, blastdoor.ErrUnavailable.Is(err), "%v", err)

	again, err := Open(t.Context(), s.path, Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, again.Close()) }()
	items, err := again.PendingInbox(t.Context())
	require.NoError(t, err)
	require.Len(t, items, callers)
}

func TestCommitRefusesWhatContradictsItself(t *testing.T) {
	s := open(t)
	good := storetest.Begin("r1", "src")
	for name, spoil := range map[string]func(c *blastdoor.Commit){
		"gap":                  func(c *blastdoor.Commit) { c.Events[0].Seq = 2 },
		"another run's event":  func(c *blastdoor.Commit) { c.Events[0].RunID = "r2" },
		"no time":              func(c *blastdoor.Commit) { c.Events[0].At = time.Time{} },
		"no body":              func(c *blastdoor.Commit) { c.Events[0].Body = nil },
		"no events":            func(c *blastdoor.Commit) { c.Events, c.Projection.Run.Len = nil, 0 },
		"another run's row":    func(c *blastdoor.Commit) { c.Projection.Run.ID = "r2" },
		"another length":       func(c *blastdoor.Commit) { c.Projection.Run.Len = 2 },
		"another source":       func(c *blastdoor.Commit) { c.Events[0].Body = &blastdoor.RunRequested{SourceID: "other"} },
		"not a request":        func(c *blastdoor.Commit) { c.Events[0].Body = &blastdoor.Observed{} },
		"unknown status":       func(c *blastdoor.Commit) { c.Projection.Run.Status = "dreaming" },
		"ended, still running": func(c *blastdoor.Commit) { c.Projection.Ended = true },
		"wrong digest":         func(c *blastdoor.Commit) { c.Documents = []blastdoor.Document{{Digest: "sha256:x", Body: []byte("y")}} },
		"another run's approval": func(c *blastdoor.Commit) {
			c.Projection.Approvals = []blastdoor.ApprovalRow{{ID: "a", RunID: "r2"}}
		},
		"another run's flight":  func(c *blastdoor.Commit) { c.Projection.Flight = &blastdoor.Flight{RunID: "r2"} },
		"no such envelope":      func(c *blastdoor.Commit) { c.Settles = "ghost" },
		"unknown delivery kind": func(c *blastdoor.Commit) { c.Deliveries = []blastdoor.Delivery{{ID: "d", Kind: "shout"}} },
	} {
		c := good
		c.Events = []blastdoor.Event{good.Events[0]}
		spoil(&c)
		_, _, err := s.Begin(t.Context(), "src", c)
		require.Error(t, err, name)
		_, err = s.Load(t.Context(), "r1")
		require.True(t, blastdoor.ErrNotFound.Is(err), "%s left a trace", name)
	}
	_, isNew, err := s.Begin(t.Context(), "src", good)
	require.NoError(t, err)
	require.True(t, isNew)
}
