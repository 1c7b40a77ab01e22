package chat

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"blastdoor"
	"blastdoor/chat/slacksim"
)

// TestNoticeGoldens shows every refusal and every other code that a person can get.
func TestNoticeGoldens(t *testing.T) {
	seen := map[markup]blastdoor.RefusalCode{}
	for _, c := range blastdoor.RefusalCodes() {
		text, ok := refusalText(c)
		require.True(t, ok, "%s has no sentence of its own", c)
		require.Empty(t, seen[text], "%s and %s say the same", c, seen[text])
		seen[text] = c
		golden(t, "notice/"+string(c), must(t)(noticeMessage(blastdoor.Notice{Code: string(c), RunID: "drain-host-a-1"})))
	}
	for _, c := range []string{string(blastdoor.ErrNotAllowed), string(blastdoor.ErrTooLate), string(blastdoor.ErrNotFound), string(blastdoor.ErrConflict),
		string(blastdoor.ErrTargetLocked), string(blastdoor.ErrUnavailable), string(blastdoor.ErrParamsInvalid), string(blastdoor.ErrUnknownInput),
		string(blastdoor.RunCancelled), string(blastdoor.RunDenied), string(blastdoor.RunInDoubt), "brand_new"} {
		golden(t, "notice/code_"+c, must(t)(noticeMessage(blastdoor.Notice{Code: c, RunID: "drain-host-a-1", Detail: "what happened in detail"})))
	}
	_, ok := refusalText("brand_new")
	assert.False(t, ok, "the check above can fail")
}

func TestReplyGoldens(t *testing.T) {
	three := 3
	books := []blastdoor.Runbook{
		{Name: "drain-host-a", Description: "Moves everything off host-a"},
		{Name: "scale-auth", Description: "Scales auth-svc", Inputs: []blastdoor.Input{
			{Name: "replicas", Type: blastdoor.IntegerInput, Min: &three, Description: "how many"},
			{Name: "mode", Type: blastdoor.EnumInput, Options: []string{"fast", "careful"}, Default: "careful"}}}}
	golden(t, "reply/help", must(t)(helpReply()))
	golden(t, "reply/list", must(t)(listReply(books)))
	golden(t, "reply/list_empty", must(t)(listReply(nil)))
	run := sampleRun()
	read := blastdoor.Plan{Action: "get_service_status", Kind: blastdoor.Read, Targets: []string{"db"}, Radius: blastdoor.Radius{Complete: true}}
	golden(t, "reply/plan", must(t)(previewReply(blastdoor.Preview{Runbook: "drain-host-a", Policy: "shipped", Steps: []blastdoor.StepPreview{
		{Step: run.Steps[0].Step, Plan: *run.Steps[0].Plan, Hash: sampleHash, Verdict: *run.Steps[0].Verdict},
		{Step: run.Steps[1].Step, Plan: read, Hash: sampleHash, Verdict: blastdoor.Verdict{Decision: blastdoor.Allow,
			Reasons: []blastdoor.Reason{{Code: blastdoor.WithinPolicy, Effect: blastdoor.Allow, Text: "within policy"}}}}}})))
	golden(t, "reply/runs", must(t)(runsReply(slacksim.Ops, []blastdoor.RunSummary{
		{ID: "a-1", Runbook: "drain-host-a", Requester: slacksim.Alice, Status: blastdoor.RunWaiting, UpdatedAt: at(1)},
		{ID: "b-2", Runbook: "scale-auth", Requester: slacksim.Bob, Status: string(blastdoor.RunInDoubt), UpdatedAt: at(0)}},
		SocketStatus{Connected: true, Since: at(0), Connections: 1})))
	golden(t, "reply/runs_empty", must(t)(runsReply(slacksim.Ops, nil, SocketStatus{Connected: true, Since: at(0), Connections: 2})))
	golden(t, "reply/runs_away", must(t)(runsReply(slacksim.Ops, nil, SocketStatus{})))
	golden(t, "reply/error", must(t)(errorReply(&blastdoor.Error{Code: blastdoor.ErrNotFound, Msg: `there is no runbook "drain-hots-a"`,
		Want: "did you mean `drain-host-a`?", Err: fmt.Errorf("a cause that nobody is shown")})))
	golden(t, "reply/internal", internalReply("3f2a9c41"))
	assert.NotContains(t, string(must(t)(errorReply(&blastdoor.Error{Code: blastdoor.ErrNotFound, Msg: "m", Err: fmt.Errorf("secret cause")})).Blocks), "secret")
}
