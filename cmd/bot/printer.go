package main

import (
	"context"
	"fmt"
	"io"
	"sync"

	"blastdoor/chat/slacksim"
)

// printer prints each message of #ops as a person would read it, when it appears
// and when it changes.
type printer struct {
	ws  *slacksim.Workspace
	out io.Writer

	mu   sync.Mutex
	seen map[string]string // what was printed of a message, by its address
}

func newPrinter(ws *slacksim.Workspace, out io.Writer) *printer {
	return &printer{ws: ws, out: out, seen: map[string]string{}}
}

// viewers are the people whose private messages are shown too.
var viewers = []string{"alice", "bob", "carol", "mallory", "gina", "uma", "erin", "dora"}

// follow prints until ctx ends.
func (p *printer) follow(ctx context.Context) {
	for {
		changed := p.ws.Changed()
		p.print()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// print prints what is new since the last time.
func (p *printer) print() {
	p.mu.Lock()
	defer p.mu.Unlock()
	messages := p.ws.Messages("ops")
	for _, viewer := range viewers {
		messages = append(messages, p.ws.Ephemerals(viewer)...)
	}
	for _, m := range messages {
		text := slacksim.PlainText(m)
		key := m.Channel + "/" + m.TS + "/" + m.EphemeralTo
		if p.seen[key] != text {
			p.seen[key] = text
			fmt.Fprintf(p.out, "%s\n", text)
		}
	}
}
