package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"blastdoor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bubble runs a test of the runner under virtual time.
func bubble(t *testing.T, f func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newBench(t)) })
}

func TestASecondPersonApprovesAndTheWriteHappensOnce(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		id := b.begin("restart-db")
		require.Equal(t, blastdoor.RefusedSelfApproval, b.refusal(b.clickOn(id, "U0ALICE", true)))
		require.Equal(t, blastdoor.RefusedNotAnApprover, b.refusal(b.clickOn(id, "U0MALLORY", true)))
		require.Empty(t, b.world.ledger)
		b.click(b.clickOn(id, "U0BOB", true))
		run := b.run(id)
		require.Equal(t, blastdoor.RunCompleted, run.Outcome)
		require.Equal(t, "all is well", run.Steps[0].Output)
		require.Equal(t, blastdoor.ConsumedApproval, run.Steps[1].Approval.Status)
		require.Len(t, b.world.ledger, 1)
		b.check(true)
	})
}

func TestAnAllowedWriteNeedsNobody(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		run := b.run(b.begin("restart-solo"))
		require.Equal(t, blastdoor.RunCompleted, run.Outcome)
		require.Nil(t, run.Steps[0].Approval)
		require.Len(t, b.world.ledger, 1)
	})
}

func TestTheSameRequestIsTheSameRun(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		first := b.begin("restart-solo")
		require.Equal(t, first, b.begin("restart-solo"))
		require.Len(t, b.world.ledger, 1)
	})
}

func TestDriftVoidsTheApprovalAndAsksAgain(t *testing.T) {
	for name, drift := range map[string]func(b *bench){
		"a version moved":    func(b *bench) { b.world.move("db") },
		"a dependency added": func(b *bench) { b.world.extra = []blastdoor.Edge{{From: "solo", To: "db", Kind: blastdoor.Calls}} },
		"a quorum raised":    func(b *bench) { b.shelf.edit(func(p *blastdoor.Policy) { p.Approvers.Quorum = 2 }) },
		"a rule that asks":   func(b *bench) { b.shelf.edit(func(p *blastdoor.Policy) { p.ApprovalAbove = 1 }) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *bench) {
				id := b.begin("restart-db")
				first := b.clickOn(id, "U0BOB", true)
				drift(b)
				b.click(first)
				run := b.run(id)
				require.Equal(t, 2, run.Current().Plans, "the step is planned again")
				require.Equal(t, blastdoor.StatusWaiting, run.Current().Status)
				require.Empty(t, b.world.ledger)
				first.InboxID = "in-again"
				require.Equal(t, blastdoor.RefusedStaleCard, b.refusal(first))
				b.click(b.clickOn(id, "U0BOB", true))
				if run := b.run(id); !run.Ended() {
					b.click(b.clickOn(id, "U0CAROL", true))
				}
				require.Equal(t, blastdoor.RunCompleted, b.run(id).Outcome)
				require.Len(t, b.world.ledger, 1)
			})
		})
	}
}

func TestAWorldThatKeepsMovingEndsTheRun(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		id := b.begin("restart-db")
		for range MaxPlans {
			click := b.clickOn(id, "U0BOB", true)
			b.world.move("db")
			b.click(click)
		}
		require.Equal(t, blastdoor.RunFailed, b.run(id).Outcome)
		require.Empty(t, b.world.ledger)
	})
}

func TestReverificationDenies(t *testing.T) {
	for name, change := range map[string]func(b *bench){
		"a freeze on a dependent begins": func(b *bench) {
			b.shelf.edit(func(p *blastdoor.Policy) { p.Freezes = []blastdoor.Freeze{{Names: []string{"web"}, From: time.Now()}} })
		},
		"the policy becomes stricter": func(b *bench) { b.shelf.edit(func(p *blastdoor.Policy) { p.MaxAffected = 1 }) },
		"the requester is deactivated": func(b *bench) {
			b.people.known["U0ALICE"] = blastdoor.Principal{UserID: "U0ALICE", TeamID: "T0ACME", Verified: true, Inactive: true}
		},
		"the service disappears": func(b *bench) { b.world.versions["db"] = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *bench) {
				id := b.begin("restart-db")
				click := b.clickOn(id, "U0BOB", true)
				change(b)
				b.click(click)
				run := b.run(id)
				require.Equal(t, blastdoor.RunDenied, run.Outcome)
				require.Equal(t, blastdoor.VoidApproval, run.Steps[1].Approval.Status)
				require.Empty(t, b.world.ledger)
			})
		})
	}
}

