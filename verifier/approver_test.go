package verifier_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"blastdoor"
	"blastdoor/verifier"
)

// clickInOrder is Bob's click on the card of Alice's run: it counts.
func clickInOrder() verifier.ApproverInput {
	sre := blastdoor.Approvers{Groups: []string{"S0SRE"}, Quorum: 1}
	card := blastdoor.MessageRef{Channel: "C0OPS", TS: "1700000000.000100"}
	return verifier.ApproverInput{
		Approval: &blastdoor.Approval{ID: "ap-1", StepID: "drain", PlanHash: "sha256:aa", RequestedAt: noon,
			ExpiresAt: noon.Add(15 * time.Minute), Quorum: 1, Approvers: sre, Status: blastdoor.PendingApproval},
		Current:       sre,
		Requester:     blastdoor.Principal{UserID: "UALICE", TeamID: "T1", Verified: true},
		Clicker:       blastdoor.Principal{UserID: "UBOB", TeamID: "T1", Verified: true},
		ClickerGroups: []string{"S0SRE"},
		Stored:        card, Clicked: card,
		ApprovalID: "ap-1", PlanHash: "sha256:aa", Now: noon.Add(time.Minute),
	}
}

type clickCase struct {
	name string
	set  func(*verifier.ApproverInput)
	want blastdoor.RefusalCode // empty: it counts
}

type in = verifier.ApproverInput

func clickCases() []clickCase {
	return slices.Concat(identityCases(), eligibilityCases(), approvalCases())
}

func identityCases() []clickCase {
	return []clickCase{
		{"in order", func(*in) {}, ""},
		{"unverified", func(c *in) { c.Clicker.Verified = false }, blastdoor.RefusedUnverifiedIdentity},
		{"nobody", func(c *in) { c.Clicker = blastdoor.Principal{} }, blastdoor.RefusedUnverifiedIdentity},
		{"no user id", func(c *in) { c.Clicker.UserID = "" }, blastdoor.RefusedUnverifiedIdentity},
		{"no team id", func(c *in) { c.Clicker.TeamID = "" }, blastdoor.RefusedUnverifiedIdentity},
		{"bot", func(c *in) { c.Clicker.Bot = true }, blastdoor.RefusedBotUser},
		{"external", func(c *in) { c.Clicker.External = true }, blastdoor.RefusedExternalUser},
		{"inactive", func(c *in) { c.Clicker.Inactive = true }, blastdoor.RefusedInactiveUser},
		{"guest", func(c *in) { c.Clicker.Guest = true }, blastdoor.RefusedGuest},
		{"a stranger learns nothing of the approval", func(c *in) { c.Clicker.External, c.Approval = true, nil }, blastdoor.RefusedExternalUser},
		{"the requester", func(c *in) { c.Clicker = c.Requester }, blastdoor.RefusedSelfApproval},
		{"the requester from another workspace of the organisation", func(c *in) {
			c.Requester.EnterpriseUserID, c.Clicker.EnterpriseUserID = "W1", "W1"
		}, blastdoor.RefusedSelfApproval},
		{"two people without enterprise ids", func(c *in) { c.Requester.EnterpriseUserID, c.Clicker.EnterpriseUserID = "", "" }, ""},
		{"requester unknown", func(c *in) { c.Requester = blastdoor.Principal{} }, blastdoor.RefusedSelfApproval},
		{"the requester is told so even when not an approver", func(c *in) { c.Clicker, c.ClickerGroups = c.Requester, nil }, blastdoor.RefusedSelfApproval},
	}
}

