package chat

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"blastdoor"
	"blastdoor/chat/slacksim"
)

// nasty is text that tries to mention, link, forge a line, format or hide.
var nasty = []string{
	"<!channel>", "<@U0BOB>", "<#C0OPS>", "<https://evil.example|click here>", "<!date^0^{date}^https://evil.example|x>",
	"*bold* _it_ ~no~ `code` ```fence```", ":white_check_mark: Approved", "@channel #ops",
	"line one\n✅ Approved by somebody", "a\r\nb\u2028c\u2029d\u0085e\vf", "safe\u202Edren\u202C", "zero\u200Bwidth\uFEFF\u2066x\u2069",
	"&amp;&lt;!here&gt;", "> quote", "\x00\x1b[31mred", "tag\U000E0041", strings.Repeat("&<>", 4000), strings.Repeat("名", 5000), "\xff\xfe",
}

// breaks lists what a text must not hold once it is neutral.
func breaks(s string) []string {
	var out []string
	if strings.ContainsAny(s, "<>\n\r") {
		out = append(out, "a raw control character of mrkdwn")
	}
	if regexp.MustCompile(`&(amp;|lt;|gt;)?`).ReplaceAllStringFunc(s, func(m string) string {
		if m == "&" {
			return "BAD"
		}
		return ""
	}) != strings.NewReplacer("&amp;", "", "&lt;", "", "&gt;", "").Replace(s) {
		out = append(out, "a bare ampersand")
	}
	if regexp.MustCompile(`(^|[^` + wordJoiner + `])[*~` + "`" + `@#]`).MatchString(s) {
		out = append(out, "a formatting character that can pair up")
	}
	if regexp.MustCompile(`:[a-z0-9_+-]+:`).MatchString(s) {
		out = append(out, "an emoji")
	}
	for _, r := range strings.ReplaceAll(s, wordJoiner, "") {
		if hidden(r) {
			out = append(out, fmt.Sprintf("the hidden character %U", r))
		}
	}
	return out
}

func TestUntrustedIsNeutral(t *testing.T) {
	for _, s := range nasty {
		assert.Empty(t, breaks(string(untrusted(s))), "%q", cut(s, 40))
	}
	for _, s := range nasty[:6] {
		assert.NotEmpty(t, breaks(s), "the check must see %q", s) // negative control
	}
	assert.Equal(t, markup("snake_case-name: ok"), untrusted("snake_case-name: ok"), "harmless text stays as it is")
}

func TestUntrustedIsNeutralProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Join(rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(nasty[:16]), rapid.String()), 0, 6).Draw(t, "parts"), "")
		if bad := breaks(string(untrusted(s))); len(bad) > 0 {
			t.Fatalf("%q: %v", s, bad)
		}
	})
}

func TestSayNeutralisesEveryArgument(t *testing.T) {
	got := say("*%s* %d %s", "<!channel>", 3, markup("<@U1>"))
	assert.Equal(t, markup("*&lt;!channel&gt;* 3 <@U1>"), got)
	assert.Contains(t, string(say("%s", blastdoor.StepStatus("<x>"))), "&lt;x&gt;", "named string types are foreign too")
	assert.Equal(t, markup("`a&lt;b&gt;'c`"), code("a<b>`c"))
	assert.NotContains(t, string(mention("U1>|<!channel>")), "<")
	assert.NotContains(t, string(channelRef("x|<!here>")), "<")
}

// hostile fills every field of a run that foreign text can reach.
func hostile(text func() string) blastdoor.Run {
	run := sampleRun()
	run.Runbook, run.Detail = text(), text()
	run.Inputs = blastdoor.Params{text(): text(), "b": text()}
	for i := range run.Steps {
		s := &run.Steps[i]
		s.Step.ID, s.Step.Action, s.Detail, s.Output = text(), text(), text(), text()
	}
	s := &run.Steps[0]
	s.Approval.Approvers.Users = []string{text(), text()}
	s.Approval.Approvers.Groups = append(s.Approval.Approvers.Groups, text())
	s.Plan.Targets = []string{text(), text()}
	s.Plan.Changes = []blastdoor.Change{{Target: text(), Field: text(), Before: text(), After: text()}}
	s.Plan.Radius = blastdoor.Radius{Direct: []string{text()}, Dependents: []string{text(), text()}, Downstream: []string{text()},
		Hosts: []string{text()}, Protected: []string{text()}, Unknown: []string{text()}}
	s.Verdict.Reasons = []blastdoor.Reason{{Code: blastdoor.ReasonCode(text()), Text: text()}}
	run.BreakGlass = text()
	s.Verdict.Reasons = append(s.Verdict.Reasons, blastdoor.Reason{Code: blastdoor.BreakGlass, Text: text()})
	s.Receipt = &blastdoor.Receipt{Effect: text(), Summary: text(), Key: text()}
	return run
}

