package app_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"blastdoor/chat/slacksim"
	"blastdoor/engine"
	"blastdoor/store"
)

// TestTwoHundredAtOnce: every one is acknowledged in time, none is lost, none is
// doubled. It runs alone, so that its figures mean something; the limit on them is
// wide, for a loaded machine.
func TestTwoHundredAtOnce(t *testing.T) {
	const n = 200
	h := newHouse(t, setup{})
	outcomes := make([]slacksim.Outcome, n)
	var asking sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		asking.Go(func() {
			<-begin
			var err error
			outcomes[i], err = h.ws.As([]string{"alice", "bob", "carol", "mallory"}[i%4]).Slash("ops", "/runbook run restart-cache")
			assert.NoError(t, err)
		})
	}
	close(begin)
	asking.Wait()
	took, want := make([]time.Duration, n), map[string]bool{}
	for i, out := range outcomes {
		require.Equal(t, slacksim.Acked, out.Status, out.Shown)
		took[i] = out.Took
		want[engine.RunID("restart-cache", "slash-"+out.TriggerID)] = true
	}
	slices.Sort(took)
	t.Logf("slash command to ack, %d at once: p50 %s, p99 %s, most %s", n, took[n/2], took[n*99/100], took[n-1])
	require.Less(t, took[n*99/100], ackLimit)
	require.Len(t, want, n)

	posted := h.allPosted(want)
	for id := range want {
		require.Equal(t, 1, posted[id+"/card"], id)
		require.Equal(t, 1, posted[id+"/restart/plan-1"], id)
	}
	require.Equal(t, store.Counts{Runs: n, Unfinished: n, Waiting: n, Events: 5 * n}, h.settledCounts())
	require.Zero(t, h.effects())
}

// allPosted waits until both cards of every run hang in the channel, and counts the
// messages of each delivery.
func (h *house) allPosted(runs map[string]bool) map[string]int {
	h.t.Helper()
	missing := map[string]bool{}
	for id := range runs {
		missing[id+"/card"], missing[id+"/restart/plan-1"] = true, true
	}
	_, err := h.ws.WaitMessage(h.ctx(), "ops", func(m slacksim.Message) bool {
		delete(missing, deliveryOf(m))
		return len(missing) == 0
	})
	require.NoError(h.t, err, "%d cards are missing", len(missing))
	posted := map[string]int{}
	for _, m := range h.ws.Messages("ops") {
		posted[deliveryOf(m)]++
	}
	return posted
}

// deliveryOf reads from a message's metadata which delivery it is.
func deliveryOf(m slacksim.Message) string {
	if m.Metadata == nil {
		return ""
	}
	_, id, _ := strings.Cut(string(m.Metadata.EventPayload), `"delivery_id":"`)
	id, _, _ = strings.Cut(id, `"`)
	return id
}

// settledCounts stops the bot, which delivers what is left, and counts.
func (h *house) settledCounts() store.Counts {
	h.stop()
	counts := h.counts()
	counts.Pending = 0 // refreshes have their pace; the next start goes on with them
	return counts
}