func eligibilityCases() []clickCase {
	return []clickCase{
		{"in no group", func(c *in) { c.ClickerGroups = nil }, blastdoor.RefusedNotAnApprover},
		{"in another group", func(c *in) { c.ClickerGroups = []string{"S0DEV"} }, blastdoor.RefusedNotAnApprover},
		{"listed by name in both", func(c *in) {
			c.ClickerGroups = nil
			c.Approval.Approvers.Users, c.Current.Users = []string{"UBOB"}, []string{"UBOB"}
		}, ""},
		{"pinned only", func(c *in) { c.Current = blastdoor.Approvers{Users: []string{"UCAROL"}} }, blastdoor.RefusedNotAnApprover},
		{"current only", func(c *in) { c.Approval.Approvers = blastdoor.Approvers{Users: []string{"UCAROL"}} }, blastdoor.RefusedNotAnApprover},
		{"pinned list empty", func(c *in) { c.Approval.Approvers = blastdoor.Approvers{} }, blastdoor.RefusedNotAnApprover},
		{"current list empty", func(c *in) { c.Current = blastdoor.Approvers{} }, blastdoor.RefusedNotAnApprover},
		{"both lists empty", func(c *in) { c.Approval.Approvers, c.Current = blastdoor.Approvers{}, blastdoor.Approvers{} }, blastdoor.RefusedNotAnApprover},
		{"a star is no user", func(c *in) { c.Current = blastdoor.Approvers{Users: []string{"*"}} }, blastdoor.RefusedNotAnApprover},
	}
}

func approvalCases() []clickCase {
	status := func(s blastdoor.ApprovalStatus) func(*in) { return func(c *in) { c.Approval.Status = s } }
	return []clickCase{
		{"no approval", func(c *in) { c.Approval = nil }, blastdoor.RefusedStaleCard},
		{"an earlier approval", func(c *in) { c.ApprovalID = "ap-0" }, blastdoor.RefusedStaleCard},
		{"approval ids empty", func(c *in) { c.ApprovalID, c.Approval.ID = "", "" }, blastdoor.RefusedStaleCard},
		{"message never posted", func(c *in) { c.Stored, c.Clicked = blastdoor.MessageRef{}, blastdoor.MessageRef{} }, blastdoor.RefusedStaleCard},
		{"message without an address", func(c *in) { c.Stored.TS, c.Clicked.TS = "", "" }, blastdoor.RefusedStaleCard},
		{"message in another channel", func(c *in) { c.Clicked.Channel = "C0RANDOM" }, blastdoor.RefusedStaleCard},
		{"another message", func(c *in) { c.Clicked.TS = "1700000000.000200" }, blastdoor.RefusedStaleCard},
		{"another plan", func(c *in) { c.PlanHash = "sha256:bb" }, blastdoor.RefusedPlanMismatch},
		{"plan hashes empty", func(c *in) { c.PlanHash, c.Approval.PlanHash = "", "" }, blastdoor.RefusedPlanMismatch},
		{"granted", status(blastdoor.GrantedApproval), blastdoor.RefusedNotPending},
		{"consumed", status(blastdoor.ConsumedApproval), blastdoor.RefusedNotPending},
		{"declined", status(blastdoor.DeclinedApproval), blastdoor.RefusedNotPending},
		{"void", status(blastdoor.VoidApproval), blastdoor.RefusedNotPending},
		{"status unknown", status(""), blastdoor.RefusedNotPending},
		{"marked expired", status(blastdoor.ExpiredApproval), blastdoor.RefusedExpired},
		{"the last nanosecond", func(c *in) { c.Now = c.Approval.ExpiresAt.Add(-1) }, ""},
		{"the instant of expiry", func(c *in) { c.Now = c.Approval.ExpiresAt }, blastdoor.RefusedExpired},
		{"an unknown time", func(c *in) { c.Now = time.Time{} }, blastdoor.RefusedExpired},
		{"no expiry set", func(c *in) { c.Approval.ExpiresAt = time.Time{} }, blastdoor.RefusedExpired},
		{"a second click of one person", func(c *in) {
			c.Approval.Quorum, c.Approval.Votes = 2, []blastdoor.Vote{{By: c.Clicker, At: noon}}
		}, blastdoor.RefusedAlreadyCounted},
		{"a second click under another user id", func(c *in) {
			c.Clicker.EnterpriseUserID = "W2"
			c.Approval.Quorum = 2
			c.Approval.Votes = []blastdoor.Vote{{By: blastdoor.Principal{UserID: "UBOB2", EnterpriseUserID: "W2"}, At: noon}}
		}, blastdoor.RefusedAlreadyCounted},
		{"a first click after another person's", func(c *in) {
			c.Approval.Quorum, c.Approval.Votes = 2, []blastdoor.Vote{{By: blastdoor.Principal{UserID: "UCAROL"}, At: noon}}
		}, ""},
	}
}

