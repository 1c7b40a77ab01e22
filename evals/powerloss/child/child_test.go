package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"blastdoor/evals/powerloss/promise"
)

// live runs one life on an ordinary disk and returns what it said.
func live(t *testing.T, dir, mode, life string, book promise.Book) []promise.Report {
	t.Helper()
	known, err := json.Marshal(book)
	require.NoError(t, err)
	in, out := strings.NewReader(string(known)+"\nbegin\n"), new(bytes.Buffer)
	forever, _ := io.Pipe() // the other side stays
	err = run(context.Background(), []string{"-dir", dir, "-mode", mode, "-life", life}, io.MultiReader(in, forever), out, func() {})
	var reports []promise.Report
	for line := range strings.Lines(out.String()) {
		r, err := promise.Read(line)
		require.NoError(t, err)
		reports = append(reports, r)
	}
	last := reports[len(reports)-1]
	require.Equal(t, err == nil, last.Done, "%v", err)
	return reports
}

func made(t *testing.T) string {
	dir := t.TempDir()
	require.True(t, live(t, dir, "init", "0", promise.Book{})[0].Done)
	return dir
}

// found is what the next start says about a book.
func found(t *testing.T, dir string, book promise.Book) []promise.Broken {
	t.Helper()
	for _, r := range live(t, dir, "look", "look", book) {
		require.Empty(t, r.Err)
		if r.Booted {
			return r.Found
		}
	}
	t.Fatal("it has not looked")
	return nil
}

func TestALifeAndAnother(t *testing.T) {
	dir := made(t)
	var book promise.Book
	kinds := map[promise.Kind]int{}
	for n := range 2 {
		for _, r := range live(t, dir, "one", fmt.Sprint(n), book) {
			require.Empty(t, r.Err)
			require.Empty(t, r.Found)
			if r.Promise != nil {
				book.Add(*r.Promise)
				kinds[r.Promise.Kind]++
			}
		}
	}
	for kind, least := range map[promise.Kind]int{promise.Accepted: 4, promise.Committed: 20, promise.Applied: 2, promise.Attempted: 4,
		promise.Delivered: 4, promise.Signed: 4} {
		require.GreaterOrEqual(t, kinds[kind], least, kind)
	}
	require.Empty(t, found(t, dir, book))
}

// TestTheLookBites: each kind of promise is missed when it is not kept.
func TestTheLookBites(t *testing.T) {
	dir := made(t)
	var book promise.Book
	for _, r := range live(t, dir, "one", "0", book) {
		if r.Promise != nil {
			book.Add(*r.Promise)
		}
	}
	runID, envelope, last := "", "", promise.Promise{}
	for _, p := range book.Promises {
		if p.Kind == promise.Committed {
			runID, last = p.ID, p
		}
		if p.Kind == promise.Accepted {
			envelope = p.ID
		}
	}
	require.NotEmpty(t, envelope)
	for name, c := range map[string]struct {
		p    promise.Promise
		lost bool
		want string
	}{
		"a run":       {promise.Promise{Kind: promise.Committed, ID: "none", Len: 1}, true, "run none"},
		"events":      {promise.Promise{Kind: promise.Committed, ID: runID, Len: last.Len + 1}, true, "were promised"},
		"an event":    {promise.Promise{Kind: promise.Committed, ID: runID, Len: last.Len, Hash: strings.Repeat("0", 64)}, false, "another one"},
		"an effect":   {promise.Promise{Kind: promise.Applied, ID: "none"}, true, "effect"},
		"a delivery":  {promise.Promise{Kind: promise.Delivered, ID: "none", TS: "1"}, true, "delivery none"},
		"an address":  {promise.Promise{Kind: promise.Delivered, ID: runID + "/card", TS: "none"}, true, "address none"},
		"an attempt":  {promise.Promise{Kind: promise.Attempted, ID: "none"}, true, "delivery none"},
		"a head":      {promise.Promise{Kind: promise.Signed, ID: "powerloss\n9999\nnone\n\n— powerloss none\n"}, false, "anchor"},
		"an envelope": {promise.Promise{Kind: promise.Accepted, ID: "none"}, true, "envelope none"},
	} {
		t.Run(name, func(t *testing.T) {
			copied := t.TempDir()
			require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
			broken := found(t, copied, promise.Book{Promises: []promise.Promise{c.p}})
			require.NotEmpty(t, broken)
			require.Equal(t, c.lost, broken[0].Lost)
			require.Contains(t, broken[0].What, c.want)
		})
	}
}

func TestWhatDoesNotOpenIsSaid(t *testing.T) {
	dir := made(t)
	require.NoError(t, os.Truncate(filepath.Join(dir, "log.db"), 100))
	reports := live(t, dir, "look", "1", promise.Book{})
	require.Contains(t, reports[len(reports)-1].Err, "opening the log")
}
