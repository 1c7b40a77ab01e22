package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"blastdoor/chat/slacksim"
	"blastdoor/internal/app"
	"blastdoor/simenv"
	"blastdoor/store"
)

// line is a writer that signals once a line with a text has been written.
type line struct {
	text string
	once sync.Once
	seen chan struct{}
	mu   sync.Mutex
	all  bytes.Buffer
}

func waitFor(text string) *line { return &line{text: text, seen: make(chan struct{})} }

func (l *line) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all.Write(p)
	if strings.Contains(l.all.String(), l.text) {
		l.once.Do(func() { close(l.seen) })
	}
	return len(p), nil
}

// newDemo starts a workspace, an infrastructure and a bot process for a test.
func newDemo(t *testing.T, environ ...string) *demonstration {
	t.Helper()
	p := program{environ: append([]string{asBot + "=1"}, environ...), stdout: t.Output(), stderr: t.Output(), now: time.Now}
	d, err := p.startDemo(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.close()) })
	return d
}

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// script sets faults in the infrastructure from outside the bot.
func faults(t *testing.T, files app.Files, set ...simenv.Fault) {
	t.Helper()
	env, err := simenv.Open(t.Context(), files.World(), simenv.Options{})
	require.NoError(t, err)
	for _, f := range set {
		require.NoError(t, env.AddFault(t.Context(), f))
	}
	require.NoError(t, env.Close())
}

func effects(t *testing.T, files app.Files) []simenv.Effect {
	t.Helper()
	env, err := simenv.Open(t.Context(), files.World(), simenv.Options{})
	require.NoError(t, err)
	ledger, err := env.Ledger(t.Context())
	require.NoError(t, err)
	require.NoError(t, env.Close())
	return ledger
}

// killAfterTheWrite lets Bob approve a restart of the cache; the write lands, the
// bot is killed before it can know, and a new process ends the run.
func killAfterTheWrite(t *testing.T, more ...simenv.Fault) *demonstration {
	t.Helper()
	d := newDemo(t)
	faults(t, d.files, append(more, simenv.Fault{Method: simenv.MethodApply, Kind: simenv.HangAfter, Times: 1})...)
	struck := waitFor("scripted fault")
	require.NoError(t, d.bot.stop(10*time.Second))
	d.bot.watch = struck
	require.NoError(t, d.startBot(deadline(t)))

	_, err := d.act("alice", "/runbook run restart-cache")
	require.NoError(t, err)
	_, err = d.ws.WaitMessage(deadline(t), "ops", func(m slacksim.Message) bool { return m.HasButton("approve") })
	require.NoError(t, err)
	_, err = d.act("bob", "approve")
	require.NoError(t, err)
	select {
	case <-struck.seen: // the effect is in the ledger, its outcome is not in the log
	case <-deadline(t).Done():
		t.Fatal("the write was never reached")
	}
	require.NoError(t, d.bot.kill())
	require.Len(t, effects(t, d.files), 1)

	require.NoError(t, d.startBot(deadline(t)))
	_, err = d.ws.WaitMessage(deadline(t), "ops", func(m slacksim.Message) bool {
		return strings.Contains(slacksim.PlainText(m), "Completed")
	})
	require.NoError(t, err)
	return d
}

func TestKilledAfterTheWriteTheLedgerHoldsOneEffect(t *testing.T) {
	d := killAfterTheWrite(t)
	require.Len(t, effects(t, d.files), 1)
	audit, err := app.Verify(t.Context(), d.files, store.AuditOptions{}, time.Now)
	require.NoError(t, err)
	require.True(t, audit.OK(), "%+v", audit)
	require.Equal(t, 1, count(d.ws.Messages("ops"), "Run: restart-cache"))
}

