package chat

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"blastdoor"
	"blastdoor/chat/slacksim"
)

func TestCardGoldens(t *testing.T) {
	for name, run := range sampleStates() {
		t.Run(name, func(t *testing.T) {
			card, err := runCard(&run)
			require.NoError(t, err)
			golden(t, "run_card/"+name, card)
			dry, err := dryRunCard(&run, "drain", 1)
			require.NoError(t, err)
			golden(t, "dry_run/"+name, dry)
			status, err := statusReply(&run)
			require.NoError(t, err)
			golden(t, "status/"+name, status)
			if run.Ended() && run.Outcome != blastdoor.RunCompleted {
				note, err := outcomeNote(&run)
				require.NoError(t, err)
				golden(t, "outcome_note/"+name, note)
			}
		})
	}
}

// TestButtonsOnlyWhilePending: a card offers a decision in exactly the states in
// which one could still count.
func TestButtonsOnlyWhilePending(t *testing.T) {
	open := map[string]bool{"waiting": true, "quorum": true, "incomplete": true, "huge": true, "break_glass": true}
	for name, run := range sampleStates() {
		card, err := dryRunCard(&run, "drain", 1)
		require.NoError(t, err)
		m := slacksim.Message{Blocks: card.Blocks}
		assert.Equal(t, open[name], m.HasButton(approveAction), "%s: approve", name)
		assert.Equal(t, open[name], m.HasButton(declineAction), "%s: decline", name)
	}
	run := sampleRun()
	run.Steps[0].Approval.PlanHash = "sha256:other" // the question is about another plan
	card, err := dryRunCard(&run, "drain", 1)
	require.NoError(t, err)
	assert.Empty(t, slacksim.Message{Blocks: card.Blocks}.Buttons())
}

func TestButtonsNameRunApprovalAndPlan(t *testing.T) {
	run := sampleRun()
	card, err := dryRunCard(&run, "drain", 1)
	require.NoError(t, err)
	for _, b := range (slacksim.Message{Blocks: card.Blocks}).Buttons() {
		value, ok := parseButtonValue(b.Value)
		require.True(t, ok)
		assert.Equal(t, buttonValue{RunID: run.ID, ApprovalID: "ap-1", PlanHash: sampleHash}, value)
	}
}

// TestFallbackHasNoButtons: what could not be shown cannot be approved.
func TestFallbackHasNoButtons(t *testing.T) {
	run := sampleRun()
	card := fallbackCard(&run)
	require.NoError(t, card.check())
	assert.Empty(t, slacksim.Message{Blocks: card.Blocks}.Buttons())
	golden(t, "dry_run/fallback", card)
}

func TestRadiusList(t *testing.T) {
	for _, n := range []int{8, 500, 20_000} {
		run := sampleRun()
		widen(run.Steps[0].Plan, n)
		m, err := radiusList(&run, "drain", 1)
		require.NoError(t, err)
		if n == 500 {
			golden(t, "radius_list/huge", m)
			assert.Contains(t, string(m.Blocks), "service-0497", "the list of the thread is whole")
		}
	}
	run := sampleRun()
	run.Steps[0].Plans = 2
	m, err := radiusList(&run, "drain", 1)
	require.NoError(t, err)
	golden(t, "radius_list/superseded", m)
	_, err = radiusList(&run, "ghost", 1)
	require.Error(t, err)
}

// TestEveryStatusHasALook: a new status must be given words before it can be shown.
func TestEveryStatusHasALook(t *testing.T) {
	for _, s := range blastdoor.StepStatuses() {
		l := lookOf(s)
		assert.NotEmpty(t, l.sign, s)
		assert.NotEmpty(t, l.words, s)
		run := sampleRun()
		run.Steps[0].Status = s
		_, err := dryRunCard(&run, "drain", 1)
		require.NoError(t, err, s)
		run.Steps[0].Approval = nil
		_, err = dryRunCard(&run, "drain", 1)
		require.NoError(t, err, s)
	}
	for _, o := range blastdoor.RunOutcomes() {
		assert.NotEmpty(t, outcomeLook(o).words, o)
	}
	assert.Empty(t, lookOf("brand_new").words, "the check above can fail")
}
