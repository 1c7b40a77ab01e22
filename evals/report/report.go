// Package report is the form in which evals say what they measured: figures
// against targets, printed, written to a result file, and rendered into documents.
// It must not know what any eval does.
package report

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Figure is one measured number against its target.
type Figure struct {
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Target float64 `json:"target,omitempty"` // 0: none, for information
	// AtLeast: the value must not be below the target; otherwise not above it.
	AtLeast bool `json:"at_least,omitempty"`
	// None: the value must be zero; Target is then not read.
	None   bool    `json:"none,omitempty"`
	Ratio  float64 `json:"ratio,omitempty"` // value over target
	P95    float64 `json:"p95,omitempty"`   // in Unit, where Value is a median
	Count  int     `json:"count,omitempty"`
	Passed bool    `json:"passed"`
	Note   string  `json:"note,omitempty"`
}

func (f Figure) judged() Figure {
	f.Passed = true
	switch {
	case f.None:
		f.Passed = f.Value == 0
	case f.Target != 0:
		f.Ratio = f.Value / f.Target
		f.Passed = f.Value <= f.Target
		if f.AtLeast {
			f.Passed = f.Value >= f.Target
		}
	}
	return f
}

// Median makes a figure of timed samples, each of one operation.
func Median(name string, samples []time.Duration, unit time.Duration, unitName string, target float64) Figure {
	slices.Sort(samples)
	in := func(d time.Duration) float64 { return float64(d) / float64(unit) }
	return Figure{Name: name, Value: in(samples[len(samples)/2]), P95: in(samples[len(samples)*95/100]),
		Unit: unitName, Target: target, Count: len(samples)}
}

// Eval is one named eval.
type Eval struct {
	Name   string
	Short  string // one line for the list
	Caveat string // stands beside every number of it
	// Run returns what was measured; an error means that the eval could not be
	// run, not that a target was missed.
	Run func(ctx context.Context, o Options) ([]Figure, error)
}

// Options are what the command line says to an eval.
type Options struct {
	Progress io.Writer
	Cases    string // file of cases to run instead of the shipped ones; empty: the shipped ones
	Graph    string // file of a graph; itbench only
	Seed     uint64 // 0: chosen by the eval, and printed
}

// Result is what is written for an eval.
type Result struct {
	Name    string   `json:"name"`
	Passed  bool     `json:"passed"`
	Figures []Figure `json:"figures"`
	Caveat  string   `json:"caveat"`
	Machine string   `json:"machine"`
	Commit  string   `json:"commit"`
	Date    string   `json:"date"`
	Seconds float64  `json:"seconds"`
	Skipped string   `json:"skipped,omitempty"` // why it could not be run here
}

// New judges the figures of an eval that began then.
func New(e Eval, figures []Figure, began time.Time) Result {
	r := Result{Name: e.Name, Passed: true, Caveat: e.Caveat, Machine: machine(), Commit: commit(),
		Date: began.UTC().Format(time.DateOnly), Seconds: time.Since(began).Round(time.Second).Seconds()}
	for _, f := range figures {
		f = f.judged()
		r.Figures = append(r.Figures, f)
		r.Passed = r.Passed && f.Passed
	}
	return r
}

// Print prints the figures with their targets.
func (r Result) Print(w io.Writer) {
	for _, f := range r.Figures {
		word, target := "", ""
		if f.Target != 0 || f.None {
			word = "ok"
			if !f.Passed {
				word = "MISSED"
			}
		}
		if f.None {
			target = "none"
		} else if f.Target != 0 {
			sign := "≤"
			if f.AtLeast {
				sign = "≥"
			}
			target = fmt.Sprintf("%s %g, ratio %.2f", sign, f.Target, f.Ratio)
		}
		fmt.Fprintf(w, "  %-52s %10.2f %-6s %-26s %s\n", f.Name, f.Value, f.Unit, target, word)
		if f.Note != "" {
			fmt.Fprintf(w, "      %s\n", f.Note)
		}
	}
	fmt.Fprintf(w, "  (%s)\n", r.Caveat)
}

// Write writes NAME.json into a directory.
func (r Result) Write(dir string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, r.Name+".json"), append(data, '\n'), 0o644)
}

func machine() string {
	model := "unknown processor"
	if data, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(data)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%d × %s, %s/%s, %s", runtime.NumCPU(), model, runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// commit is the newest commit, marked when the tree differs from it.
func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
