package runbooks

import (
	"slices"
	"strings"

	"blastdoor"
)

// order returns the steps so that each comes after all it depends on, otherwise
// in file order. When that is impossible it returns nil and a cycle, written as
// "a → b → a". Dependencies that do not exist are passed over.
func order(steps []blastdoor.Step) (sorted []blastdoor.Step, cycle string) {
	exists := map[string]bool{}
	for _, s := range steps {
		exists[s.ID] = true
	}
	done := map[string]bool{}
	blocker := func(s blastdoor.Step) string {
		for _, dep := range s.DependsOn {
			if exists[dep] && !done[dep] {
				return dep
			}
		}
		return ""
	}
	rest := slices.Clone(steps)
	for len(rest) > 0 {
		i := slices.IndexFunc(rest, func(s blastdoor.Step) bool { return blocker(s) == "" })
		if i < 0 {
			return nil, follow(rest, blocker)
		}
		sorted, done[rest[i].ID] = append(sorted, rest[i]), true
		rest = slices.Delete(rest, i, i+1)
	}
	return sorted, ""
}

// follow walks from blocked step to blocking step until one comes again. Every
// step that is left is blocked by another one that is left, so the walk ends.
func follow(rest []blastdoor.Step, blocker func(blastdoor.Step) string) string {
	byID := map[string]blastdoor.Step{}
	for _, s := range rest {
		byID[s.ID] = s
	}
	var path []string
	for id := rest[0].ID; ; id = blocker(byID[id]) {
		if i := slices.Index(path, id); i >= 0 {
			return strings.Join(append(path[i:], id), " → ")
		}
		path = append(path, id)
	}
}
