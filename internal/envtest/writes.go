package envtest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"blastdoor"
)

// atOnce is how many goroutines a check sets on one write.
const atOnce = 16

func checkApply(ctx context.Context, h Harness) error {
	before, err := h.State(ctx)
	if err != nil {
		return err
	}
	_, receipt, err := apply(ctx, h.Env, "key-1", h.Write)
	if err != nil {
		return err
	}
	if receipt.Key != "key-1" || receipt.Effect == "" || receipt.Summary == "" || receipt.At.IsZero() || receipt.Replayed {
		return fmt.Errorf("the receipt is not whole: %+v", receipt)
	}
	after, err := h.State(ctx)
	if err != nil {
		return err
	}
	if before == after {
		return errors.New("the state did not change")
	}
	return wantEffects(ctx, h, 1)
}

func checkApplyTwice(ctx context.Context, h Harness) error {
	plan, first, err := apply(ctx, h.Env, "key-1", h.Write)
	if err != nil {
		return err
	}
	if err := unchanged(ctx, h, func() error { return wantReplay(ctx, h.Env, plan, first) }); err != nil {
		return err
	}
	return wantEffects(ctx, h, 1)
}

func checkReplayAfterMove(ctx context.Context, h Harness) error {
	plan, first, err := apply(ctx, h.Env, "key-1", h.Write)
	if err != nil {
		return err
	}
	if err := h.Move(ctx); err != nil {
		return err
	}
	return unchanged(ctx, h, func() error { return wantReplay(ctx, h.Env, plan, first) })
}

// wantReplay applies a plan under key-1 again and wants the first receipt back.
func wantReplay(ctx context.Context, env Environment, plan blastdoor.Plan, first blastdoor.Receipt) error {
	second, err := env.Apply(ctx, "key-1", plan)
	if err != nil {
		return fmt.Errorf("applying again: %w", err)
	}
	if !second.Replayed || !sameReceipt(first, second) {
		return fmt.Errorf("got receipt %+v, want %+v marked as replayed", second, first)
	}
	return nil
}

func sameReceipt(a, b blastdoor.Receipt) bool {
	return a.Key == b.Key && a.Effect == b.Effect && a.Summary == b.Summary && a.At.Equal(b.At)
}

// together calls do from many goroutines and returns their errors.
func together(do func(i int) error) []error {
	errs := make([]error, atOnce)
	var group sync.WaitGroup
	for i := range errs {
		group.Go(func() { errs[i] = do(i) })
	}
	group.Wait()
	return errs
}

func checkApplyAtOnce(ctx context.Context, h Harness) error {
	plan, err := seal(ctx, h.Env, "step", h.Write)
	if err != nil {
		return err
	}
	errs := together(func(int) error {
		_, err := h.Env.Apply(ctx, "key-1", plan)
		return err
	})
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return wantEffects(ctx, h, 1)
}

func checkKeyReuse(ctx context.Context, h Harness) error {
	if _, _, err := apply(ctx, h.Env, "key-1", h.Write); err != nil {
		return err
	}
	other, err := seal(ctx, h.Env, "other", h.Other)
	if err != nil {
		return err
	}
	return refused(ctx, h, blastdoor.ErrNotApplied, func() error {
		_, err := h.Env.Apply(ctx, "key-1", other)
		return err
	})
}

func checkWorldMoved(ctx context.Context, h Harness) error {
	plan, err := seal(ctx, h.Env, "step", h.Write)
	if err != nil {
		return err
	}
	if err := h.Move(ctx); err != nil {
		return err
	}
	return refused(ctx, h, blastdoor.ErrWorldMoved, func() error {
		_, err := h.Env.Apply(ctx, "key-1", plan)
		return err
	})
}

func checkOneWins(ctx context.Context, h Harness) error {
	plan, err := seal(ctx, h.Env, "step", h.Write)
	if err != nil {
		return err
	}
	errs := together(func(i int) error {
		_, err := h.Env.Apply(ctx, "key-"+strconv.Itoa(i), plan)
		return err
	})
	won := 0
	for _, err := range errs {
		switch {
		case err == nil:
			won++
		case !blastdoor.ErrWorldMoved.Is(err):
			return fmt.Errorf("a loser got %w, want %s", err, blastdoor.ErrWorldMoved)
		}
	}
	if won != 1 {
		return fmt.Errorf("%d writes won, want 1", won)
	}
	return wantEffects(ctx, h, 1)
}

func checkKeyUnusedAfterMove(ctx context.Context, h Harness) error {
	if err := checkWorldMoved(ctx, h); err != nil {
		return err
	}
	if err := wantOutcome(ctx, h.Env, "key-1", blastdoor.OutcomeNotApplied); err != nil {
		return err
	}
	if _, _, err := apply(ctx, h.Env, "key-1", h.Write); err != nil {
		return err
	}
	return wantEffects(ctx, h, 1)
}

func checkApplyRefusesRead(ctx context.Context, h Harness) error {
	plan := blastdoor.Plan{RunID: "envtest", StepID: "read", Action: h.Read.Action, Kind: blastdoor.Write, Params: h.Read.Params}
	return refused(ctx, h, blastdoor.ErrNotApplied, func() error {
		_, err := h.Env.Apply(ctx, "key-1", plan)
		return err
	})
}

func checkLookup(ctx context.Context, h Harness) error {
	if err := wantOutcome(ctx, h.Env, "key-1", blastdoor.OutcomeNotApplied); err != nil {
		return err
	}
	_, first, err := apply(ctx, h.Env, "key-1", h.Write)
	if err != nil {
		return err
	}
	outcome, receipt, err := h.Env.Lookup(ctx, "key-1")
	if err != nil || outcome != blastdoor.OutcomeApplied || !sameReceipt(first, receipt) {
		return fmt.Errorf("got %s, %+v, %v, want applied with %+v", outcome, receipt, err, first)
	}
	return wantOutcome(ctx, h.Env, "key-2", blastdoor.OutcomeNotApplied)
}

func wantOutcome(ctx context.Context, env Environment, key string, want blastdoor.Outcome) error {
	outcome, receipt, err := env.Lookup(ctx, key)
	if err != nil || outcome != want || receipt != (blastdoor.Receipt{}) {
		return fmt.Errorf("looking up %s: got %s, %+v, %v, want %s without a receipt", key, outcome, receipt, err, want)
	}
	return nil
}

func checkLookupUnknown(ctx context.Context, h Harness) error {
	if err := h.Break(); err != nil {
		return err
	}
	if outcome, _, _ := h.Env.Lookup(ctx, "key-1"); outcome != blastdoor.OutcomeUnknown {
		return fmt.Errorf("an environment that cannot be asked answers %s", outcome)
	}
	return nil
}
