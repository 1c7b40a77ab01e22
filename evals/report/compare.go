package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Differences says in which way the results in two directories differ in anything
// but measured values: an eval, a figure or a target that only one has, or that one
// has passed and the other not. Latency is of a machine and may miss elsewhere.
func Differences(committed, fresh string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(fresh, "*.json"))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, file := range files {
		is, err := read(file)
		if err != nil {
			return nil, err
		}
		was, err := read(filepath.Join(committed, filepath.Base(file)))
		if err != nil {
			return nil, err
		}
		out = append(out, differ(was, is)...)
	}
	return out, nil
}

func read(file string) (r Result, err error) {
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	return r, err
}

func differ(was, is Result) (out []string) {
	add := func(format string, args ...any) { out = append(out, is.Name+": "+fmt.Sprintf(format, args...)) }
	if was.Caveat != is.Caveat {
		add("the caveat has changed")
	}
	if len(was.Figures) != len(is.Figures) {
		add("%d figures are committed, there are %d", len(was.Figures), len(is.Figures))
		return out
	}
	for i, f := range is.Figures {
		old := was.Figures[i]
		switch {
		case f.Name != old.Name || f.Unit != old.Unit || f.AtLeast != old.AtLeast || f.None != old.None:
			add("figure %q is committed as %q", f.Name, old.Name)
		case f.Passed != old.Passed && is.Name != "latency":
			add("figure %q passed: %v, committed: %v", f.Name, f.Passed, old.Passed)
		}
	}
	return out
}
