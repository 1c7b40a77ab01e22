package runbooks

import (
	"fmt"
	"strings"
)

// didYouMean returns `did you mean "x"?` for the candidate nearest to name, or
// "" when none is near.
func didYouMean(name string, candidates []string) string {
	if best := nearest(name, candidates); best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return ""
}

// suggest is didYouMean, falling back to all that there is.
func suggest(name string, candidates []string, all string) string {
	if hint := didYouMean(name, candidates); hint != "" {
		return hint
	}
	if len(candidates) == 0 {
		return ""
	}
	return all + " " + strings.Join(candidates, ", ")
}

// nearest returns the candidate with the fewest edits, at most a third of the
// name's length; the first of equals.
func nearest(name string, candidates []string) string {
	const longest = 64 // no name is longer, and the work is quadratic
	if name == "" || len(name) > longest {
		return ""
	}
	best, fewest := "", max(2, len(name)/3)+1
	for _, c := range candidates {
		if len(c) > longest {
			continue
		}
		if d := edits([]rune(name), []rune(c)); d < fewest && d < len(c) {
			best, fewest = c, d
		}
	}
	return best
}

// edits counts insertions, deletions, substitutions and swaps of neighbours.
func edits(a, b []rune) int {
	before, prev, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, prev, row = prev, row, before
		row[0] = i
		for j := 1; j <= len(b); j++ {
			substitution := prev[j-1]
			if a[i-1] != b[j-1] {
				substitution++
			}
			row[j] = min(prev[j]+1, row[j-1]+1, substitution)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