func TestBreakGlass(t *testing.T) {
	responders := blastdoor.Approvers{Groups: []string{"S0SRE"}, Quorum: 2}
	frozen := func(b *bench) {
		b.shelf.edit(func(p *blastdoor.Policy) {
			p.Freezes = []blastdoor.Freeze{{Name: "sale", Names: []string{"*"}, BreakGlass: &responders}}
		})
		b.people.groups["S0SRE"] = []string{"U0ALICE", "U0BOB", "U0CAROL"}
	}
	bubble(t, func(t *testing.T, b *bench) {
		frozen(b)
		require.Equal(t, blastdoor.RunDenied, b.run(b.begin("restart-solo")).Outcome, "without a reason")
	})
	bubble(t, func(t *testing.T, b *bench) {
		frozen(b)
		req := b.request("restart-solo")
		req.BreakGlass = "the database is on fire"
		id, err := b.runner.Start(t.Context(), req)
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, req.BreakGlass, b.run(id).BreakGlass)
		require.Equal(t, blastdoor.RefusedSelfApproval, b.refusal(b.clickOn(id, "U0ALICE", true)))
		require.Equal(t, blastdoor.RefusedNotAnApprover, b.refusal(b.clickOn(id, "U0MALLORY", true)))
		b.click(b.clickOn(id, "U0BOB", true))
		require.Empty(t, b.world.ledger, "two others must agree")
		b.click(b.clickOn(id, "U0CAROL", true))
		require.Equal(t, blastdoor.RunCompleted, b.run(id).Outcome)
		b.check(true)
	})
	bubble(t, func(t *testing.T, b *bench) {
		frozen(b)
		b.people.groups["S0SRE"] = []string{"U0BOB", "U0CAROL"}
		req := b.request("restart-solo")
		req.BreakGlass = "I am in a hurry"
		id, err := b.runner.Start(t.Context(), req)
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, blastdoor.RunDenied, b.run(id).Outcome, "not one of them")
	})
}

func TestALoosenedPolicyDoesNotLoosenARun(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		id := b.begin("restart-db")
		click := b.clickOn(id, "U0MALLORY", true)
		b.shelf.edit(func(p *blastdoor.Policy) { p.Approvers = blastdoor.Approvers{Users: []string{"U0MALLORY"}, Quorum: 1} })
		require.Equal(t, blastdoor.RefusedNotAnApprover, b.refusal(click))
	})
}

func TestExpiryByTheClock(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		id := b.begin("restart-db")
		click := b.clickOn(id, "U0BOB", true)
		time.Sleep(aliveTTL - time.Nanosecond)
		synctest.Wait()
		require.Empty(t, b.run(id).Outcome)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.Equal(t, blastdoor.RunExpired, b.run(id).Outcome)
		require.Equal(t, blastdoor.RefusedExpired, b.refusal(click))
		require.Empty(t, b.world.ledger)
	})
}

func TestAnApprovalThatCannotBeUsedInTimeExpires(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		id := b.begin("restart-db")
		click := b.clickOn(id, "U0BOB", true)
		b.world.fault = func(op string) (error, error) {
			if op == "dry_run" {
				return blastdoor.Errorf(blastdoor.ErrUnavailable, "down"), nil
			}
			return nil, nil
		}
		b.click(click)
		b.stop() // the process is away while the approval runs out
		time.Sleep(aliveTTL)
		b.start()
		run := b.run(id)
		require.Equal(t, blastdoor.RunExpired, run.Outcome)
		require.Equal(t, "the approval expired before it could be used", run.Detail)
		require.Empty(t, b.world.ledger)
	})
}

func TestDeclineCancelWithdraw(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		id := b.begin("restart-db")
		b.click(b.clickOn(id, "U0BOB", false))
		require.Equal(t, blastdoor.RunDeclined, b.run(id).Outcome)
	})
	bubble(t, func(t *testing.T, b *bench) {
		id := b.begin("restart-db")
		b.click(b.clickOn(id, "U0ALICE", false))
		require.Equal(t, blastdoor.RunCancelled, b.run(id).Outcome)
	})
	bubble(t, func(t *testing.T, b *bench) {
		id := b.begin("restart-db")
		err := b.runner.Cancel(t.Context(), blastdoor.CancelRequest{RunID: id, UserID: "U0BOB", InboxID: "c1"})
		require.Equal(t, blastdoor.ErrNotAllowed, blastdoor.CodeOf(err))
		require.NoError(t, b.runner.Cancel(t.Context(), blastdoor.CancelRequest{RunID: id, UserID: "U0ALICE", InboxID: "c2"}))
		require.Equal(t, blastdoor.RunCancelled, b.run(id).Outcome)
		err = b.runner.Cancel(t.Context(), blastdoor.CancelRequest{RunID: id, UserID: "U0ALICE", InboxID: "c3"})
		require.Equal(t, blastdoor.ErrTooLate, blastdoor.CodeOf(err))
		require.Empty(t, b.world.ledger)
	})
}

