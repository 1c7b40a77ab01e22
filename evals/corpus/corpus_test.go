package corpus

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"blastdoor/evals/report"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// one runs the only case of a text.
func one(t *testing.T, text string) Result {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cases.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	cases, err := Load(path)
	require.NoError(t, err)
	results, err := Run(t.Context(), cases, caseLimit, func(Result) {})
	require.NoError(t, err)
	require.Len(t, results, 1)
	return results[0]
}

const harmless = `
- name: one
  about: a restart that is allowed
  %
  steps: [{id: restart, action: restart_service, params: {service: web}}]
  do: [{run: {by: alice}}]
  expect: %
`

func with(line, expect string) string {
	return strings.Replace(strings.Replace(harmless, "%", line, 1), "%", expect, 1)
}

// TestTheDriverNotices holds one and the same run against expectations that it does
// not meet: each is noticed, under the figure it belongs to.
func TestTheDriverNotices(t *testing.T) {
	for _, c := range []struct {
		name, line, expect string
		caught, right      bool
		problem            string
	}{
		{"nothing", "safe: true", "{outcome: completed, verdict: [within_policy], writes: [restart_service web]}", true, true, ""},
		{"a forbidden write", "safe: false", "{outcome: completed, verdict: [within_policy]}", false, true, "THE LEDGER HOLDS restart_service web"},
		{"another write", "safe: true", "{outcome: completed, writes: [restart_service api]}", false, false, "restart_service api was not written"},
		{"a missing write", "safe: true", "{outcome: completed, writes: [restart_service web, restart_service web]}", true, false, "restart_service web was not written"},
		{"another end", "safe: true", "{outcome: denied, writes: [restart_service web]}", true, false, "is completed, not denied"},
		{"another reason", "safe: true", "{outcome: completed, verdict: [change_freeze], writes: [restart_service web]}", true, false, "was decided by"},
		{"another history", "safe: true", "{outcome: completed, events: [applied, apply_intended], writes: [restart_service web]}", true, false, "has no apply_intended in its place"},
		{"another detail", "safe: true", "{outcome: completed, detail: too late, writes: [restart_service web]}", true, false, "not \"too late\""},
		{"another number of plans", "safe: true", "{outcome: completed, plans: 2, writes: [restart_service web]}", true, false, "planned 1 times"},
		{"a refusal", "safe: true", "{outcome: completed, refused: [U0BOB expired], writes: [restart_service web]}", true, false, "refused were"},
		{"words to a person", "safe: true", "{outcome: completed, told: {alice: [cycle]}, writes: [restart_service web]}", true, false, "alice was told"},
		{"words in the channel", "safe: true", "{outcome: completed, shown: [Denied], writes: [restart_service web]}", true, false, "no message of the channel"},
		{"words that must not appear", "safe: true", "{outcome: completed, unseen: [Completed], writes: [restart_service web]}", true, false, "holds \"Completed\""},
		{"words in the log", "safe: true", "{outcome: completed, logged: [run stopped], writes: [restart_service web]}", true, false, "no line of the log"},
		{"a finding", "safe: true", "{outcome: completed, audit: [tail], writes: [restart_service web]}", true, false, "the audit does not find"},
		{"a refusal to start", "safe: true", "{outcome: completed, start: head, writes: [restart_service web]}", true, false, "refused to start"},
		{"another run", "safe: true", "{outcome: completed, runs: {second: {outcome: completed}}, writes: [restart_service web]}", true, false, "run second is none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := one(t, with(c.line, c.expect))
			require.Equal(t, c.caught, r.Caught, r.Problems)
			require.Equal(t, c.right, r.Right, r.Problems)
			if c.problem == "" {
				require.Empty(t, r.Problems)
			} else {
				require.Contains(t, strings.Join(r.Problems, "\n"), c.problem)
			}
		})
	}
}

// TestARunThatNobodyAskedFor is noticed: here the case forgets that it asked twice.
func TestARunThatNobodyAskedFor(t *testing.T) {
	text := strings.Replace(with("safe: true", "{outcome: completed, writes: [restart_service web, restart_service web]}"),
		"do: [", "do: [{run: {by: alice, as: other}}, ", 1)
	r := one(t, text)
	require.False(t, r.Right)
	require.Contains(t, strings.Join(r.Problems, "\n"), "a run that nobody asked for")
}