// TestKilledAfterTheWriteWithoutKeysTheLedgerHoldsTwo is the negative control: an
// environment that enforces neither key nor version writes twice, and the audit
// says so. (A drain would be stopped even then, by the rehearsal right before the
// write: a host that has been drained has nothing to drain.)
func TestKilledAfterTheWriteWithoutKeysTheLedgerHoldsTwo(t *testing.T) {
	d := killAfterTheWrite(t, simenv.Fault{Kind: simenv.IgnoreKeys})
	ledger := effects(t, d.files)
	require.Len(t, ledger, 2)
	require.Equal(t, ledger[0].Key, ledger[1].Key)
	audit, err := app.Verify(t.Context(), d.files, store.AuditOptions{}, time.Now)
	require.NoError(t, err)
	require.Contains(t, strings.Join(audit.Violations, "\n"), "property 1:")
}

func TestPlay(t *testing.T) {
	var out bytes.Buffer
	p := program{args: []string{"demo", "--play"}, environ: []string{asBot + "=1"}, stdout: &out, stderr: &out, now: time.Now}
	require.Equal(t, exitOK, p.run(t.Context()), out.String())
	require.Contains(t, out.String(), "writes: 1 · duplicates: 0 · audit records: ")
	for _, code := range []string{"self_approval", "not_an_approver", "guest", "external_user"} {
		require.Contains(t, out.String(), code)
	}
}

func TestASecondServeOnTheSameDatabaseIsRefused(t *testing.T) {
	d := newDemo(t)
	var out bytes.Buffer
	p := program{args: []string{"serve"}, environ: d.bot.environ, stdout: &out, stderr: &out, now: time.Now}
	require.Equal(t, exitError, p.run(deadline(t)))
	require.Contains(t, out.String(), "one bot owns one database")
}

// TestKilledAtAnyMoment kills the bot n calls after it has acknowledged the
// request, each time at another place of the story; the end is the same.
func TestKilledAtAnyMoment(t *testing.T) {
	for n := range 8 {
		t.Run(fmt.Sprintf("%d calls after the ack", n), func(t *testing.T) {
			t.Parallel()
			d := newDemo(t)
			before := len(d.ws.Journal())
			killed := make(chan error, 1)
			go func() {
				_, err := d.ws.WaitEntry(deadline(t), "the moment to kill", func(slacksim.Entry) bool {
					_, asked := newestWith(d.ws.Messages("ops"), "approve")
					return asked || sinceAck(d.ws.Journal()[before:]) >= n
				})
				killed <- errors.Join(err, d.bot.kill())
			}()
			outcome, err := d.act("alice", "/runbook run drain-host-a")
			require.NoError(t, err)
			require.Empty(t, outcome.Shown)
			require.NoError(t, <-killed)
			require.NoError(t, d.startBot(deadline(t)))
			_, err = d.ws.WaitMessage(deadline(t), "ops", func(m slacksim.Message) bool { return m.HasButton("approve") })
			require.NoError(t, err, "the request was acknowledged and lost")
			_, err = d.act("bob", "approve")
			require.NoError(t, err)
			_, err = d.ws.WaitMessage(deadline(t), "ops", func(m slacksim.Message) bool {
				return strings.Contains(slacksim.PlainText(m), "Completed")
			})
			require.NoError(t, err)
			require.Len(t, effects(t, d.files), 1)
			require.Equal(t, 1, count(d.ws.Messages("ops"), "Run: drain-host-a"), "run cards")
			require.Equal(t, 1, count(d.ws.Messages("ops"), "Dry run: drain-host-a"), "dry-run cards")
		})
	}
}

// sinceAck counts what the bot did after its first ack; -1 before it.
func sinceAck(journal []slacksim.Entry) int {
	for i, e := range journal {
		if e.Kind == slacksim.KindAck {
			return len(journal) - i - 1
		}
	}
	return -1
}

func count(messages []slacksim.Message, text string) int {
	n := 0
	for _, m := range messages {
		if strings.Contains(slacksim.PlainText(m), text) {
			n++
		}
	}
	return n
}
