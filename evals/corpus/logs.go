package corpus

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
)

// logs is the bot's log, kept to be read, and a signal: a run that tries again, or
// is left alone, shows there and nowhere else.
type logs struct {
	changed chan struct{}

	mu    sync.Mutex
	lines []string
	tries map[string]int // how often a run will be tried again
	stops map[string]int // how often a run was left alone
}

func newLogs() *logs {
	return &logs{changed: make(chan struct{}, 1), tries: map[string]int{}, stops: map[string]int{}}
}

// Enabled, Handle, WithAttrs and WithGroup make it a slog.Handler.
func (l *logs) Enabled(context.Context, slog.Level) bool { return true }

func (l *logs) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(r.Message)
	run := ""
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&b, " %s=%v", a.Key, a.Value)
		if a.Key == "run" {
			run = a.Value.String()
		}
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, b.String())
	switch r.Message {
	case "will try again":
		l.tries[run]++
	case "run stopped":
		l.stops[run]++
	}
	select {
	case l.changed <- struct{}{}:
	default:
	}
	return nil
}

func (l *logs) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l *logs) WithGroup(string) slog.Handler      { return l }

// all returns the lines so far.
func (l *logs) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.lines...)
}

// parked says how a run that has not ended was put aside, or "".
func (l *logs) parked(run string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.stops[run] > 0:
		return outcomeStopped
	case l.tries[run] > 0:
		return outcomeHeld
	}
	return ""
}

// moved makes a run that was to be tried again count as moving.
func (l *logs) moved(run string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.tries, run)
}

// forget makes the runs count as moving again.
func (l *logs) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.tries)
	clear(l.stops)
}
