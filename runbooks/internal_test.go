package runbooks

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"blastdoor"
)

func TestNearest(t *testing.T) {
	names := []string{"drain-host", "drain-host-a", "restart-cache", "web"}
	for typed, want := range map[string]string{
		"drain-hots":   "drain-host",
		"drian-host-a": "drain-host-a",
		"drain-hosta":  "drain-host",
		"restartcache": "restart-cache",
		"wbe":          "web",
		"we":           "web",
		"ghost":        "",
		"":             "",
		"xyz":          "",
	} {
		assert.Equal(t, want, nearest(typed, names), typed)
	}
}

func TestEdits(t *testing.T) {
	word := rapid.SliceOfN(rapid.SampledFrom([]rune("abc")), 0, 8)
	rapid.Check(t, func(t *rapid.T) {
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		d := edits(a, b)
		assert.Equal(t, d, edits(b, a), "the same both ways")
		assert.Equal(t, slices.Equal(a, b), d == 0)
		assert.LessOrEqual(t, d, max(len(a), len(b)))
		assert.GreaterOrEqual(t, d, max(len(a), len(b))-min(len(a), len(b)))
		assert.LessOrEqual(t, edits(append(slices.Clone(a), 'x'), b), d+1, "one more letter is one more edit at most")
	})
	assert.Equal(t, 1, edits([]rune("ab"), []rune("ba")), "a swap is one edit")
}

func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 7).Draw(t, "steps")
		steps := make([]blastdoor.Step, n)
		for i := range steps {
			steps[i].ID = fmt.Sprintf("s%d", i)
			for _, j := range rapid.SliceOfN(rapid.IntRange(0, n), 0, 2).Draw(t, "dependencies") {
				steps[i].DependsOn = append(steps[i].DependsOn, fmt.Sprintf("s%d", j)) // s<n> does not exist
			}
		}
		sorted, cycle := order(steps)
		if cycle != "" {
			assert.Nil(t, sorted)
			assert.True(t, circular(steps), "%s in %v", cycle, steps)
			return
		}
		assert.False(t, circular(steps))
		assert.Len(t, sorted, n)
		at := map[string]int{}
		for i, s := range sorted {
			at[s.ID] = i
		}
		for i, s := range sorted {
			ready := 0 // where it could have been placed
			for _, dep := range s.DependsOn {
				if j, ok := at[dep]; ok {
					assert.Less(t, j, i)
					ready = max(ready, j+1)
				}
			}
			for _, other := range sorted[ready:i] {
				assert.Less(t, other.ID, s.ID, "steps that could swap stand in file order")
			}
		}
	})
}

// circular finds a cycle the slow way: some step reaches itself.
func circular(steps []blastdoor.Step) bool {
	reach := map[string]map[string]bool{}
	for _, s := range steps {
		reach[s.ID] = map[string]bool{}
		for _, dep := range s.DependsOn {
			reach[s.ID][dep] = true
		}
	}
	for range steps {
		for _, to := range reach {
			for mid := range to {
				for next := range reach[mid] {
					to[next] = true
				}
			}
		}
	}
	return slices.ContainsFunc(steps, func(s blastdoor.Step) bool { return reach[s.ID][s.ID] })
}
