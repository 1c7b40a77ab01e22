package chat

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"blastdoor"
)

func TestParseCommand(t *testing.T) {
	in := func(pairs ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return m
	}
	for _, tc := range []struct {
		name, text string
		want       command
	}{
		{"nothing is help", "  ", command{Verb: "help"}},
		{"help", "help me please", command{Verb: "help"}},
		{"capitals", "LIST", command{Verb: "list"}},
		{"run", "run drain-host-a", command{Verb: "run", Name: "drain-host-a", Inputs: in()}},
		{"inputs", "plan scale service=web replicas=3", command{Verb: "plan", Name: "scale", Inputs: in("service", "web", "replicas", "3")}},
		{"quotes", `run r reason="two words" x='it is'`, command{Verb: "run", Name: "r", Inputs: in("reason", "two words", "x", "it is")}},
		{"escapes in double quotes", `run r a="say \"hi\" \\ \n"`, command{Verb: "run", Name: "r", Inputs: in("a", `say "hi" \ \n`)}},
		{"smart quotes", "run r reason=“two words” b=‘x y’", command{Verb: "run", Name: "r", Inputs: in("reason", "two words", "b", "x y")}},
		{"apostrophe inside a word", "run r reason=don't", command{Verb: "run", Name: "r", Inputs: in("reason", "don't")}},
		{"no-break space and newline", "run\u00a0r\na=b", command{Verb: "run", Name: "r", Inputs: in("a", "b")}},
		{"em dash", "run r —host=web", command{Verb: "run", Name: "r", Inputs: in("host", "web")}},
		{"en dash in a name", "run drain–host–a", command{Verb: "run", Name: "drain-host-a", Inputs: in()}},
		{"hidden characters go", "run dra\u200bin\u202e a=b", command{Verb: "run", Name: "drain", Inputs: in("a", "b")}},
		{"mentions come as such", "run page who=<@U1|alice> in=<#C1|ops>", command{Verb: "run", Name: "page", Inputs: in("who", "<@U1|alice>", "in", "<#C1|ops>")}},
		{"a shell's words are data", `run drain-host host="web; rm -rf /"`, command{Verb: "run", Name: "drain-host", Inputs: in("host", "web; rm -rf /")}},
		{"so are its substitutions", "run r a=$(id) b=`id` c=a|b", command{Verb: "run", Name: "r", Inputs: in("a", "$(id)", "b", "`id`", "c", "a|b")}},
		{"an empty value", `run r a= b=""`, command{Verb: "run", Name: "r", Inputs: in("a", "", "b", "")}},
		{"equals in a value", "run r a=b=c", command{Verb: "run", Name: "r", Inputs: in("a", "b=c")}},
		{"breaking glass", `run r a=b break-glass="the db is on fire"`, command{Verb: "run", Name: "r", Inputs: in("a", "b"), BreakGlass: "the db is on fire"}},
		{"status", "status", command{Verb: "status"}},
		{"status of a run", "status `drain-host-a-1x`", command{Verb: "status", Name: "drain-host-a-1x"}},
		{"cancel", "cancel drain-host-a-1x", command{Verb: "cancel", Name: "drain-host-a-1x"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parseCommand(tc.text)
			require.NoError(t, err)
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestParseCommandRefuses(t *testing.T) {
	for _, tc := range []struct{ name, text, msg, want string }{
		{"a typo", "rum drain-host-a", `there is no command "rum"`, "did you mean `run`?"},
		{"a word far off", "frobnicate", `there is no command "frobnicate"`, "commands are help, list, plan, run, status, cancel"},
		{"no name", "run", "which runbook?", "use `run NAME [key=value …]`; `list` shows the names"},
		{"no run", "cancel", "which run?", "use `cancel RUN`; `status` shows the ids"},
		{"an input first", "run a=b", `the name of the runbook comes first, got "a=b"`, "use `run NAME [key=value …]`"},
		{"a bare word", "run r web", `expected key=value, got "web"`, "use `run NAME [key=value …]`; put quotes around a value with spaces"},
		{"glass without a reason", `run r break-glass="now"`, "breaking the glass needs a reason of at least 10 characters",
			`say why in a sentence: break-glass="the database is on fire"`},
		{"twice", "run r a=1 a=2", `input "a" is given twice`, "give each input once"},
		{"an open quote", `run r a="b c`, `a quote is not closed: "\"b c"`, "close it with the same quote"},
		{"text after a quote", `run r a="b"c`, `text follows a closing quote: "\"c"`, "put a space after the closing quote"},
		{"a long value", "run r a=" + strings.Repeat("x", 10_000), `a value of 10,000 characters is too long: "xxxxxxxxxxxxxxxxxxxx…"`, "at most 1,000 characters"},
		{"a long name", "run " + strings.Repeat("x", 10_000), `a value of 10,000 characters is too long: "xxxxxxxxxxxxxxxxxxxx…"`, "at most 1,000 characters"},
		{"many inputs", "run r" + strings.Repeat(" a=b", 51), "51 inputs are too many", "at most 50 inputs"},
		{"no id of a run", "status ../../etc", `"../../etc" is not the id of a run`, "`status` shows the ids"},
		{"two runs", "cancel a b", `one run at a time, got "b" as well`, "use `cancel RUN`"},
		{"list takes nothing", "list all", `"list" takes nothing`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := parseCommand(tc.text)
			usage, ok := errors.AsType[*blastdoor.Error](err)
			require.True(t, ok, "got %v", err)
			assert.Equal(t, blastdoor.ErrUsage, usage.Code)
			if tc.want != "" {
				assert.Equal(t, tc.msg, usage.Msg)
				assert.Equal(t, tc.want, usage.Want)
			}
		})
	}
}

func FuzzParseCommand(f *testing.F) {
	for _, s := range append([]string{`run r a="b c" d='e'`, "status x", "cancel run-1", "plan “x” —y=z", `run r a="\"`, "run r =", "run r a=\"b\"c"}, nasty...) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		cmd, err := parseCommand(text)
		if err != nil {
			usage, ok := errors.AsType[*blastdoor.Error](err)
			if !ok || usage.Code != blastdoor.ErrUsage || usage.Msg == "" {
				t.Fatalf("not a usage error: %v", err)
			}
			m, err := errorReply(usage)
			if err != nil || len(forged(m)) > 0 {
				t.Fatalf("the answer to %q: %v %v", text, err, forged(m))
			}
			return
		}
		if nearest(cmd.Verb, []string{cmd.Verb}) == "" && len(cmd.Verb) > 1 {
			t.Fatalf("verb %q", cmd.Verb)
		}
		for key, value := range cmd.Inputs {
			if len(key) > 64 || len([]rune(value)) > maxCommandValue || strings.ContainsAny(key+value, "\n\r\u202e\u200b") {
				t.Fatalf("input %q=%q", key, value)
			}
		}
	})
}
