package store

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"blastdoor"
)

// ShownEvent is an event with what proves its place.
type ShownEvent struct {
	Event     blastdoor.Event
	Leaf      int64  // its number in the tree over all runs, from 0
	ChainHash string // hexadecimal
	Canonical []byte // the bytes that were hashed
}

// Show returns the history of a run with its hashes, verified as Load does.
func (s *Store) Show(ctx context.Context, runID string) ([]ShownEvent, error) {
	h, err := viewed(ctx, s.read, func(q querier) (history, error) { return loadHistory(ctx, q, runID) })
	if err != nil {
		return nil, err
	}
	shown := make([]ShownEvent, len(h.rows))
	for i, row := range h.rows {
		shown[i] = ShownEvent{Event: h.events[i], Leaf: row.Leaf, ChainHash: hex.EncodeToString(row.Chain), Canonical: row.Body}
	}
	return shown, nil
}

// exportLine is one line of an export. Exactly one field is set. Bodies are
// strings, not nested JSON, so that no tool between here and the auditor can
// reformat the bytes that were hashed.
type exportLine struct {
	Deployment *exportDeployment `json:"deployment,omitempty"`
	Head       string            `json:"head,omitempty"`
	Event      *exportEvent      `json:"event,omitempty"`
	Document   *exportDocument   `json:"document,omitempty"`
}

type exportDeployment struct {
	Version     int    `json:"version"` // of this format
	Origin      string `json:"origin"`
	VerifierKey string `json:"verifier_key"`
}

type exportEvent struct {
	Leaf      int64  `json:"leaf"`
	Body      string `json:"body"`
	ChainHash string `json:"chain_hash"`
}

type exportDocument struct {
	Digest string `json:"digest"`
	Body   string `json:"body"`
}

// Export writes everything that is needed to verify the history offline, one JSON
// object a line: the deployment with its verifier key, the signed heads, the
// events in the order of the tree, the documents. It is of one instant. Envelopes
// and deliveries are not in it: they are no part of the record, and hold what
// should not travel.
func (s *Store) Export(ctx context.Context, w io.Writer) error {
	out := bufio.NewWriter(w)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	err := s.read.view(ctx, func(q querier) error { return exportAll(ctx, q, enc) })
	if err := errors.Join(err, out.Flush()); err != nil {
		return fmt.Errorf("exporting %s: %w", s.path, err)
	}
	return nil
}

func exportAll(ctx context.Context, q querier, enc *json.Encoder) error {
	origin, key, err := readDeployment(ctx, q)
	if err != nil {
		return err
	}
	if err := enc.Encode(exportLine{Deployment: &exportDeployment{Version: 1, Origin: origin, VerifierKey: key}}); err != nil {
		return err
	}
	err = each(ctx, q, `SELECT note FROM heads ORDER BY size`, nil, func(rows *sql.Rows) error {
		text, err := scanString(rows)
		if err != nil {
			return err
		}
		return enc.Encode(exportLine{Head: text})
	})
	if err != nil {
		return err
	}
	err = each(ctx, q, selectEvents+` ORDER BY leaf`, nil, func(rows *sql.Rows) error {
		e, err := scanEvent(rows)
		if err != nil {
			return err
		}
		return enc.Encode(exportLine{Event: &exportEvent{Leaf: e.Leaf, Body: string(e.Body), ChainHash: hex.EncodeToString(e.Chain)}})
	})
	if err != nil {
		return err
	}
	return each(ctx, q, `SELECT digest, body FROM documents ORDER BY digest`, nil, func(rows *sql.Rows) error {
		var d exportDocument
		if err := rows.Scan(&d.Digest, &d.Body); err != nil {
			return err
		}
		return enc.Encode(exportLine{Document: &d})
	})
}

// VerifyExport verifies what Export wrote, without the database. What does not
// verify is in the report; the error is for what could not be read.
func VerifyExport(r io.Reader, o AuditOptions) (Report, error) {
	dec := json.NewDecoder(bufio.NewReader(r))
	dec.DisallowUnknownFields()
	var first exportLine
	if err := dec.Decode(&first); err != nil {
		return Report{}, fmt.Errorf("reading an export: %w", err)
	}
	if first.Deployment == nil || first.Deployment.Version != 1 {
		return Report{}, errors.New("reading an export: it does not begin with a deployment of version 1")
	}
	a, err := newAuditor(first.Deployment.Origin, first.Deployment.VerifierKey, o)
	if err != nil {
		return Report{}, fmt.Errorf("reading an export: %w", err)
	}
	for n := 2; ; n++ {
		var line exportLine
		err := dec.Decode(&line)
		if errors.Is(err, io.EOF) {
			return a.finish(), nil
		}
		if err == nil {
			err = a.line(&line)
		}
		if err != nil {
			return Report{}, fmt.Errorf("reading an export, line %d: %w", n, err)
		}
	}
}

func (a *auditor) line(line *exportLine) error {
	switch {
	case line.Head != "":
		a.report.Heads++
		a.claim(fmt.Sprintf("signed head %d", a.report.Heads), line.Head)
	case line.Event != nil:
		e, err := line.Event.stored()
		if err != nil {
			return err
		}
		a.event(&e)
	case line.Document != nil:
		a.document(line.Document.Digest, []byte(line.Document.Body))
	default:
		return errors.New("it is neither a head, an event nor a document")
	}
	return nil
}

// stored brings an exported event back to its row; what the body says fills the
// columns. A body that does not parse stays a row that the auditor reports.
func (e *exportEvent) stored() (storedEvent, error) {
	chain, err := hex.DecodeString(e.ChainHash)
	if err != nil {
		return storedEvent{}, fmt.Errorf("reading the chain hash of leaf %d: %w", e.Leaf, err)
	}
	row := storedEvent{Leaf: e.Leaf, Body: []byte(e.Body), Chain: chain}
	if event, err := blastdoor.ParseEvent(row.Body); err == nil {
		row.RunID, row.Seq, row.At, row.Kind = event.RunID, event.Seq, event.At.UnixNano(), string(event.Body.Kind())
	}
	return row, nil
}
