package promise

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestALaterPromiseStandsForTheEarlier(t *testing.T) {
	var b Book
	for _, p := range []Promise{
		{Kind: Accepted, ID: "in-1"},
		{Kind: Committed, ID: "run", Len: 1, Hash: "a", Settles: "in-1"},
		{Kind: Committed, ID: "run", Len: 2, Hash: "b"},
		{Kind: Committed, ID: "run", Len: 3, Hash: "c"},
		{Kind: Committed, ID: "other", Len: 1, Hash: "d"},
		{Kind: Attempted, ID: "card"},
		{Kind: Delivered, ID: "card", TS: "1"},
		{Kind: Delivered, ID: "card", TS: "2"},
		{Kind: Attempted, ID: "card"},
		{Kind: Signed, ID: "note 1"},
		{Kind: Signed, ID: "note 2"},
	} {
		b.Add(p)
	}
	require.Equal(t, []Promise{
		{Kind: Accepted, ID: "in-1"},
		{Kind: Committed, ID: "run", Len: 1, Hash: "a", Settles: "in-1"}, // its answer is looked for too
		{Kind: Committed, ID: "run", Len: 3, Hash: "c"},
		{Kind: Committed, ID: "other", Len: 1, Hash: "d"},
		{Kind: Delivered, ID: "card", TS: "2"},
		{Kind: Attempted, ID: "card"}, // a refresh
		{Kind: Signed, ID: "note 1"},
		{Kind: Signed, ID: "note 2"},
	}, b.Promises)
	require.Equal(t, []string{"note 1", "note 2"}, b.Notes())
}

func TestACopyDoesNotChange(t *testing.T) {
	b := Book{Promises: []Promise{{Kind: Committed, ID: "run", Len: 1}}}
	before := b.Clone()
	b.Add(Promise{Kind: Committed, ID: "run", Len: 2})
	require.Equal(t, 1, before.Promises[0].Len)
	path := filepath.Join(t.TempDir(), "book.json")
	require.NoError(t, b.Save(path))
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	var back Book
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, b, back)
}

func TestReportsAreLines(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out)
	reports := []Report{{Promise: &Promise{Kind: Signed, ID: "a\nnote"}}, {Begins: "applied"}, {Booted: true, Found: []Broken{{Lost: true, What: "x"}}}, {Done: true}}
	for _, r := range reports {
		require.NoError(t, w.Write(r))
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, len(reports))
	for i, line := range lines {
		got, err := Read(line)
		require.NoError(t, err)
		require.Equal(t, reports[i], got)
	}
	_, err := Read(lines[0][:20])
	require.Error(t, err, "a line that was cut")
	_, err = Read(`{"promised":1}`)
	require.ErrorContains(t, err, "unknown field")
}