// render makes every message that a run can become.
func renderAll(run *blastdoor.Run) map[string]func() (Message, error) {
	id := run.Steps[0].Step.ID
	preview := blastdoor.Preview{Runbook: run.Runbook, Policy: run.Detail, Steps: []blastdoor.StepPreview{{Step: run.Steps[0].Step,
		Plan: *run.Steps[0].Plan, Hash: sampleHash, Verdict: *run.Steps[0].Verdict}}}
	book := blastdoor.Runbook{Name: run.Runbook, Description: run.Detail, Inputs: []blastdoor.Input{{Name: id, Type: blastdoor.EnumInput,
		Description: run.Detail, Options: []string{id, run.Detail}, Default: run.Detail}}}
	return map[string]func() (Message, error){
		"run card":     func() (Message, error) { return runCard(run) },
		"dry run card": func() (Message, error) { return dryRunCard(run, id, 1) },
		"superseded":   func() (Message, error) { return dryRunCard(run, id, 0) },
		"radius list":  func() (Message, error) { return radiusList(run, id, 1) },
		"outcome":      func() (Message, error) { return outcomeNote(run) },
		"status":       func() (Message, error) { return statusReply(run) },
		"preview":      func() (Message, error) { return previewReply(preview) },
		"list":         func() (Message, error) { return listReply([]blastdoor.Runbook{book}) },
		"runs": func() (Message, error) {
			return runsReply(run.Detail, []blastdoor.RunSummary{{ID: id, Runbook: run.Runbook, Requester: run.Detail, Status: run.Detail}}, SocketStatus{})
		},
		"notice": func() (Message, error) {
			return noticeMessage(blastdoor.Notice{Code: run.Detail, RunID: id, Detail: run.Detail})
		},
		"error": func() (Message, error) {
			return errorReply(&blastdoor.Error{Code: blastdoor.Code(id), Msg: run.Detail, Want: run.Detail + " `" + run.Detail + "`"})
		},
	}
}

// token is a control sequence of mrkdwn. The only ones a card may hold are those
// that this package makes itself.
var token = regexp.MustCompile(`<[^>]*>`)
var ours = regexp.MustCompile(`^<(@U0ALICE|@U0BOB|#C0OPS|!subteam\^S0SRE|!date\^-?\d+\^\{date_short_pretty\} at \{time\}\|[0-9: UTC-]+)>$`)

// forged lists the control sequences in the mrkdwn of a message that are not ours,
// and lines that begin as one of ours would but come from foreign text.
func forged(m Message) []string {
	var out []string
	check := func(text string) {
		for _, tok := range token.FindAllString(text, -1) {
			if !ours.MatchString(tok) {
				out = append(out, tok)
			}
		}
	}
	check(m.Text)
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, item := range v {
				walk(item)
			}
		case map[string]any:
			if text, ok := v["text"].(string); ok && v["type"] == "mrkdwn" {
				check(text)
				for line := range strings.SplitSeq(text, "\n") {
					if strings.HasPrefix(line, "✅ Approved by somebody") {
						out = append(out, "a forged line")
					}
				}
			}
			for _, item := range v {
				walk(item)
			}
		}
	}
	var blocks any
	if err := json.Unmarshal(m.Blocks, &blocks); err != nil {
		return append(out, "no JSON: "+err.Error())
	}
	walk(blocks)
	return out
}

// TestForeignTextCannotForge puts hostile text into every field at once: every
// message still passes Slack's limits and holds no mention, link or line but ours.
func TestForeignTextCannotForge(t *testing.T) {
	for _, s := range nasty {
		run := hostile(func() string { return s })
		for name, render := range renderAll(&run) {
			m, err := render()
			require.NoError(t, err, "%s with %q", name, cut(s, 40))
			require.Empty(t, forged(m), "%s with %q", name, cut(s, 40))
		}
	}
	bad, err := compose(markup("hi "+nasty[0]), []block{section(markup(nasty[3])), section(markup(nasty[8]))})
	require.NoError(t, err)
	require.Len(t, forged(bad), 3, "the check must see what was not neutralised") // negative control
}

func TestForeignTextCannotForgeProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.OneOf(rapid.SampledFrom(nasty), rapid.String(), rapid.StringN(0, 300, 3000))
		run := hostile(func() string { return part.Draw(t, "text") })
		run.Steps[0].Status = rapid.SampledFrom(blastdoor.StepStatuses()).Draw(t, "status")
		run.Outcome = rapid.SampledFrom(append(blastdoor.RunOutcomes(), "")).Draw(t, "outcome")
		for name, render := range renderAll(&run) {
			m, err := render()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if bad := forged(m); len(bad) > 0 {
				t.Fatalf("%s: %q", name, bad)
			}
		}
	})
}

// TestManyStepsRender: the longest run still fits a message.
func TestManyStepsRender(t *testing.T) {
	run := sampleRun()
	for i := range 200 {
		s := run.Steps[0]
		s.Step.ID = fmt.Sprintf("step-%d", i)
		run.Steps = append(run.Steps, s)
	}
	for name, render := range renderAll(&run) {
		_, err := render()
		require.NoError(t, err, name)
	}
	require.NotEmpty(t, slacksim.Message{Blocks: must(t)(dryRunCard(&run, "step-7", 1)).Blocks}.Buttons())
}

func must(t *testing.T) func(Message, error) Message {
	return func(m Message, err error) Message {
		t.Helper()
		require.NoError(t, err)
		return m
	}
}
