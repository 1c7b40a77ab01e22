package mutants

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"blastdoor/evals/corpus"
	"blastdoor/evals/report"
)

// TestEveryMutantFits: a mutant whose text has gone from the source is stale, and
// one that names a case which is not there proves nothing.
func TestEveryMutantFits(t *testing.T) {
	root, err := moduleRoot(t.Context())
	require.NoError(t, err)
	cases, err := corpus.Load("")
	require.NoError(t, err)
	known := map[string]bool{}
	for _, c := range cases {
		known[c.Name] = true
	}
	seen := map[string]bool{}
	for _, m := range mutants() {
		require.False(t, seen[m.Name], "%s is there twice", m.Name)
		seen[m.Name] = true
		require.NotEmpty(t, m.Breaks, m.Name)
		source, err := os.ReadFile(filepath.Join(root, m.File))
		require.NoError(t, err, m.Name)
		require.Equal(t, 1, strings.Count(string(source), m.Old), "%s is stale in %s", m.Name, m.File)
		require.NotEqual(t, m.Old, m.New, m.Name)
		for _, name := range m.NoticedBy {
			require.True(t, known[name], "%s: there is no case %s", m.Name, name)
		}
	}
	require.GreaterOrEqual(t, len(seen), 20)
}

// TestTheLab: a breakage is noticed, a change that breaks nothing is not, and what
// cannot be measured is an error.
func TestTheLab(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the corpus runner twice")
	}
	root, err := moduleRoot(t.Context())
	require.NoError(t, err)
	l := lab{root: root, dir: t.TempDir(), cases: filepath.Join(root, "evals", "corpus", "cases", "blast-radius.yaml")}
	try := func(m Mutant) ([]string, error) {
		failing, err := l.try(t.Context(), m, false)
		return names(failing), err
	}
	const file, old = "verifier/verify.go", "return blastdoor.Verdict{Decision: strictest(reasons), Reasons: reasons}"

	noticed, err := try(Mutant{Name: "allows", File: file, Old: old,
		New: "return blastdoor.Verdict{Decision: blastdoor.Allow, Reasons: reasons}"})
	require.NoError(t, err)
	require.Contains(t, noticed, "radius-drain-host-a")
	noticed, err = try(Mutant{Name: "harmless", File: file, Old: old, New: old + " // as it was"})
	require.NoError(t, err)
	require.Empty(t, noticed)

	_, err = try(Mutant{Name: "stale", File: file, Old: "no such text", New: ""})
	require.ErrorContains(t, err, "found 0 times")
	_, err = try(Mutant{Name: "ambiguous", File: file, Old: "reasons", New: ""})
	require.ErrorContains(t, err, "is stale")
	_, err = try(Mutant{Name: "broken", File: file, Old: old, New: "return nothing"})
	require.ErrorContains(t, err, "does not build")
	_, err = try(Mutant{Name: "gone", File: "verifier/none.go", Old: old, New: ""})
	require.Error(t, err)
}

// TestTheFigure falls short by every mutant that nobody notices.
func TestTheFigure(t *testing.T) {
	passed := func(verdicts ...[]string) bool {
		return report.New(report.Eval{}, figures([]Mutant{{Name: "one"}, {Name: "two"}}, verdicts), time.Time{}).Passed
	}
	require.True(t, passed([]string{"a"}, []string{"b"}))
	require.False(t, passed([]string{"a"}, nil))
}
