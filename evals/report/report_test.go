package report

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFiguresAreJudged(t *testing.T) {
	for _, c := range []struct {
		figure Figure
		passes bool
	}{
		{Figure{Value: 1, Target: 1}, true}, {Figure{Value: 1.1, Target: 1}, false},
		{Figure{Value: 1, Target: 1, AtLeast: true}, true}, {Figure{Value: 0.9, Target: 1, AtLeast: true}, false},
		{Figure{Value: 0, None: true}, true}, {Figure{Value: 1, None: true}, false},
		{Figure{Value: 9}, true}, // for information
	} {
		r := New(Eval{Name: "x"}, []Figure{c.figure}, time.Now())
		require.Equal(t, c.passes, r.Passed, "%+v", c.figure)
		var out bytes.Buffer
		r.Print(&out)
		require.Equal(t, !c.passes, bytes.Contains(out.Bytes(), []byte("MISSED")))
		require.Equal(t, !c.passes, bytes.Contains([]byte(table(r)), []byte("missed")))
	}
}

func TestMedian(t *testing.T) {
	f := Median("x", []time.Duration{3 * time.Millisecond, time.Millisecond, 2 * time.Millisecond}, time.Millisecond, "ms", 5)
	require.Equal(t, 2.0, f.Value)
	require.Equal(t, 3, f.Count)
}

func TestDifferences(t *testing.T) {
	write := func(figures ...Figure) string {
		dir := t.TempDir()
		require.NoError(t, New(Eval{Name: "x", Caveat: "c"}, figures, time.Now()).Write(dir))
		return dir
	}
	base := write(Figure{Name: "a", Value: 1, Target: 2})
	same, err := Differences(base, write(Figure{Name: "a", Value: 1.5, Target: 2}))
	require.NoError(t, err)
	require.Empty(t, same, "a measured value may differ")
	for _, other := range [][]Figure{{{Name: "b", Value: 1, Target: 2}}, {{Name: "a", Value: 3, Target: 2}}, {}, {{Name: "a", Value: 1, None: true}}} {
		found, err := Differences(base, write(other...))
		require.NoError(t, err)
		require.NotEmpty(t, found, "%+v", other)
	}
}
