package envtest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"blastdoor"
)

// noSuchAction is in no table.
const noSuchAction = "envtest_no_such_action"

func checkActions(_ context.Context, h Harness) error {
	seen := make(map[string]blastdoor.ActionKind)
	for _, a := range h.Env.Actions() {
		if _, dup := seen[a.Name]; dup {
			return fmt.Errorf("action %q is there twice", a.Name)
		}
		seen[a.Name] = a.Kind
		if a.Kind != blastdoor.Read && a.Kind != blastdoor.Write {
			return fmt.Errorf("action %q has kind %q", a.Name, a.Kind)
		}
		if a.Description == "" {
			return fmt.Errorf("action %q has no description", a.Name)
		}
		if a.Schema["type"] != "object" || a.Schema["additionalProperties"] != false {
			return fmt.Errorf("the schema of %q takes parameters that it does not name: %v", a.Name, a.Schema)
		}
	}
	for kind, requests := range map[blastdoor.ActionKind][]Request{
		blastdoor.Read: {h.Read}, blastdoor.Write: {h.Write, h.Other, h.NoOp}} {
		for _, r := range requests {
			if seen[r.Action] != kind {
				return fmt.Errorf("action %q has kind %q, want %q", r.Action, seen[r.Action], kind)
			}
		}
	}
	return nil
}

func checkUnknownAction(ctx context.Context, h Harness) error {
	return errors.Join(
		refused(ctx, h, blastdoor.ErrUnknownAction, func() error {
			_, err := h.Env.DryRun(ctx, noSuchAction, h.Write.Params)
			return err
		}),
		refused(ctx, h, blastdoor.ErrUnknownAction, func() error {
			_, err := h.Env.Observe(ctx, noSuchAction, h.Read.Params)
			return err
		}))
}

func checkObserveChangesNothing(ctx context.Context, h Harness) error {
	return unchanged(ctx, h, func() error {
		seen, err := h.Env.Observe(ctx, h.Read.Action, h.Read.Params)
		if err == nil && seen.Summary == "" {
			return errors.New("the observation has no summary")
		}
		return err
	})
}

func checkObserveRefusesWrite(ctx context.Context, h Harness) error {
	return refused(ctx, h, blastdoor.ErrUnknownAction, func() error {
		_, err := h.Env.Observe(ctx, h.Write.Action, h.Write.Params)
		return err
	})
}

func checkDryRunChangesNothing(ctx context.Context, h Harness) error {
	return unchanged(ctx, h, func() error {
		_, err := h.Env.DryRun(ctx, h.Write.Action, h.Write.Params)
		return err
	})
}

func checkDryRunRefusesRead(ctx context.Context, h Harness) error {
	return refused(ctx, h, blastdoor.ErrUnknownAction, func() error {
		_, err := h.Env.DryRun(ctx, h.Read.Action, h.Read.Params)
		return err
	})
}

func checkDryRunRepeats(ctx context.Context, h Harness) error {
	first, err := h.Env.DryRun(ctx, h.Write.Action, h.Write.Params)
	if err != nil {
		return err
	}
	second, err := h.Env.DryRun(ctx, h.Write.Action, h.Write.Params)
	if err != nil {
		return err
	}
	// When the graph was true is the one thing that may move.
	first.GraphAsOf = second.GraphAsOf
	if !reflect.DeepEqual(first, second) {
		return fmt.Errorf("two rehearsals of one world differ:\n%+v\n%+v", first, second)
	}
	return nil
}

func checkDryRunSeesMoves(ctx context.Context, h Harness) error {
	before, err := h.Env.DryRun(ctx, h.Write.Action, h.Write.Params)
	if err != nil {
		return err
	}
	if err := h.Move(ctx); err != nil {
		return err
	}
	after, err := h.Env.DryRun(ctx, h.Write.Action, h.Write.Params)
	if err != nil {
		return err
	}
	if reflect.DeepEqual(before.Versions, after.Versions) {
		return fmt.Errorf("the world moved and the versions did not: %v", after.Versions)
	}
	return nil
}

func checkRehearsalWhole(ctx context.Context, h Harness) error {
	r, err := h.Env.DryRun(ctx, h.Write.Action, h.Write.Params)
	if err != nil {
		return err
	}
	switch {
	case len(r.Targets) == 0 || len(r.Changes) == 0:
		return fmt.Errorf("targets %q and changes %v: want at least one of each", r.Targets, r.Changes)
	case !slices.IsSorted(r.Targets):
		return fmt.Errorf("targets %q are not sorted", r.Targets)
	case r.Graph == nil || r.GraphAsOf.IsZero():
		return errors.New("there is no graph, or no time at which it was true")
	}
	for _, target := range r.Targets {
		if _, ok := r.Graph.Number(target); !ok {
			return fmt.Errorf("the graph does not know target %q", target)
		}
		if r.Versions[target] == "" {
			return fmt.Errorf("target %q has no version", target)
		}
	}
	for _, c := range r.Changes {
		if !slices.Contains(r.Targets, c.Target) || c.Before == c.After {
			return fmt.Errorf("change %+v is of no target, or of nothing", c)
		}
	}
	return nil
}

func checkNothingToDo(ctx context.Context, h Harness) error {
	return refused(ctx, h, blastdoor.ErrNothingToDo, func() error {
		_, err := h.Env.DryRun(ctx, h.NoOp.Action, h.NoOp.Params)
		return err
	})
}

func checkUnavailable(ctx context.Context, h Harness) error {
	if err := h.Break(); err != nil {
		return err
	}
	if _, err := h.Env.DryRun(ctx, h.Write.Action, h.Write.Params); !blastdoor.ErrUnavailable.Is(err) {
		return fmt.Errorf("DryRun: got error %v, want %s", err, blastdoor.ErrUnavailable)
	}
	return nil
}