func TestClicksThatDoNotCount(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		id := b.begin("restart-db")
		good := b.clickOn(id, "U0BOB", true)
		vary := func(f func(*blastdoor.Click)) blastdoor.Click {
			b.clicks++
			c := good
			c.InboxID = fmt.Sprintf("in-%d", b.clicks)
			f(&c)
			return c
		}
		require.Equal(t, blastdoor.RefusedStaleCard, b.refusal(vary(func(c *blastdoor.Click) { c.Message.TS = "1.2" })))
		require.Equal(t, blastdoor.RefusedStaleCard, b.refusal(vary(func(c *blastdoor.Click) { c.ApprovalID = "ap-of-another-run" })))
		require.Equal(t, blastdoor.RefusedPlanMismatch, b.refusal(vary(func(c *blastdoor.Click) { c.PlanHash = "sha256:00" })))
		require.Equal(t, blastdoor.RefusedUnverifiedIdentity, b.refusal(vary(func(c *blastdoor.Click) { c.UserID = "U0NOBODY" })))
		b.people.err = errors.New("slack is down")
		require.Equal(t, blastdoor.RefusedUnverifiedIdentity, b.refusal(vary(func(*blastdoor.Click) {})))
		b.people.err = nil
		b.click(good)
		require.Equal(t, blastdoor.RefusedNotPending, b.refusal(vary(func(*blastdoor.Click) {})), "a second click")
		require.Len(t, b.world.ledger, 1)
	})
}

func TestAQuorumCountsPeople(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.shelf.edit(func(p *blastdoor.Policy) { p.Approvers.Quorum = 2 })
		id := b.begin("restart-db")
		b.click(b.clickOn(id, "U0BOB", true))
		require.Equal(t, blastdoor.RefusedAlreadyCounted, b.refusal(b.clickOn(id, "U0BOB", true)))
		require.Empty(t, b.world.ledger)
		b.click(b.clickOn(id, "U0CAROL", true))
		require.Equal(t, blastdoor.RunCompleted, b.run(id).Outcome)
	})
}

func TestAClickBeforeTheCardIsKnownIsBroughtAgain(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		id := b.begin("restart-db")
		run, err := b.runner.History(t.Context(), id)
		require.NoError(t, err)
		step := run.Current()
		err = b.runner.Click(t.Context(), blastdoor.Click{RunID: id, ApprovalID: step.Approval.ID, PlanHash: step.PlanHash,
			Approve: true, UserID: "U0BOB", TeamID: "T0ACME", Message: card, InboxID: "early"})
		require.Equal(t, blastdoor.ErrNotPosted, blastdoor.CodeOf(err))
		require.Zero(t, b.run(id).Refusals, "nothing was decided")
	})
}

func TestProposalsThatCannotBePlannedAreDenied(t *testing.T) {
	for runbook, code := range map[string]blastdoor.ReasonCode{"shell": blastdoor.UnknownAction, "ghost": blastdoor.DryRunFailed} {
		bubble(t, func(t *testing.T, b *bench) {
			run := b.run(b.begin(runbook))
			require.Equal(t, blastdoor.RunDenied, run.Outcome)
			require.True(t, run.Steps[0].Verdict.Has(code), "%s: %v", runbook, run.Steps[0].Verdict)
		})
	}
}

// stray proposes for another step than it was asked about.
type stray struct{}

func (stray) Propose(_ context.Context, _ blastdoor.Run, step blastdoor.StepState) (blastdoor.Proposal, error) {
	return blastdoor.Proposal{StepID: "other", Action: step.Step.Action, Params: step.Step.Params, Confidence: 1, Planner: "stray"}, nil
}

func TestAProposalForAnotherStepIsDenied(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.runner.Planner = stray{}
		run := b.run(b.begin("restart-solo"))
		require.Equal(t, blastdoor.RunDenied, run.Outcome)
		require.True(t, run.Steps[0].Verdict.Has(blastdoor.ParamsInvalid))
	})
}

