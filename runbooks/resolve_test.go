package runbooks_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"blastdoor"
	"blastdoor/runbooks"
)

func everything(t *testing.T) blastdoor.Runbook {
	t.Helper()
	data, err := os.ReadFile("testdata/everything.yaml")
	require.NoError(t, err)
	rb, problems := runbooks.LoadRunbook("everything.yaml", data, actions())
	require.Empty(t, problems)
	return rb
}

func TestResolve(t *testing.T) {
	rb := everything(t)
	inputs, steps, err := runbooks.Resolve(rb, map[string]string{"service": "db", "replicas": "7", "size": "large"})
	require.NoError(t, err)
	assert.Equal(t, blastdoor.Params{"service": "db", "replicas": 7, "careful": true, "size": "large"}, inputs)
	assert.Equal(t, blastdoor.Params{"service": "web-large"}, steps[1].Params, "put into a text, it is text")
	assert.Equal(t, blastdoor.Params{"service": "db", "replicas": 7}, steps[2].Params, "alone, it keeps its type")
	assert.Equal(t, []string{"restart", "look"}, steps[2].DependsOn)

	steps[2].Params["service"], steps[2].DependsOn[0] = "changed", "changed"
	assert.Equal(t, everything(t), rb, "the runbook is not touched")
}

func TestResolveOfARunbookWithoutInputs(t *testing.T) {
	rb := blastdoor.Runbook{Name: "fix", Steps: []blastdoor.Step{{ID: "list", Action: "list_services"}}}
	inputs, steps, err := runbooks.Resolve(rb, nil)
	require.NoError(t, err)
	assert.Nil(t, inputs)
	assert.Equal(t, rb.Steps, steps)
}

func TestResolveErrors(t *testing.T) {
	in := func(pairs ...string) map[string]string {
		m := map[string]string{"service": "db"}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return m
	}
	var golden strings.Builder
	for _, tt := range []struct {
		name  string
		typed map[string]string
		want  blastdoor.Code
	}{
		{"required input missing", nil, badParams},
		{"unknown input", in("replcas", "3"), noInput},
		{"unknown input unlike any", in("when", "now"), noInput},
		{"not a whole number", in("replicas", "two"), badParams},
		{"a fraction", in("replicas", "2.0"), badParams},
		{"a number with a plus", in("replicas", "+2"), badParams},
		{"a number with zeros in front", in("replicas", "002"), badParams},
		{"a number beyond the machine", in("replicas", "99999999999999999999"), badParams},
		{"an empty number", in("replicas", ""), badParams},
		{"too small", in("replicas", "0"), badParams},
		{"too large", in("replicas", "10"), badParams},
		{"neither true nor false", in("careful", "yes"), badParams},
		{"not an option", in("size", "lagre"), badParams},
		{"not an option by far", in("size", "gigantic"), badParams},
		{"a shell command", in("service", "web; rm -rf /"), badParams},
		{"a second line", in("service", "web\nx"), badParams},
		{"more than the pattern", in("service", "web1"), badParams},
		{"an empty text", in("service", ""), badParams},
		{"10,000 characters", in("service", strings.Repeat("a", 10_000)), badParams},
		{"not UTF-8", in("service", "\xff"), badParams},
		{"everything at once", map[string]string{"replicas": "x", "careful": "y", "sise": "large"}, noInput},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inputs, steps, err := runbooks.Resolve(everything(t), tt.typed)
			require.Error(t, err)
			assert.Equal(t, tt.want, blastdoor.CodeOf(err))
			assert.Nil(t, inputs)
			assert.Nil(t, steps)
			fmt.Fprintf(&golden, "# %s\n%v\n\n", tt.name, err)
		})
	}
	compareGolden(t, "testdata/resolve-errors.golden", golden.String())
}

// An input's value is data: it is not looked at for further placeholders.
func TestAValueCannotReferToAnotherInput(t *testing.T) {
	rb := blastdoor.Runbook{Name: "fix", Inputs: []blastdoor.Input{{Name: "a", Type: blastdoor.StringInput}, {Name: "b", Type: blastdoor.StringInput}},
		Steps: []blastdoor.Step{{ID: "s", Action: "x", Params: blastdoor.Params{"p": "${{ inputs.a }}", "q": "<${{ inputs.a }}>"}}}}
	_, steps, err := runbooks.Resolve(rb, map[string]string{"a": "${{ inputs.b }}", "b": "secret"})
	require.NoError(t, err)
	assert.Equal(t, blastdoor.Params{"p": "${{ inputs.b }}", "q": "<${{ inputs.b }}>"}, steps[0].Params)
}

// A runbook that did not come through the loader is not trusted either.
func TestResolveOfAStrangeRunbook(t *testing.T) {
	step := func(value string) blastdoor.Runbook {
		return blastdoor.Runbook{Steps: []blastdoor.Step{{ID: "s", Params: blastdoor.Params{"p": value}}}}
	}
	_, _, err := runbooks.Resolve(step("${{ inputs.ghost }}"), nil)
	assert.Equal(t, noInput, blastdoor.CodeOf(err))
	_, _, err = runbooks.Resolve(step("${{ secrets.token }}"), nil)
	assert.Equal(t, badParams, blastdoor.CodeOf(err))
	_, _, err = runbooks.Resolve(blastdoor.Runbook{Inputs: []blastdoor.Input{{Name: "a", Type: "file"}}}, map[string]string{"a": "x"})
	assert.Equal(t, badParams, blastdoor.CodeOf(err))
}

func TestWhateverIsTypedStaysWithinItsType(t *testing.T) {
	rb := everything(t)
	rapid.Check(t, func(t *rapid.T) {
		inputs, _, err := runbooks.Resolve(rb, map[string]string{
			"service":  rapid.StringMatching(`[a-z-]{0,25}|.{0,9}`).Draw(t, "service"),
			"replicas": rapid.StringMatching(`-?[0-9]{0,3}|.{0,4}`).Draw(t, "replicas"),
		})
		if err != nil {
			return
		}
		assert.Regexp(t, `\A[a-z-]{1,20}\z`, inputs["service"])
		assert.GreaterOrEqual(t, inputs["replicas"], 1)
		assert.LessOrEqual(t, inputs["replicas"], 9)
	})
}

func TestUsage(t *testing.T) {
	assert.Equal(t, "no inputs", runbooks.Usage(blastdoor.Runbook{}))
	assert.Equal(t, "service (text of the form [a-z-]+, required), replicas (a whole number from 1 to 9, default 2), "+
		"careful (true or false, default true), size (small or large, default small)", runbooks.Usage(everything(t)))
}
