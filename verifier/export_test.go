package verifier

import (
	"slices"

	"blastdoor"
)

// RuleNames and VerifyWithout let a test break the verifier on purpose.
func RuleNames() (names []string) {
	for _, r := range rules {
		names = append(names, r.name)
	}
	return names
}

func VerifyWithout(name string, in Input) blastdoor.Verdict {
	return judge(in, slices.DeleteFunc(slices.Clone(rules[:]), func(r rule) bool { return r.name == name }))
}

// CheckApproverWithout leaves one check out.
func CheckApproverWithout(code blastdoor.RefusalCode, in ApproverInput) error {
	return refuse(&in, slices.DeleteFunc(slices.Clone(approverChecks[:]), func(c approverCheck) bool { return c.code == code }))
}