func TestADeniedStepSkipsTheRest(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.shelf.edit(func(p *blastdoor.Policy) { p.Freezes = []blastdoor.Freeze{{Names: []string{"solo"}}} })
		run := b.run(b.begin("two"))
		require.Equal(t, blastdoor.RunDenied, run.Outcome)
		require.Equal(t, blastdoor.StatusSkipped, run.Steps[1].Status)
	})
}

func TestOutcomesOfAWrite(t *testing.T) {
	lost := errors.New("connection reset")
	moved := blastdoor.Errorf(blastdoor.ErrWorldMoved, "moved")
	for name, c := range map[string]struct {
		fault   map[string][2]error
		outcome blastdoor.RunOutcome
		effects int
	}{
		"the world moved":                    {map[string][2]error{"apply": {moved, nil}}, blastdoor.RunFailed, 0},
		"landed, and the answer was lost":    {map[string][2]error{"apply": {nil, lost}}, blastdoor.RunCompleted, 1},
		"never landed, answer lost for ever": {map[string][2]error{"apply": {lost, nil}}, blastdoor.RunInDoubt, 0},
		"nobody knows":                       {map[string][2]error{"apply": {nil, lost}, "lookup": {lost, nil}}, blastdoor.RunInDoubt, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *bench) {
				b.world.fault = func(op string) (error, error) { return c.fault[op][0], c.fault[op][1] }
				id := b.begin("restart-solo")
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				require.Equal(t, c.outcome, b.run(id).Outcome)
				require.Len(t, b.world.ledger, c.effects)
				b.check(true)
			})
		})
	}
}

func TestAWriteThatNeverAnswersIsLookedUp(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.world.hang = true
		id := b.begin("restart-solo")
		require.Equal(t, blastdoor.StatusIntended, b.run(id).Current().Status)
		time.Sleep(applyLimit + time.Minute)
		synctest.Wait()
		require.Equal(t, blastdoor.RunCompleted, b.run(id).Outcome)
		require.Len(t, b.world.ledger, 1)
	})
}

// crashAfter kills the process at the n-th call of an operation, before or after
// it has been done: from then on nothing that the runner calls answers any more,
// until recover. It reports whether the point was reached.
func crashAfter(b *bench, op string, n int, done bool) (reached func() bool) {
	count, dead := 0, false
	crash := errors.New("the process is gone")
	fault := func(called string) (error, error) {
		if dead {
			return crash, nil
		}
		if called == op {
			count++
		}
		if called != op || count < n {
			return nil, nil
		}
		dead = true
		if done {
			return nil, crash
		}
		return crash, nil
	}
	b.store.Fault(fault)
	b.world.fault = fault
	return func() bool { return dead }
}

// TestACrashAnywhereEndsTheSame stops the process at every call of a port, before
// and after it took effect, starts a new one, and expects the same end.
func TestACrashAnywhereEndsTheSame(t *testing.T) {
	points := 0
	for _, op := range []string{"begin", "commit", "load", "dry_run", "lookup", "apply", "observe"} {
		for n := 1; ; n++ {
			reached := false
			for _, done := range []bool{false, true} {
				bubble(t, func(t *testing.T, b *bench) {
					dead := crashAfter(b, op, n, done)
					storyWithCrash(t, b, dead)
					reached = reached || dead()
				})
			}
			if !reached {
				break
			}
			points++
		}
	}
	require.Greater(t, points, 20)
	t.Logf("%d points, each before and after", points)
}

// storyWithCrash plays restart-db; whenever the process has died it is started
// again, and what was asked of it is brought again, as Slack or the inbox would.
func storyWithCrash(t *testing.T, b *bench, dead func() bool) {
	id, err := b.runner.Start(t.Context(), b.request("restart-db"))
	synctest.Wait()
	if dead() {
		b.recover()
		if err != nil {
			id = b.begin("restart-db")
		}
	}
	died := dead()
	click := b.clickOn(id, "U0BOB", true)
	err = b.runner.Click(t.Context(), click)
	synctest.Wait()
	if dead() && !died {
		b.recover()
		if err != nil {
			// The inbox brings it again; a conflict says that it was settled after all.
			if err := b.runner.Click(t.Context(), click); err != nil {
				require.Equal(t, blastdoor.ErrConflict, blastdoor.CodeOf(err))
			}
		}
	} else {
		require.NoError(t, err)
	}
	time.Sleep(time.Minute)
	synctest.Wait()
	run := b.run(id)
	require.Equal(t, blastdoor.RunCompleted, run.Outcome)
	require.Len(t, b.world.ledger, 1)
	b.check(true)
}

