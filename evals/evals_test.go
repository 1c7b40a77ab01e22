package main

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"blastdoor/evals/report"
)

// TestTheTablesAreThoseOfTheResults: a number in a document comes from a file.
func TestTheTablesAreThoseOfTheResults(t *testing.T) {
	data, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	fresh, err := report.WithTables(string(data), "results")
	require.NoError(t, err)
	require.Equal(t, fresh, string(data), "`go run ./evals table` makes the tables anew")
	edited, err := report.WithTables("<!-- latency -->\n| verdict | 1 ns |\n<!-- /latency -->", "results")
	require.NoError(t, err)
	require.NotContains(t, edited, "| verdict | 1 ns |", "the negative control: a number by hand does not stay")
}

func TestAMissedTargetFails(t *testing.T) {
	r := report.New(report.Eval{Name: "x"}, []report.Figure{{Name: "slow", Value: 2, Target: 1}}, time.Now())
	require.False(t, r.Passed)
	r = report.New(report.Eval{Name: "x"}, []report.Figure{{Name: "few", Value: 1, Target: 2, AtLeast: true}}, time.Now())
	require.False(t, r.Passed)
	r = report.New(report.Eval{Name: "x"}, []report.Figure{{Name: "fine", Value: 1, Target: 1}, {Name: "for information", Value: 9}}, time.Now())
	require.True(t, r.Passed)
}

func TestUnknownNames(t *testing.T) {
	_, err := choose([]string{"nonsense"})
	require.ErrorContains(t, err, "latency")
}
