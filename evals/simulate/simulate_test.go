package simulate

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"blastdoor/evals/report"
)

const good = `SIMULATE {"runs":19000,"single":848,"pairs":16000,"random":2500,"calls":1,"faults":33000,"restarts":4000,` +
	`"violations":0,"controls":{"a":1,"b":4,"c":25},"seed":7}`

func passes(l line) bool { return report.New(Eval(), figures(l), time.Now()).Passed }

func TestTheFiguresOfTheChildAreRead(t *testing.T) {
	var progress bytes.Buffer
	l, err := read(strings.NewReader("=== RUN   TestSimulate/pairs\n=== RUN   TestSimulate/pairs/0\n"+good+"\nPASS\n"), &progress)
	require.NoError(t, err)
	require.Equal(t, "  … pairs\n", progress.String())
	require.EqualValues(t, 7, l.Seed)
	require.True(t, passes(l))
}

// TestWhatFallsShortFails: each figure with a target can fail.
func TestWhatFallsShortFails(t *testing.T) {
	for name, spoil := range map[string]func(*line){
		"too few runs":         func(l *line) { l.Runs = 9_999 },
		"no pairs":             func(l *line) { l.Pairs = 0 },
		"faults that miss":     func(l *line) { l.Faults = 10 },
		"no process dies":      func(l *line) { l.Restarts = 0 },
		"a violation":          func(l *line) { l.Violations = 1 },
		"a control unnoticed":  func(l *line) { l.Controls["b"] = 0 },
		"a control is missing": func(l *line) { delete(l.Controls, "c") },
	} {
		l, err := read(strings.NewReader(good), new(bytes.Buffer))
		require.NoError(t, err)
		spoil(&l)
		require.False(t, passes(l), name)
	}
}

func TestAChildWithoutFiguresIsAnError(t *testing.T) {
	_, err := read(strings.NewReader("ok  \tblastdoor/engine\t0.1s [no tests to run]\n"), new(bytes.Buffer))
	require.ErrorContains(t, err, "no tests to run")
}
