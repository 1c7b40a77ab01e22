// Package promise holds what a process acknowledged before the power failed, and
// the lines in which it says so. It must not know how anything is stored.
package promise

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
)

// Kind is what was acknowledged.
type Kind string

// The kinds of promises.
const (
	Accepted  Kind = "accepted"  // an envelope is stored: its id
	Committed Kind = "committed" // a run has a history of this length and chain hash
	Applied   Kind = "applied"   // the environment wrote: the idempotency key
	Attempted Kind = "attempted" // a post is about to be made: the delivery's id
	Delivered Kind = "delivered" // a message was posted: the delivery's id and address
	Signed    Kind = "signed"    // a head of the log was signed: the note
)

// Promise is one acknowledgement. Which fields are set depends on the kind.
type Promise struct {
	Kind    Kind   `json:"kind"`
	ID      string `json:"id,omitempty"` // run, envelope, key, delivery, or the note of a head
	Len     int    `json:"len,omitempty"`
	Hash    string `json:"hash,omitempty"`    // of the chain at Len, hexadecimal
	Settles string `json:"settles,omitempty"` // envelope answered in the same transaction
	TS      string `json:"ts,omitempty"`
}

// Book is all that was promised.
type Book struct {
	Promises []Promise `json:"promises"`
}

// Add notes a promise. A longer history of a run and a later address of a message
// stand for the earlier ones; a post that was recorded stands for its attempt.
func (b *Book) Add(p Promise) {
	i := slices.IndexFunc(b.Promises, func(old Promise) bool {
		return old.ID == p.ID && (old.Kind == p.Kind || old.Kind == Attempted && p.Kind == Delivered) && old.Settles == ""
	})
	switch {
	case i < 0:
		b.Promises = append(b.Promises, p)
	default:
		b.Promises[i] = p
	}
}

// Clone returns a copy that later promises do not change.
func (b *Book) Clone() Book { return Book{Promises: slices.Clone(b.Promises)} }

// Save writes the book to a file.
func (b *Book) Save(path string) error {
	data, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o600)
}

// Notes returns the signed heads.
func (b *Book) Notes() []string {
	var notes []string
	for _, p := range b.Promises {
		if p.Kind == Signed {
			notes = append(notes, p.ID)
		}
	}
	return notes
}

// Report is a line of the process, which says one of several things.
type Report struct {
	Promise *Promise `json:"promise,omitempty"`
	// Begins is the kind of the event that is about to be committed.
	Begins string `json:"begins,omitempty"`
	// Booted: everything was looked at after the start; Found says what is wrong.
	Booted bool     `json:"booted,omitempty"`
	Found  []Broken `json:"found,omitempty"`
	// Ready: unfinished runs have been brought to their end, and new work begins
	// on a word from the other side.
	Ready bool `json:"ready,omitempty"`
	// Done: the work that was asked for is done.
	Done bool   `json:"done,omitempty"`
	Err  string `json:"err,omitempty"` // why the process ends by itself
}

// Broken is something that should be otherwise.
type Broken struct {
	Lost bool   `json:"lost"` // it was promised, and is gone; else what is there is wrong
	What string `json:"what"`
}

// Writer writes reports, a line each. Several goroutines may use it. Each line is
// with the reader's kernel before Write returns, so that no kill takes it back.
type Writer struct {
	mu sync.Mutex
	to io.Writer
}

// NewWriter returns a writer to an unbuffered stream.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to} }

// Write writes one report.
func (w *Writer) Write(r Report) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err = w.to.Write(append(line, '\n'))
	return err
}

// Read parses a line. A line that was cut by a kill is an error.
func Read(line string) (Report, error) {
	dec := json.NewDecoder(strings.NewReader(line))
	dec.DisallowUnknownFields()
	var r Report
	if err := dec.Decode(&r); err != nil {
		return r, fmt.Errorf("reading a report: %w", err)
	}
	return r, nil
}
