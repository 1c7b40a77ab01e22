package verifier

import (
	"fmt"
	"slices"
	"strings"
)

// maxListed is how many names a sentence holds; cards show the full lists.
const maxListed = 5

// listed joins names for a sentence: "a", "a and b", "a, b, c, d, e and 7 more".
func listed(names []string) string {
	last := ""
	switch n := len(names); {
	case n == 1:
		return names[0]
	case n > maxListed:
		names, last = names[:maxListed], fmt.Sprintf("%d more", n-maxListed)
	default:
		names, last = names[:n-1], names[n-1]
	}
	return strings.Join(names, ", ") + " and " + last
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// named reports whether a list of names, in which "*" is every name, holds name.
func named(list []string, name string) bool {
	return slices.Contains(list, "*") || slices.Contains(list, name)
}

func shareName(a, b []string) bool { _, ok := firstShared(a, b); return ok }

// firstShared returns the first name of a that is also in b.
func firstShared(a, b []string) (string, bool) {
	const fewPairs = 4096 // up to here comparing every pair is cheaper than a map
	if len(a)*len(b) <= fewPairs {
		for _, name := range a {
			if slices.Contains(b, name) {
				return name, true
			}
		}
		return "", false
	}
	in := make(map[string]struct{}, len(b))
	for _, name := range b {
		in[name] = struct{}{}
	}
	for _, name := range a {
		if _, ok := in[name]; ok {
			return name, true
		}
	}
	return "", false
}
