package slack

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"blastdoor/evals/report"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func named(t *testing.T, name string) scenario {
	t.Helper()
	for _, sc := range scenarios() {
		if sc.name == name {
			return sc
		}
	}
	require.Fail(t, "there is no scenario "+name)
	return scenario{}
}

// TestQuickScenarios plays those that take no long pauses, with the shipped wiring
// and with that of the controls, nothing broken: what a control notices then comes
// from what is broken in it.
func TestQuickScenarios(t *testing.T) {
	for _, name := range []string{"the same envelope arrives again", "429 without Retry-After on every posting method",
		"a post whose connection dies after Slack stored it", "the workspace is down for ten minutes, and a click comes too late"} {
		for wiring, open := range map[string]opener{"shipped": inProcess, "of the controls": broken(func(*parts) {})} {
			t.Run(name+", wiring "+wiring, func(t *testing.T) {
				t.Parallel()
				got, err := named(t, name).run(t.Context(), t.TempDir(), open, patience)
				require.NoError(t, err)
				require.True(t, got.sound(), got.String())
			})
		}
	}
}

// TestABrokenBotIsNoticed tries the control that needs no patience; the eval tries
// them all.
func TestABrokenBotIsNoticed(t *testing.T) {
	t.Parallel()
	for _, c := range controls() {
		named(t, c.scenario)
		if c.name != "a command that comes again is a new one" {
			continue
		}
		got, err := c.try(t.Context(), t.TempDir())
		require.NoError(t, err)
		require.True(t, c.notices(got), got.String())
		require.False(t, got.sound())
		return
	}
	require.Fail(t, "the control is gone")
}

// TestEachShortfallFailsTheEval: whatever a scenario counts, one of it is enough.
func TestEachShortfallFailsTheEval(t *testing.T) {
	fine := result{tally: tally{refused: 2, told: 2}}
	require.True(t, passed(fine, fine))
	for name, bad := range map[string]tally{"lost": {lost: 1}, "doubled": {doubled: 1}, "duplicates": {duplicates: 1},
		"untold": {refused: 2, told: 1}, "told twice": {refused: 1, told: 2}, "error": {err: errors.New("the card never came")}} {
		require.False(t, passed(fine, result{tally: bad}), name)
	}
}

func passed(results ...result) bool {
	return report.New(Eval(), figures(results), time.Now()).Passed
}

func TestPlayReportsAndKeepsTheOrder(t *testing.T) {
	all := []scenario{{name: "one"}, {name: "two", alone: true}, {name: "three"}}
	var out strings.Builder
	results, err := play(t.Context(), &out, all, func(i int) (tally, error) { return tally{told: i, refused: min(i, 1)}, nil })
	require.NoError(t, err)
	for i, r := range results {
		require.Equal(t, i, r.told)
	}
	require.Equal(t, 2, strings.Count(out.String(), " ok\n"))
	require.Contains(t, out.String(), "FAILED: lost 0, doubled 0, duplicate writes 0, refused 1, told 2")

	_, err = play(t.Context(), &out, all, func(i int) (tally, error) { return tally{}, fmt.Errorf("scenario %d: no room", i) })
	require.ErrorContains(t, err, "scenario 2: no room")
}

// TestTheFirstFailureIsKept: after it a scenario does nothing more.
func TestTheFirstFailureIsKept(t *testing.T) {
	s := &stage{}
	s.expect(true, "fine")
	require.NoError(t, s.err)
	s.expect(false, "the card of %s is gone", "r-1")
	s.expect(false, "and another thing")
	require.EqualError(t, s.err, "the card of r-1 is gone")
	require.Empty(t, s.run("alice", "restart-cache"))
	s.approves(s.card("r-1"))
	require.Zero(t, s.requests+s.writes)
}
