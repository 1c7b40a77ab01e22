package verifier_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"blastdoor"
	"blastdoor/verifier"
)

func verdict(d blastdoor.Decision, reasons ...blastdoor.Reason) blastdoor.Verdict {
	return blastdoor.Verdict{Decision: d, Reasons: reasons}
}

var (
	within    = blastdoor.Reason{Code: blastdoor.WithinPolicy, Effect: blastdoor.Allow, Text: "nothing in the policy objects"}
	asksTier  = blastdoor.Reason{Code: blastdoor.TierRequiresApproval, Effect: blastdoor.NeedsApproval, Text: "always"}
	asksEight = blastdoor.Reason{Code: blastdoor.BlastRadiusOverThreshold, Effect: blastdoor.NeedsApproval, Text: "8 services affected"}
	asksNine  = blastdoor.Reason{Code: blastdoor.BlastRadiusOverThreshold, Effect: blastdoor.NeedsApproval, Text: "9 services affected"}
	asksDB    = blastdoor.Reason{Code: blastdoor.ProtectedResource, Effect: blastdoor.NeedsApproval, Text: "db is protected"}
	asksAuth  = blastdoor.Reason{Code: blastdoor.ProtectedResource, Effect: blastdoor.NeedsApproval, Text: "auth-svc is protected"}
	deniesDB  = blastdoor.Reason{Code: blastdoor.ProtectedResource, Effect: blastdoor.Deny, Text: "db is protected"}
	frozen    = blastdoor.Reason{Code: blastdoor.ChangeFreeze, Effect: blastdoor.Deny, Text: "freeze"}
)

const (
	allow = blastdoor.Allow
	asks  = blastdoor.NeedsApproval
	deny  = blastdoor.Deny
)

func TestStricter(t *testing.T) {
	for _, tt := range []struct {
		name       string
		a, b, want blastdoor.Verdict
	}{
		{"allow and allow", verdict(allow, within), verdict(allow, within), verdict(allow, within)},
		{"allow and ask", verdict(allow, within), verdict(asks, asksTier), verdict(asks, asksTier)},
		{"ask and allow", verdict(asks, asksTier), verdict(allow, within), verdict(asks, asksTier)},
		{"ask and deny, in the order of the codes", verdict(asks, asksTier), verdict(deny, frozen), verdict(deny, frozen, asksTier)},
		{"the same reason once", verdict(asks, asksEight, asksTier), verdict(asks, asksEight), verdict(asks, asksEight, asksTier)},
		{"the same code with other words twice", verdict(asks, asksEight), verdict(asks, asksNine), verdict(asks, asksEight, asksNine)},
		{"the same words keep the stricter effect", verdict(asks, asksDB), verdict(deny, deniesDB), verdict(deny, deniesDB)},
		{"also the other way round", verdict(deny, deniesDB), verdict(asks, asksDB), verdict(deny, deniesDB)},
		{"the zero verdict denies", blastdoor.Verdict{}, verdict(allow, within), verdict(deny)},
		{"a decision not understood denies", verdict("maybe"), verdict(asks, asksTier), verdict(deny, asksTier)},
	} {
		t.Run(tt.name, func(t *testing.T) { assert.Equal(t, tt.want, verifier.Stricter(tt.a, tt.b)) })
	}
}

func TestStricterOfAVerdictAndItselfIsItself(t *testing.T) {
	for _, c := range verdictCases() {
		v := verifier.Verify(situationOf(c).input())
		assert.Equal(t, v, verifier.Stricter(v, v), c.name)
	}
}

func TestCovered(t *testing.T) {
	for _, tt := range []struct {
		name          string
		approved, now blastdoor.Verdict
		want          bool
	}{
		{"the same", verdict(asks, asksEight, asksTier), verdict(asks, asksEight, asksTier), true},
		{"fewer reasons now", verdict(asks, asksEight, asksTier), verdict(asks, asksTier), true},
		{"nothing asks any more", verdict(asks, asksEight), verdict(allow, within), true},
		{"never asked", verdict(allow, within), verdict(allow, within), true},
		{"a new reason", verdict(asks, asksEight), verdict(asks, asksEight, asksTier), false},
		{"a reason although nobody was asked", verdict(allow, within), verdict(asks, asksTier), false},
		{"another number", verdict(asks, asksEight), verdict(asks, asksNine), false},
		{"other words of the same code", verdict(asks, asksDB), verdict(asks, asksAuth), true},
		{"denied now", verdict(asks, asksDB), verdict(deny, deniesDB), false},
		{"denied now, for a code that was seen", verdict(asks, asksDB), verdict(deny, asksDB), false},
		{"denied then", verdict(deny, deniesDB), verdict(asks, asksDB), false},
		{"no verdict now", verdict(asks, asksDB), blastdoor.Verdict{}, false},
		{"no verdict then", blastdoor.Verdict{}, verdict(allow, within), false},
		{"asks without a reason", verdict(asks, asksDB), verdict(asks), false},
	} {
		t.Run(tt.name, func(t *testing.T) { assert.Equal(t, tt.want, verifier.Covered(tt.approved, tt.now)) })
	}
}