func clickOf(c clickCase) verifier.ApproverInput {
	click := clickInOrder()
	c.set(&click)
	return click
}

func codeOf(t *testing.T, err error) blastdoor.RefusalCode {
	t.Helper()
	if err == nil {
		return ""
	}
	refusal, ok := errors.AsType[*verifier.Refusal](err)
	require.True(t, ok, "every refusal is a *Refusal: %v", err)
	require.NotEmpty(t, refusal.Text)
	return refusal.Code
}

func TestClickMatrix(t *testing.T) {
	var golden strings.Builder
	for _, c := range clickCases() {
		t.Run(c.name, func(t *testing.T) {
			err := verifier.CheckApprover(clickOf(c))
			assert.Equal(t, c.want, codeOf(t, err))
			answer := "counts"
			if err != nil {
				answer = err.Error()
			}
			fmt.Fprintf(&golden, "%s\n  %s\n", c.name, answer)
		})
	}
	compareGolden(t, "testdata/clicks.golden", golden.String())
}

func TestEveryRefusalCodeHasACase(t *testing.T) {
	produced := map[blastdoor.RefusalCode]bool{"": true}
	for _, c := range clickCases() {
		produced[codeOf(t, verifier.CheckApprover(clickOf(c)))] = true
	}
	for _, code := range blastdoor.RefusalCodes() {
		assert.True(t, produced[code], "no case produces %s", code)
	}
	assert.Len(t, produced, len(blastdoor.RefusalCodes())+1, "codes outside the closed set")
}

// The negative control: a checker that forgot any one code is caught by the matrix.
func TestTheMatrixNoticesAMissingApproverCheck(t *testing.T) {
	for _, code := range blastdoor.RefusalCodes() {
		noticed := slices.ContainsFunc(clickCases(), func(c clickCase) bool {
			return codeOf(t, verifier.CheckApproverWithout(code, clickOf(c))) != c.want
		})
		assert.True(t, noticed, "nobody notices that %s is never refused", code)
	}
}

// Everything is wrong with this click. Taking the faults away one by one shows
// the documented order.
func TestRefusalsComeInTheDocumentedOrder(t *testing.T) {
	click := clickInOrder()
	click.Clicker = blastdoor.Principal{UserID: click.Requester.UserID, TeamID: "T1", Bot: true, Guest: true, External: true, Inactive: true}
	click.ClickerGroups = nil
	click.Clicked = blastdoor.MessageRef{}
	click.PlanHash = "sha256:bb"
	click.Approval.Status = blastdoor.ConsumedApproval
	click.Approval.Votes = []blastdoor.Vote{{By: blastdoor.Principal{UserID: "UBOB"}}}
	click.Now = click.Approval.ExpiresAt
	for _, step := range []struct {
		code blastdoor.RefusalCode
		mend func()
	}{
		{blastdoor.RefusedUnverifiedIdentity, func() { click.Clicker.Verified = true }},
		{blastdoor.RefusedBotUser, func() { click.Clicker.Bot = false }},
		{blastdoor.RefusedExternalUser, func() { click.Clicker.External = false }},
		{blastdoor.RefusedInactiveUser, func() { click.Clicker.Inactive = false }},
		{blastdoor.RefusedGuest, func() { click.Clicker.Guest = false }},
		{blastdoor.RefusedSelfApproval, func() { click.Clicker.UserID = "UBOB" }},
		{blastdoor.RefusedNotAnApprover, func() { click.ClickerGroups = []string{"S0SRE"} }},
		{blastdoor.RefusedStaleCard, func() { click.Clicked = click.Stored }},
		{blastdoor.RefusedPlanMismatch, func() { click.PlanHash = click.Approval.PlanHash }},
		{blastdoor.RefusedNotPending, func() { click.Approval.Status = blastdoor.PendingApproval }},
		{blastdoor.RefusedExpired, func() { click.Now = noon }},
		{blastdoor.RefusedAlreadyCounted, func() { click.Approval.Votes = nil }},
	} {
		assert.Equal(t, step.code, codeOf(t, verifier.CheckApprover(click)))
		step.mend()
	}
	assert.NoError(t, verifier.CheckApprover(click))
}
