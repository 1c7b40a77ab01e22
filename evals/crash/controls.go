package crash

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// control is a build that is broken on purpose, with the tag that breaks it.
type control struct {
	tag    string
	points []string            // where it bites
	caught func(result) string // what gives it away; empty: nothing
}

// controlLimit bounds a case of a control: one that has lost a request never ends.
const controlLimit = 8 * time.Second

func controls() []control {
	return []control{
		{"without_keys", []string{"after_effect:restart:1", "after_effect:reset:1"}, duplicated},
		{"without_intent", []string{"after_effect:restart:1", "before_outcome:restart:1"}, duplicated},
		{"without_inbox", []string{"after_ack:command:2", "after_ack:click:2"}, lostRequest},
		{"without_consumption", []string{"after_intent:reset:1", "before_effect:reset:1", "after_effect:reset:1"}, unspent},
		{"without_history", []string{"after_post_before_record:run_card:1", "after_post_before_record:reset:1"}, doubledCard},
	}
}

func duplicated(r result) string {
	if r.end.duplicates == 0 {
		return ""
	}
	return fmt.Sprintf("%d duplicate writes", r.end.duplicates)
}

func lostRequest(r result) string {
	switch {
	case r.lost:
		return "a lost approval"
	case len(r.end.run) == 0:
		return "a lost request"
	}
	return ""
}

func unspent(r result) string {
	for _, line := range r.end.run {
		if strings.Contains(line, "its events say spent: true") {
			return "an approval that was used and is not spent"
		}
	}
	return ""
}

func doubledCard(r result) string {
	if r.end.doubled > 0 {
		return "a doubled run card"
	}
	return ""
}

// verdict is what the matrix says of a control.
type verdict struct {
	tag    string
	caught bool
	by     []string
}

// playControls plays the points of all controls side by side. Without a kill each of
// them ends well, so that it is the kill that gives it away.
func (m *matrix) playControls(ctx context.Context) error {
	all := controls()
	m.controls = make([]verdict, len(all))
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, c := range all {
		wg.Go(func() { m.controls[i], errs[i] = m.playControl(ctx, c) })
	}
	wg.Wait()
	for _, v := range m.controls {
		fmt.Fprintf(m.o.Progress, "    %s: %s\n", v.tag, v.words())
	}
	return errors.Join(errs...)
}

func (m *matrix) playControl(ctx context.Context, c control) (verdict, error) {
	v := verdict{tag: c.tag}
	b, err := m.openBench(ctx, "crashpoints,"+c.tag)
	if err != nil {
		return v, fmt.Errorf("%s: %w", c.tag, err)
	}
	b.limit = controlLimit
	var runs [][]kill
	for _, text := range c.points {
		p, err := parsePoint(text)
		if err != nil {
			return v, err
		}
		runs = append(runs, []kill{at(p)})
	}
	err = b.playAll(ctx, runs, func(r result) {
		if word := c.caught(r); word != "" && !r.sound() {
			v.caught = true
			v.by = append(v.by, fmt.Sprintf("%s at %v", word, r.kills[0]))
		}
	})
	return v, err
}

func (v verdict) words() string {
	if !v.caught {
		return "NOT CAUGHT"
	}
	return strings.Join(v.by, ", ")
}

func (m *matrix) words() string {
	var all []string
	for _, v := range m.controls {
		word := "caught"
		if !v.caught {
			word = "NOT CAUGHT"
		}
		all = append(all, v.tag+" "+word)
	}
	return strings.Join(all, ", ")
}
