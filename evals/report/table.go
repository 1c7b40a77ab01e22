package report

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// table renders a result file as a Markdown table, its caveat beneath it.
func table(r Result) string {
	var b strings.Builder
	if r.Skipped != "" {
		fmt.Fprintf(&b, "**Skipped, which is no pass:** %s\n\n", r.Skipped)
	}
	b.WriteString("| what | measured | target | |\n|---|--:|--:|---|\n")
	for _, f := range r.Figures {
		target, word := "", ""
		if f.Target != 0 {
			target, word = "≤ "+number(f.Target, f.Unit), "ok"
			if f.AtLeast {
				target = "≥ " + number(f.Target, f.Unit)
			}
			if !f.Passed {
				word = fmt.Sprintf("**missed**, %.2f × the target", f.Ratio)
			}
		}
		if f.None {
			target, word = "none", map[bool]string{true: "ok", false: "**missed**"}[f.Passed]
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", f.Name, number(f.Value, f.Unit), target, word)
	}
	fmt.Fprintf(&b, "\n%s, commit %s, %s. Caveat: %s.\n", r.Machine, r.Commit, r.Date, r.Caveat)
	return b.String()
}

func number(v float64, unit string) string {
	text := fmt.Sprintf("%.0f", v)
	if v < 100 {
		text = strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", v), "0"), ".")
	}
	return strings.TrimSpace(text + " " + unit)
}

// summary renders one line for each result.
func summary(results []Result) string {
	var b strings.Builder
	b.WriteString("| eval | targets met | its first figure | caveat |\n|---|--:|---|---|\n")
	for _, r := range results {
		met, of := 0, 0
		for _, f := range r.Figures {
			if f.Target != 0 || f.None {
				of++
				if f.Passed {
					met++
				}
			}
		}
		first := ""
		if len(r.Figures) > 0 {
			first = r.Figures[0].Name + ": " + number(r.Figures[0].Value, r.Figures[0].Unit)
		}
		score := fmt.Sprintf("%d of %d", met, of)
		if !r.Passed {
			score = "**" + score + "**"
		}
		caveat, _, _ := strings.Cut(r.Caveat, ";")
		fmt.Fprintf(&b, "| [`%s`](docs/EVALS.md#%s) | %s | %s | %s |\n", r.Name, r.Name, score, first, caveat)
	}
	return b.String()
}

// WithTables returns a document with the tables between its markers made anew
// from the result files: <!-- NAME --> … <!-- /NAME -->, and a line for each under
// the name "summary".
func WithTables(document, results string) (string, error) {
	files, err := filepath.Glob(filepath.Join(results, "*.json"))
	if err != nil {
		return "", err
	}
	var all []Result
	for _, file := range files {
		r, err := read(file)
		if err != nil {
			return "", fmt.Errorf("reading %s: %w", file, err)
		}
		all = append(all, r)
		document = between(document, r.Name, table(r))
	}
	return between(document, "summary", summary(all)), nil
}

// between replaces what stands between two markers, where they are.
func between(document, name, text string) string {
	begin, end := fmt.Sprintf("<!-- %s -->\n", name), fmt.Sprintf("<!-- /%s -->", name)
	before, rest, ok1 := strings.Cut(document, begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		return document
	}
	return before + begin + text + end + after
}

// WriteTables makes the tables of the documents anew.
func WriteTables(results string, documents ...string) error {
	for _, path := range documents {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fresh, err := WithTables(string(data), results)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(fresh), 0o644); err != nil {
			return err
		}
	}
	return nil
}
