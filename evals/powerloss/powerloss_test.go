package powerloss

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"blastdoor/evals/powerloss/powerfs"
	"blastdoor/evals/powerloss/promise"
)

// TestTheGateBites cuts a few times: with a disk that lies something must be lost,
// with the product as it is, or a mere kill, nothing.
func TestTheGateBites(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a child")
	}
	if err := powerfs.Available(); err != nil {
		t.Skipf("SKIPPED, WHICH IS NO PASS: %v", err)
	}
	dir := t.TempDir()
	b, err := newBuilder(t.Context(), dir)
	require.NoError(t, err)
	e := &eval{out: io.Discard, dir: dir, builder: b, seed: 1}
	child, err := b.child(t.Context(), "FULL")
	require.NoError(t, err)
	e.base, err = e.makeBase(t.Context(), child)
	require.NoError(t, err)
	few := func(v variant) tally {
		v.binary = child
		got, err := e.trial(v, "", 100).random(t.Context(), 8)
		require.NoError(t, err)
		require.Equal(t, 8, got.cuts)
		return got
	}
	lying := few(variant{policies: powerfs.Cuts(), lying: true})
	require.NotZero(t, lying.lost)
	require.Less(t, lying.survived(), lying.cuts)
	for _, harmless := range []variant{{policies: powerfs.Cuts()}, {policies: []powerfs.Policy{powerfs.Keep}, lying: true}} {
		got := few(harmless)
		require.Zero(t, got.bad, got.examples)
		require.Equal(t, got.cuts, got.survived())
	}
}

func TestAControlThatWouldAlterNothingIsNoControl(t *testing.T) {
	b, err := newBuilder(t.Context(), t.TempDir())
	require.NoError(t, err)
	path, err := b.overlay("synchronous(OFF)")
	require.NoError(t, err)
	overlay, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, source := range sources() {
		require.Contains(t, string(overlay), source)
		altered, err := os.ReadFile(filepath.Join(b.dir, strings.ReplaceAll("synchronous(OFF)-"+source, "/", "-")))
		require.NoError(t, err)
		require.Contains(t, string(altered), "synchronous(OFF)")
		require.NotContains(t, string(altered), asShipped)
	}
	b.root = t.TempDir()
	for _, source := range sources() {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(b.root, source)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(b.root, source), []byte("package x"), 0o600))
	}
	_, err = b.overlay("synchronous(OFF)")
	require.ErrorContains(t, err, "would alter nothing")
}

func TestWhatCountsAsBroken(t *testing.T) {
	book := &promise.Book{Promises: []promise.Promise{{Kind: promise.Applied, ID: "a"}, {Kind: promise.Applied, ID: "b"}}}
	lost := []promise.Broken{{Lost: true, What: "the effect"}, {What: "a chain"}}
	for name, c := range map[string]struct {
		o           outcome
		lost, wrong int
	}{
		"the power failed during the start":   {outcome{cut: true, err: "input/output error"}, 0, 0},
		"it worked until the power failed":    {outcome{cut: true, booted: true, ready: true}, 0, 0},
		"it was done":                         {outcome{booted: true, done: true}, 0, 0},
		"it found something, then the cut":    {outcome{cut: true, booted: true, found: lost}, 1, 1},
		"it found something":                  {outcome{booted: true, done: true, found: lost}, 1, 1},
		"it does not open: all is lost":       {outcome{err: "malformed"}, 2, 1},
		"it dies without a word: all is lost": {outcome{stderr: "panic"}, 2, 1},
		"it stops after a good start":         {outcome{booted: true, err: "a run failed"}, 0, 1},
	} {
		var got tally
		require.Equal(t, c.lost+c.wrong > 0, got.judge(&c.o, book, "after"), name)
		require.Equal(t, c.lost, got.lost, name)
		require.Equal(t, c.wrong, got.wrong, name)
	}
}

func TestDraftsDoNotTellImagesApart(t *testing.T) {
	one := powerfs.Image{"world.db.new-1": []byte("x"), "world.db.new-1-wal": nil, "key": []byte("k")}
	other := powerfs.Image{"world.db.new-2": []byte("yy"), "key": []byte("k")}
	require.Equal(t, withoutDrafts(one).Digest(), withoutDrafts(other).Digest())
	other["key"] = nil
	require.NotEqual(t, withoutDrafts(one).Digest(), withoutDrafts(other).Digest())
}

func TestNoFuseIsNoPass(t *testing.T) {
	err := error(&SkippedError{Reason: os.ErrNotExist})
	require.ErrorContains(t, err, "NO PASS")
	require.ErrorIs(t, err, os.ErrNotExist)
}