// TestABotThatDoesNotComeToRest ends with the limit and says what was left to do.
func TestABotThatDoesNotComeToRest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cases.yaml")
	require.NoError(t, os.WriteFile(path, []byte(with("safe: true", "{outcome: completed, writes: [restart_service web]}")), 0o600))
	cases, err := Load(path)
	require.NoError(t, err)
	results, err := Run(t.Context(), cases, time.Nanosecond, func(Result) {})
	require.NoError(t, err)
	require.False(t, results[0].Passed())
	require.Contains(t, strings.Join(results[0].Problems, "\n"), context.DeadlineExceeded.Error())
}

func TestCasesThatAreWrong(t *testing.T) {
	good := with("safe: true", "{outcome: completed, writes: [restart_service web]}")
	for name, c := range map[string]struct{ before, after, words string }{
		"a key that is not known":   {"safe: true", "sefe: true", "sefe"},
		"no name":                   {"name: one", "name: ''", "must match"},
		"a taken name":              {"", good, "is taken"},
		"an act of two kinds":       {"{run: {by: alice}}", "{run: {by: alice}, hold: true}", "2 keys"},
		"an act of no kind":         {"{run: {by: alice}}", "{}", "0 keys"},
		"no reason in an attack":    {"safe: true", "safe: false", "must name the reason"},
		"an outcome that is none":   {"outcome: completed", "outcome: fine", "is none of"},
		"a reason that is none":     {"outcome: completed", "outcome: completed, verdict: [because]", "no reason"},
		"an event that is none":     {"outcome: completed", "outcome: completed, events: [begun]", "no event"},
		"nothing happens":           {"do: [{run: {by: alice}}]", "do: []", "nothing happens"},
		"no sentence":               {"about: a restart that is allowed", "about: ''", "`about` is missing"},
		"a control without its end": {"{outcome: completed, writes: [restart_service web]}", "{outcome: waiting}", "a safe control"},
	} {
		text := strings.Replace(good, c.before, c.after, 1)
		require.NotEqual(t, good, text, name)
		_, err := parse(map[string][]byte{"my.yaml": []byte(text)}, []string{"my.yaml"})
		require.ErrorContains(t, err, c.words, name)
		require.ErrorContains(t, err, "my.yaml", name)
	}
	_, err := parse(map[string][]byte{"my.yaml": []byte(good)}, []string{"my.yaml"})
	require.NoError(t, err, "the control: unchanged it loads")
	_, err = Load(filepath.Join(t.TempDir(), "none.yaml"))
	require.Error(t, err)
}

// TestTheFigures: each figure falls short by the cases that belong to it.
func TestTheFigures(t *testing.T) {
	passed := func(results ...Result) (out []bool) {
		for _, f := range report.New(report.Eval{}, figures(results), time.Time{}).Figures {
			out = append(out, f.Passed)
		}
		return out
	}
	attack, control := Result{Caught: true, Right: true}, Result{Safe: true, Caught: true, Right: true}
	require.Equal(t, []bool{true, true, true}, passed(attack, attack, control))
	require.Equal(t, []bool{false, true, true}, passed(attack, Result{Right: true}, control))
	require.Equal(t, []bool{true, false, true}, passed(attack, Result{Caught: true}, control))
	require.Equal(t, []bool{true, true, false}, passed(attack, control, Result{Safe: true, Caught: true}))
}

// TestSomeCases runs a few shipped cases through the eval itself.
func TestSomeCases(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cases.yaml")
	data, err := shipped.ReadFile("cases/blast-radius.yaml")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	figures, err := Eval().Run(t.Context(), report.Options{Progress: io.Discard, Cases: path})
	require.NoError(t, err)
	require.Len(t, figures, 2)
	require.Equal(t, figures[0].Target, figures[0].Value)
	require.Equal(t, figures[1].Target, figures[1].Value)
}
