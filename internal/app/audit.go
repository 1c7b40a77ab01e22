package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"blastdoor"
	"blastdoor/engine"
	"blastdoor/simenv"
	"blastdoor/store"
)

// Audit is a whole verification: the log in itself, and the log against the
// properties of the engine and the ledger of the environment.
type Audit struct {
	store.Report
	// Violations of the properties of a run (docs/ARCHITECTURE.md).
	Violations []string `json:"violations"`
	// Ledger is the number of effects that the environment holds; -1 without one.
	Ledger int `json:"ledger"`
}

// OK reports whether everything verifies.
func (a *Audit) OK() bool { return a.Report.OK() && len(a.Violations) == 0 }

// Verify verifies a deployment. The log may be in use.
func Verify(ctx context.Context, files Files, o store.AuditOptions, now func() time.Time) (audit Audit, err error) {
	log, err := store.OpenReadOnly(ctx, files.Store(), store.Options{Now: now})
	if err != nil {
		return Audit{}, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	// The ledger is read before the log and after it: what is in the first reading
	// was intended before, and what the log records is in the second.
	audit.Ledger = -1
	ledger, found, err := readLedger(ctx, files, now)
	if err != nil {
		return Audit{}, err
	}
	if found {
		audit.Ledger = len(ledger)
	}
	if audit.Report, err = log.Verify(ctx, o); err != nil || !audit.Report.OK() {
		return audit, err // properties of a log that does not verify mean nothing
	}
	evidence, err := readEvidence(ctx, log)
	if err != nil {
		return Audit{}, err
	}
	evidence.Ledger = ledger
	if evidence.LaterLedger, _, err = readLedger(ctx, files, now); err != nil {
		return Audit{}, err
	}
	audit.Violations = engine.CheckProperties(evidence)
	return audit, nil
}

func readLedger(ctx context.Context, files Files, now func() time.Time) ([]string, bool, error) {
	if _, err := os.Stat(files.World()); errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	env, err := simenv.Open(ctx, files.World(), simenv.Options{Now: now})
	if err != nil {
		return nil, false, err
	}
	effects, err := env.Ledger(ctx)
	keys := []string{} // not nil: the ledger is at hand, even an empty one
	for _, effect := range effects {
		keys = append(keys, effect.Key)
	}
	return keys, true, errors.Join(err, env.Close())
}

func readEvidence(ctx context.Context, log *store.Store) (engine.Evidence, error) {
	var shown []store.ShownEvent
	for p, err := range log.Projections(ctx) {
		if err != nil {
			return engine.Evidence{}, err
		}
		history, err := log.Show(ctx, p.Run.ID)
		if err != nil {
			return engine.Evidence{}, err
		}
		shown = append(shown, history...)
	}
	slices.SortFunc(shown, func(a, b store.ShownEvent) int { return cmp.Compare(a.Leaf, b.Leaf) })
	e := engine.Evidence{Policies: map[string]blastdoor.Policy{}}
	for _, s := range shown {
		e.History = append(e.History, s.Event)
		for _, digest := range engine.PolicyDigests(s.Event.Body) {
			if _, known := e.Policies[digest]; known {
				continue
			}
			body, err := log.Document(ctx, digest)
			if err != nil {
				return engine.Evidence{}, fmt.Errorf("reading a policy: %w", err)
			}
			if e.Policies[digest], err = engine.ParsePolicy(body); err != nil {
				return engine.Evidence{}, err
			}
		}
	}
	return e, nil
}

// Rebuild folds every run again and compares the result with the stored
// projections; it returns the differences in words. With write it then replaces
// the projections, for which no bot may be running.
func Rebuild(ctx context.Context, files Files, write bool, now func() time.Time) (differences []string, err error) {
	open := store.OpenReadOnly
	if write {
		open = store.Open
	}
	log, err := open(ctx, files.Store(), store.Options{Now: now})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	var stored, folded []blastdoor.Projection
	for p, err := range log.Projections(ctx) {
		if err != nil {
			return nil, err
		}
		stored = append(stored, p)
	}
	for _, p := range stored {
		events, err := log.Show(ctx, p.Run.ID)
		if err != nil {
			return nil, err
		}
		var run blastdoor.Run
		for _, s := range events {
			if run, err = engine.Evolve(run, s.Event); err != nil {
				return nil, err
			}
		}
		folded = append(folded, engine.Project(run))
		for _, d := range store.CompareProjection(p, folded[len(folded)-1]) {
			differences = append(differences, p.Run.ID+": "+d)
		}
	}
	if write {
		err = log.ReplaceProjections(ctx, folded)
	}
	return differences, err
}
