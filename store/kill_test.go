package store_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"blastdoor"
	"blastdoor/internal/storetest"
	"blastdoor/store"
)

// victims is how many goroutines commit at once when the process is killed.
const victims = 8

// TestKill kills a process in the middle of committing, several times over, and
// looks for every commit that it had acknowledged. It shows that a commit is whole
// or absent, not that it survives a power cut: the kernel keeps what it was given.
func TestKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bot.db")
	s, err := store.Create(t.Context(), path, options())
	require.NoError(t, err)
	require.NoError(t, s.Close())

	acknowledged := map[string]int{}
	for round := range 4 {
		killWhileCommitting(t, path, 150+70*round, acknowledged)

		s, err := store.Open(t.Context(), path, options())
		require.NoError(t, err, "round %d", round)
		for runID, length := range acknowledged {
			events, err := s.Load(t.Context(), runID)
			require.NoError(t, err)
			require.GreaterOrEqual(t, len(events), length, "an acknowledged commit to %s is lost", runID)
			require.LessOrEqual(t, len(events), length+1, "%s has commits that nobody was waiting for", runID)
			acknowledged[runID] = len(events)
		}
		report, err := s.Verify(t.Context(), store.AuditOptions{})
		require.NoError(t, err)
		require.Empty(t, report.Findings)
		_, err = s.SignHead(t.Context())
		require.NoError(t, err)
		require.NoError(t, s.Close())
	}
	require.Len(t, acknowledged, 4*victims)
}

// killWhileCommitting starts a victim, reads its acknowledgements, kills it after
// the given number, and notes those that were on their way too.
func killWhileCommitting(t *testing.T, path string, after int, acknowledged map[string]int) {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), victimVariable+"="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())

	lines := bufio.NewScanner(out)
	for n := 0; lines.Scan(); n++ {
		runID, length, ok := strings.Cut(lines.Text(), " ")
		count, err := strconv.Atoi(length)
		if !ok || err != nil {
			break // the last line may be cut
		}
		acknowledged[runID] = max(acknowledged[runID], count)
		if n == after {
			require.NoError(t, cmd.Process.Kill())
		}
	}
	require.Error(t, cmd.Wait(), "the victim ended by itself")
}

// beVictim commits to runs of its own from several goroutines and says so after
// each, until it is killed.
func beVictim(path string, out io.Writer) error {
	ctx := context.Background()
	s, err := store.Open(ctx, path, store.Options{})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	errs := make(chan error, victims)
	for i := range victims {
		go func() { errs <- commitForEver(ctx, s, fmt.Sprintf("r%d-%d", os.Getpid(), i), out, &mu) }()
	}
	return <-errs
}

func commitForEver(ctx context.Context, s *store.Store, runID string, out io.Writer, mu *sync.Mutex) error {
	c := storetest.Begin(runID, "src-"+runID)
	if _, _, err := s.Begin(ctx, "src-"+runID, c); err != nil {
		return err
	}
	for {
		mu.Lock()
		_, err := fmt.Fprintf(out, "%s %d\n", runID, c.At+len(c.Events))
		mu.Unlock()
		if err != nil {
			return err
		}
		c = storetest.Follow(c, &blastdoor.Observed{Summary: strings.Repeat("x", 300)})
		c.Deliveries = []blastdoor.Delivery{storetest.Card(runID, c.At+1)}
		if err := s.Commit(ctx, c); err != nil {
			return err
		}
	}
}
