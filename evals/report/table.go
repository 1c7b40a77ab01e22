package report

import (
	"encoding/json"
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

// WithTables returns a document with the tables between its markers made anew
// from the result files: <!-- NAME --> … <!-- /NAME -->.
func WithTables(document, results string) (string, error) {
	files, err := filepath.Glob(filepath.Join(results, "*.json"))
	if err != nil {
		return "", err
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		var r Result
		if err := json.Unmarshal(data, &r); err != nil {
			return "", fmt.Errorf("reading %s: %w", file, err)
		}
		begin, end := fmt.Sprintf("<!-- %s -->\n", r.Name), fmt.Sprintf("<!-- /%s -->", r.Name)
		before, rest, ok1 := strings.Cut(document, begin)
		_, after, ok2 := strings.Cut(rest, end)
		if ok1 && ok2 {
			document = before + begin + table(r) + end + after
		}
	}
	return document, nil
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