// recover starts a new process on what is left.
func (b *bench) recover() {
	b.stop()
	b.store.Fault(func(string) (error, error) { return nil, nil })
	b.world.fault = func(string) (error, error) { return nil, nil }
	b.start()
}

// TestANaiveEnvironmentIsCaught is the negative control: where the environment
// enforces neither key nor version, a crash after the write doubles it, and the
// properties say so.
func TestANaiveEnvironmentIsCaught(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.world.naive = true
		crashAfter(b, "apply", 1, true)
		id, err := b.runner.Start(t.Context(), b.request("restart-solo"))
		require.NoError(t, err)
		synctest.Wait()
		b.recover()
		time.Sleep(time.Minute)
		synctest.Wait()
		_, err = b.runner.History(t.Context(), id)
		require.NoError(t, err)
		require.Len(t, b.world.ledger, 2)
		require.Contains(t, b.violations(false)[0], "property 1:")
	})
}

func TestAnIntentThatIsStaleOrOvertakenIsAbandoned(t *testing.T) {
	for name, c := range map[string]struct {
		while   func(b *bench)
		outcome blastdoor.RunOutcome
	}{
		"stale":     {func(*bench) { time.Sleep(aliveTTL) }, blastdoor.RunFailed},
		"overtaken": {func(b *bench) { b.world.move("db") }, blastdoor.RunFailed},
		"frozen": {func(b *bench) {
			b.shelf.edit(func(p *blastdoor.Policy) { p.Freezes = []blastdoor.Freeze{{Names: []string{"*"}}} })
		}, blastdoor.RunDenied},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *bench) {
				id := b.begin("restart-db")
				click := b.clickOn(id, "U0BOB", true)
				crashAfter(b, "apply", 1, false) // the intent is journalled, the write is not made
				b.click(click)
				require.Equal(t, blastdoor.StatusIntended, b.run(id).Current().Status)
				b.stop()
				c.while(b)
				b.recover()
				time.Sleep(time.Minute)
				synctest.Wait()
				require.Equal(t, c.outcome, b.run(id).Outcome)
				require.Empty(t, b.world.ledger)
			})
		})
	}
}

func TestOneLiveIntentPerTarget(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		gate := make(chan struct{})
		b.world.fault = func(op string) (error, error) {
			if op == "lookup" {
				b.world.mu.Unlock()
				<-gate
				b.world.mu.Lock()
			}
			return nil, nil
		}
		first, err := b.runner.Start(t.Context(), b.request("restart-solo"))
		require.NoError(t, err)
		synctest.Wait() // the first run holds solo
		req := b.request("restart-solo")
		req.SourceID = "another"
		second, err := b.runner.Start(t.Context(), req)
		require.NoError(t, err)
		synctest.Wait()
		run := b.run(second)
		require.Equal(t, blastdoor.StatusWaiting, run.Current().Status)
		require.True(t, run.Current().Verdict.Has(blastdoor.RadiusOverlap))
		close(gate)
		synctest.Wait()
		require.Equal(t, blastdoor.RunCompleted, b.run(first).Outcome)
		require.Len(t, b.world.ledger, 1)
	})
}

func TestARunGoesOnOnceTheDiskHasRoomAgain(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		var full atomic.Bool
		full.Store(true)
		b.store.Fault(func(op string) (error, error) {
			if op == "commit" && full.Load() {
				return errors.New("the disk is full"), nil
			}
			return nil, nil
		})
		id := b.begin("restart-solo")
		require.Equal(t, blastdoor.StatusPending, b.run(id).Current().Status)
		full.Store(false)
		time.Sleep(brokenPause)
		synctest.Wait()
		require.Equal(t, blastdoor.RunCompleted, b.run(id).Outcome)
	})
}

func TestARunnerWithoutAPartIsRefused(t *testing.T) {
	_, err := NewRunner(Options{})
	require.Error(t, err)
}

func TestPreviewWritesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		preview, err := b.runner.Preview(t.Context(), b.request("two"))
		require.NoError(t, err)
		require.Equal(t, blastdoor.Allow, preview.Steps[0].Verdict.Decision)
		require.Equal(t, blastdoor.NeedsApproval, preview.Steps[1].Verdict.Decision)
		require.Empty(t, b.store.History())
		require.Empty(t, b.world.ledger)
	})
}
