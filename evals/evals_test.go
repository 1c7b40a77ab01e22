package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"blastdoor/evals/report"
)

// TestTheTablesAreThoseOfTheResults: a number in a document comes from a file.
func TestTheTablesAreThoseOfTheResults(t *testing.T) {
	for _, document := range documents() {
		data, err := os.ReadFile(filepath.Join("..", document))
		require.NoError(t, err)
		fresh, err := report.WithTables(string(data), "results")
		require.NoError(t, err)
		require.Equal(t, fresh, string(data), "%s: `go run ./evals table` makes the tables anew", document)
	}
	edited, err := report.WithTables("<!-- latency -->\n| verdict | 1 ns |\n<!-- /latency -->", "results")
	require.NoError(t, err)
	require.NotContains(t, edited, "| verdict | 1 ns |", "the negative control: a number by hand does not stay")
}

func TestUnknownNames(t *testing.T) {
	_, err := choose([]string{"nonsense"})
	require.ErrorContains(t, err, "latency")
}

// TestTheTestsThatDocumentsNameExist: a document must not point at a test that has
// been renamed or deleted.
func TestTheTestsThatDocumentsNameExist(t *testing.T) {
	exists := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	require.NoError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := os.ReadFile(path)
		for _, m := range declared.FindAllStringSubmatch(string(data), -1) {
			exists[m[1]] = true
		}
		return err
	}))
	named := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`")
	for _, document := range []string{"EVALS.md", "THREAT_MODEL.md", "ARCHITECTURE.md"} {
		data, err := os.ReadFile(filepath.Join("..", "docs", document))
		require.NoError(t, err)
		for _, m := range named.FindAllStringSubmatch(string(data), -1) {
			require.True(t, exists[m[1]], "%s names %s, which does not exist", document, m[1])
		}
	}
}

// TestTheCasesThatDocumentsNameExist: so must the cases of the corpus.
func TestTheCasesThatDocumentsNameExist(t *testing.T) {
	files, err := filepath.Glob("corpus/cases/*.yaml")
	require.NoError(t, err)
	var all strings.Builder
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		all.Write(data)
	}
	data, err := os.ReadFile("../docs/EVALS.md")
	require.NoError(t, err)
	named := regexp.MustCompile(`corpus: ([^|]+) \|`).FindAllStringSubmatch(string(data), -1)
	require.NotEmpty(t, named)
	for _, m := range named {
		for pattern := range strings.SplitSeq(m[1], ", ") {
			require.Contains(t, all.String(), "name: "+strings.TrimSuffix(pattern, "*"))
		}
	}
}
