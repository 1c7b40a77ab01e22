package runbooks_test

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"blastdoor"
	"blastdoor/runbooks"
)

const (
	invalid   = blastdoor.ErrInvalidRunbook
	duplicate = blastdoor.ErrDuplicateID
	cycle     = blastdoor.ErrCycle
	noStep    = blastdoor.ErrUnknownDependency
	noAction  = blastdoor.ErrUnknownAction
	noInput   = blastdoor.ErrUnknownInput
	badParams = blastdoor.ErrParamsInvalid
)

type loadCase struct {
	name string
	yaml string
	want []blastdoor.Code
}

func one(codes ...blastdoor.Code) []blastdoor.Code { return codes }

// withSteps and withInputs are runbooks that are right but for what is put in.
func withSteps(steps string) string { return "name: fix\nsteps:\n" + steps }

func withInputs(inputs string) string {
	return "name: fix\ninputs:\n" + inputs + "steps:\n  - {id: list, action: list_services}\n"
}

func loadCases() []loadCase {
	return slices.Concat(fileCases(), inputCases(), stepCases(), paramCases())
}

func fileCases() []loadCase {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c <= 'i'; c++ {
		bomb += fmt.Sprintf("%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1)
	}
	return []loadCase{
		{"empty file", "", one(invalid)},
		{"only a comment", "# nothing\n", one(invalid)},
		{"only a document mark", "---\n", one(invalid)},
		{"a list", "- a\n- b\n", one(invalid)},
		{"a text", "restart web\n", one(invalid)},
		{"an empty mapping", "{}\n", one(invalid, invalid)},
		{"not UTF-8", "name: fix\nsteps: \xff\n", one(invalid)},
		{"a tab", "name: fix\nsteps:\n\t- id: list\n\t  action: list_services\n", one(invalid)},
		{"a tab inside, and something else wrong", "name: fix\ndescription: |\n  a\n  \tb\nsteps:\n  - id: list\n    action: list_services\nx: [\n", one(invalid)},
		{"tabs where YAML allows them", "name:\tfix\ndescription: |\n  a\n  \tb\nsteps:\n  - id: list\n    action: list\tservices\n", one(noAction)},
		{"a quote that never ends", "name: \"fix\nsteps: []\n", one(invalid)},
		{"a bracket that never ends", "name: fix\nsteps: [\n", one(invalid)},
		{"two documents", "name: fix\n---\nname: fix\n", one(invalid)},
		{"a broken second document", "name: fix\n---\n{\n", one(invalid)},
		{"an anchor", "name: &n fix\nsteps: []\n", one(invalid)},
		{"an alias", "name: fix\nsteps: [*x]\n", one(invalid)},
		{"an alias bomb", bomb, one(invalid)},
		{"a tag", "name: !!binary Zml4\nsteps: []\n", one(invalid)},
		{"a merge key", "name: fix\n<<: {steps: []}\n", one(invalid, invalid)},
		{"10 MB", "name: fix\n" + strings.Repeat("# padding\n", 1<<20), one(invalid)},
		{"nested deeply", "name: fix\nsteps: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000), one(invalid)},
		{"nested far too deeply", "name: fix\nsteps: " + strings.Repeat("[", 200_000), one(invalid)},
		{"unknown keys", "nmae: fix\nname: fix\nsteps: [{id: list, action: list_services}]\nowner: bob\n", one(invalid, invalid)},
		{"a key given twice", "name: fix\nname: mend\nsteps: [{id: list, action: list_services}]\n", one(invalid)},
		{"a key that is a list", "[a]: b\nname: fix\nsteps: [{id: list, action: list_services}]\n", one(invalid)},
		{"name is a number", "name: 123\nsteps: [{id: list, action: list_services}]\n", one(invalid)},
		{"name is a path", "name: ../etc\nsteps: [{id: list, action: list_services}]\n", one(invalid)},
		{"name is empty", "name:\nsteps: [{id: list, action: list_services}]\n", one(invalid)},
		{"description is a list", "name: fix\ndescription: [a]\nsteps: [{id: list, action: list_services}]\n", one(invalid)},
		{"description is too long", "name: fix\ndescription: " + strings.Repeat("x", 501) + "\nsteps: [{id: list, action: list_services}]\n", one(invalid)},
		{"a thousand and one entries", "name: fix\nsteps: [" + strings.Repeat("a,", 1001) + "]\n", one(invalid)},
		{"no steps", "name: fix\nsteps: []\n", one(invalid)},
		{"steps are a mapping", "name: fix\nsteps: {id: list}\n", one(invalid)},
		{"too many steps", withSteps(strings.Repeat("  - {id: list, action: list_services}\n", 101)), one(invalid)},
		{"too many inputs", withInputs(manyInputs(51)), one(invalid)},
	}
}

func manyInputs(n int) (out string) {
	for i := range n {
		out += fmt.Sprintf("  x%d: {type: string}\n", i)
	}
	return out
}

func inputCases() []loadCase {
	return []loadCase{
		{"inputs are a list", withInputs("  - host\n"), one(invalid)},
		{"input is a text", withInputs("  host: string\n"), one(invalid)},
		{"input name", withInputs("  Host Name: {type: string}\n"), one(invalid)},
		{"input given twice", withInputs("  host: {type: string}\n  host: {type: string}\n"), one(invalid)},
		{"input without a type", withInputs("  host: {}\n"), one(invalid)},
		{"input of an unknown type", withInputs("  n: {type: integre}\n"), one(invalid)},
		{"input of a far type", withInputs("  n: {type: list}\n"), one(invalid)},
		{"key of another type", withInputs("  n: {type: string, min: 1}\n  m: {type: integer, options: [a]}\n"), one(invalid, invalid)},
		{"unknown key", withInputs("  n: {type: integer, maximum: 3}\n"), one(invalid)},
		{"min above max", withInputs("  n: {type: integer, min: 3, max: 2}\n"), one(invalid)},
		{"min is a text", withInputs("  n: {type: integer, min: low}\n"), one(invalid)},
		{"enum without options", withInputs("  n: {type: enum}\n"), one(invalid)},
		{"option given twice", withInputs("  n: {type: enum, options: [a, a]}\n"), one(invalid)},
		{"option is a number", withInputs("  n: {type: enum, options: [a, 1]}\n"), one(invalid)},
		{"pattern is wrong", withInputs("  n: {type: string, pattern: \"[\"}\n"), one(invalid)},
		{"pattern with a stray parenthesis", withInputs("  n: {type: string, pattern: \"a)|(b\"}\n"), one(invalid)},
		{"pattern that swallows what follows", withInputs("  n: {type: string, pattern: '\\Qab'}\n"), one(invalid)},
		{"max_length is zero", withInputs("  n: {type: string, max_length: 0}\n"), one(invalid)},
		{"default below min", withInputs("  n: {type: integer, min: 1, default: 0}\n"), one(invalid)},
		{"default above max", withInputs("  n: {type: integer, max: 1, default: 2}\n"), one(invalid)},
		{"default is octal", withInputs("  n: {type: integer, default: 010}\n"), one(invalid)},
		{"default is beyond exact numbers", withInputs("  n: {type: integer, default: 9007199254740992}\n"), one(invalid)},
		{"default is a text, not a number", withInputs("  n: {type: integer, default: \"1\"}\n"), one(invalid)},
		{"default is a number, not a text", withInputs("  n: {type: string, default: 1}\n"), one(invalid)},
		{"default is no truth value", withInputs("  n: {type: boolean, default: \"yes\"}\n"), one(invalid)},
		{"default is no option", withInputs("  n: {type: enum, options: [small, large], default: smal}\n"), one(invalid)},
		{"default does not match", withInputs("  n: {type: string, pattern: \"[a-z]+\", default: web1}\n"), one(invalid)},
		{"default is empty", withInputs("  n: {type: string, default: }\n"), one(invalid)},
		{"default is a list", withInputs("  n: {type: string, default: [a]}\n"), one(invalid)},
	}
}

func stepCases() []loadCase {
	return []loadCase{
		{"step is a text", withSteps("  - restart\n"), one(invalid)},
		{"step without id", withSteps("  - {action: list_services}\n"), one(invalid)},
		{"step without action", withSteps("  - {id: list}\n"), one(invalid)},
		{"step with an unknown key", withSteps("  - {id: list, action: list_services, depend_on: []}\n"), one(invalid)},
		{"id in capitals", withSteps("  - {id: List, action: list_services}\n"), one(invalid)},
		{"id is too long", withSteps("  - {id: " + strings.Repeat("a", 41) + ", action: list_services}\n"), one(invalid)},
		{"duplicate id", withSteps("  - {id: list, action: list_services}\n  - {id: list, action: list_services}\n"), one(duplicate)},
		{"unknown dependency", withSteps("  - {id: list, action: list_services}\n  - {id: again, action: list_services, depends_on: [lits]}\n"), one(noStep)},
		{"dependency on nothing near", withSteps("  - {id: list, action: list_services, depends_on: [boot]}\n"), one(noStep)},
		{"dependency given twice", withSteps("  - {id: a, action: list_services}\n  - {id: b, action: list_services, depends_on: [a, a]}\n"), one(invalid)},
		{"dependency on itself", withSteps("  - {id: list, action: list_services, depends_on: [list]}\n"), one(cycle)},
		{"cycle", withSteps("  - {id: a, action: list_services, depends_on: [d]}\n  - {id: b, action: list_services, depends_on: [a]}\n" +
			"  - {id: c, action: list_services}\n  - {id: d, action: list_services, depends_on: [c, b]}\n"), one(cycle)},
		{"action misspelt", withSteps("  - {id: r, action: restart_servce, params: {service: web}}\n"), one(noAction)},
		{"action unlike any", withSteps("  - {id: r, action: reboot, params: {}}\n"), one(noAction)},
		{"action is a list", withSteps("  - {id: r, action: [restart_service]}\n"), one(invalid)},
		{"many problems at once, in the order of their lines", "name: Fix\nsteps:\n  - {id: a, action: reboot}\n  - {id: a, action: list_services}\n" +
			"  - {id: b, action: scale_service, params: {service: db, replicas: -1}, depends_on: [c]}\nowner: bob\n",
			one(invalid, noAction, duplicate, badParams, invalid)},
	}
}

func paramCases() []loadCase {
	step := func(action, params string) string {
		return withSteps("  - id: do\n    action: " + action + "\n    params:\n" + params)
	}
	return []loadCase{
		{"parameter missing", withSteps("  - {id: r, action: restart_service}\n"), one(badParams)},
		{"parameters missing", step("scale_service", "      {}\n"), one(badParams)},
		{"parameter unknown", step("restart_service", "      service: web\n      force: true\n"), one(badParams)},
		{"parameter of a wrong type", step("scale_service", "      service: db\n      replicas: two\n"), one(badParams)},
		{"parameter is not whole", step("scale_service", "      service: db\n      replicas: 1.5\n"), one(badParams)},
		{"parameter too small", step("scale_service", "      service: db\n      replicas: -1\n"), one(badParams)},
		{"parameter too large", step("scale_service", "      service: db\n      replicas: 51\n"), one(badParams)},
		{"parameter with a wrong form", step("drain_host", "      host: \"web; rm -rf /\"\n"), one(badParams)},
		{"two parameters wrong", step("scale_service", "      service: DB\n      replicas: 51\n"), one(badParams, badParams)},
		{"parameter is a list", step("restart_service", "      service: [web]\n"), one(badParams)},
		{"parameter is empty", step("restart_service", "      service:\n"), one(badParams)},
		{"parameter is not a number", step("scale_service", "      service: db\n      replicas: .nan\n"), one(badParams)},
		{"parameter is a date", step("restart_service", "      service: 2026-01-01\n"), one(badParams)},
		{"parameter is too long", step("drain_host", "      host: "+strings.Repeat("a", 2001)+"\n"), one(badParams)},
		{"parameters are a list", step("restart_service", "      - web\n"), one(invalid)},
		{"unknown input", "name: fix\ninputs:\n  service: {type: string}\n" + strings.TrimPrefix(step("restart_service", "      service: ${{ inputs.servce }}\n"), "name: fix\n"), one(noInput)},
		{"unknown input where none is declared", step("restart_service", "      service: ${{ inputs.service }}\n"), one(noInput)},
		{"an input that is wrong itself is not unknown", "name: fix\ninputs:\n  service: {type: strnig}\n" +
			strings.TrimPrefix(step("restart_service", "      service: ${{ inputs.service }}\n"), "name: fix\n"), one(invalid)},
		{"an expression that is no input", step("restart_service", "      service: ${{ env.HOME }}\n"), one(badParams)},
		{"an expression that never ends", step("restart_service", "      service: ${{ inputs.service\n"), one(badParams)},
		{"an expression with a filter", step("restart_service", "      service: ${{ inputs.service | upper }}\n"), one(badParams)},
		{"a default that the action refuses", "name: fix\ninputs:\n  n: {type: integer, default: 99}\n" +
			strings.TrimPrefix(step("scale_service", "      service: db\n      replicas: ${{ inputs.n }}\n"), "name: fix\n"), one(badParams)},
		{"a text that an input is put into, refused with its default", "name: fix\ninputs:\n  n: {type: string, default: B}\n" +
			strings.TrimPrefix(step("drain_host", "      host: host-${{ inputs.n }}\n"), "name: fix\n"), one(badParams)},
		{"what does not depend on the input is checked", "name: fix\ninputs:\n  n: {type: integer}\n" +
			strings.TrimPrefix(step("scale_service", "      service: DB\n      replicas: ${{ inputs.n }}\n      force: ${{ inputs.n }}\n"), "name: fix\n"), one(badParams, badParams)},
	}
}

func TestLoadErrors(t *testing.T) {
	var golden strings.Builder
	for _, c := range loadCases() {
		t.Run(c.name, func(t *testing.T) {
			rb, problems := runbooks.LoadRunbook("fix.yaml", []byte(c.yaml), actions())
			assert.Equal(t, c.want, codesOf(problems))
			assert.Empty(t, rb.Steps, "half a runbook has no steps")
			for _, p := range problems {
				assert.Regexp(t, `^fix\.yaml:\d+`, p.Where)
				assert.NotEmpty(t, p.Msg)
			}
			told(&golden, c.name, problems)
		})
	}
	compareGolden(t, "testdata/runbook-errors.golden", golden.String())
}

func TestEveryLoadErrorHasACase(t *testing.T) {
	produced := map[blastdoor.Code]bool{}
	for _, c := range loadCases() {
		for _, code := range c.want {
			produced[code] = true
		}
	}
	for _, code := range blastdoor.LoadErrors() {
		assert.True(t, produced[code], "no case produces %s", code)
	}
	assert.Len(t, produced, len(blastdoor.LoadErrors()), "codes outside the closed set")
}

// Each of these is refused for what it is, before it costs anything.
func TestHostileFilesAreRefusedAtOnce(t *testing.T) {
	const small, large = 50 * time.Millisecond, 2 * time.Second // large files are parsed before they are refused
	var cases []hostileFile
	for _, c := range fileCases() {
		if c.name == "10 MB" || c.name == "an alias bomb" {
			cases = append(cases, hostileFile{c.name, c.yaml, small})
		}
	}
	require.Len(t, cases, 2)
	numbered := func(format string, n int) (out string) {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	var knot strings.Builder
	for i := range 100 {
		fmt.Fprintf(&knot, "  - {id: step-%d, action: nothing-%d, depends_on: [%s]}\n", i, i, strings.TrimSuffix(numbered("missing-step-%d, ", 100), ", "))
	}
	cases = append(cases,
		hostileFile{"brackets", strings.Repeat("[", 250_000), large},
		hostileFile{"braces", strings.Repeat("{a: ", 60_000), large},
		hostileFile{"keys", numbered("key-%d: x\n", 15_000), large},
		hostileFile{"a list of names", withSteps("  - {id: a, action: x, depends_on: [" + numbered("a%d,", 30_000) + "]}\n"), large},
		hostileFile{"parameters", withSteps("  - id: a\n    action: drain_host\n    params:\n" + numbered("      p%d: x\n", 999)), large},
		hostileFile{"a knot of steps", withSteps(knot.String()), large},
		hostileFile{"placeholders", withSteps("  - {id: a, action: drain_host, params: {host: \"" + numbered("${{ inputs.x%d }}", 10_000) + "\"}}\n"), large},
		hostileFile{"a pattern", withInputs("  n: {type: string, pattern: \"" + strings.Repeat("(a{1,1000}){1,1000}", 1000) + "\"}\n"), large},
	)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			start := time.Now()
			_, problems := runbooks.LoadRunbook("fix.yaml", []byte(c.yaml), actions())
			_, policyProblems := runbooks.LoadPolicy("policy.yaml", []byte(c.yaml))
			assert.Less(t, time.Since(start), c.within)
			assert.NotEmpty(t, problems)
			assert.NotEmpty(t, policyProblems)
		})
	}
}

type hostileFile struct {
	name, yaml string
	within     time.Duration
}

func TestProblemsOfOneFileAreCut(t *testing.T) {
	var file strings.Builder
	file.WriteString("name: fix\nsteps: [{id: list, action: list_services}]\n")
	for i := range 900 {
		fmt.Fprintf(&file, "key%d: x\n", i)
	}
	_, problems := runbooks.LoadRunbook("fix.yaml", []byte(file.String()), actions())
	require.Len(t, problems, 101)
	assert.Equal(t, "800 more problems", problems[100].Msg)
}

func TestLoadRunbook(t *testing.T) {
	data, err := os.ReadFile("testdata/everything.yaml")
	require.NoError(t, err)
	rb, problems := runbooks.LoadRunbook("everything.yaml", data, actions())
	require.Empty(t, problems)
	one, nine := 1, 9
	assert.Equal(t, blastdoor.Runbook{
		Name: "everything", Description: "Every key that a runbook may have.", File: "everything.yaml",
		Inputs: []blastdoor.Input{
			{Name: "service", Type: blastdoor.StringInput, Description: "the service", Pattern: "[a-z-]+", MaxLength: 20},
			{Name: "replicas", Type: blastdoor.IntegerInput, Default: 2, Min: &one, Max: &nine},
			{Name: "careful", Type: blastdoor.BooleanInput, Default: true},
			{Name: "size", Type: blastdoor.EnumInput, Default: "small", Options: []string{"small", "large"}},
		},
		Steps: []blastdoor.Step{ // sorted: the file has them the other way round
			{ID: "look", Action: "list_services", Line: 28},
			{ID: "restart", Action: "restart_service", Line: 24, DependsOn: []string{"look"},
				Params: blastdoor.Params{"service": "web-${{ inputs.size }}"}},
			{ID: "scale", Action: "scale_service", Line: 17, Description: "Scale it.", DependsOn: []string{"restart", "look"},
				Params: blastdoor.Params{"service": "${{ inputs.service }}", "replicas": "${{inputs.replicas}}"}},
			{ID: "last", Action: "list_services", Line: 30},
		},
	}, rb)
}

func TestShippedRunbooksLoad(t *testing.T) {
	files, err := fs.Glob(runbooks.Shipped(), "*.yaml")
	require.NoError(t, err)
	var names []string
	for _, file := range files {
		if strings.HasPrefix(file, "policy") {
			continue
		}
		data, err := fs.ReadFile(runbooks.Shipped(), file)
		require.NoError(t, err)
		rb, problems := runbooks.LoadRunbook(file, data, actions())
		assert.Empty(t, problems, file)
		assert.Equal(t, file, rb.Name+".yaml")
		assert.NotEmpty(t, rb.Description)
		names = append(names, rb.Name)
	}
	assert.ElementsMatch(t, []string{"drain-host", "drain-host-a", "restart-cache", "safe-restart", "scale-auth", "scale-db-to-zero"}, names)
}

func FuzzLoadRunbook(f *testing.F) {
	for _, c := range loadCases() {
		if len(c.yaml) < 4096 {
			f.Add([]byte(c.yaml))
		}
	}
	files, err := fs.Glob(runbooks.Shipped(), "*.yaml")
	require.NoError(f, err)
	for _, file := range files {
		data, err := fs.ReadFile(runbooks.Shipped(), file)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		rb, problems := runbooks.LoadRunbook("fuzz.yaml", data, actions())
		_, policyProblems := runbooks.LoadPolicy("fuzz.yaml", data)
		assert.False(t, len(problems) == 0 && len(policyProblems) == 0, "no file is both a runbook and a policy")
		if len(problems) > 0 {
			assert.Empty(t, rb.Steps)
			return
		}
		assert.NotEmpty(t, rb.Steps)
		seen := map[string]bool{}
		for _, s := range rb.Steps {
			for _, dep := range s.DependsOn {
				assert.True(t, seen[dep], "%s comes before %s", dep, s.ID)
			}
			assert.False(t, seen[s.ID])
			seen[s.ID] = true
		}
		typed := map[string]string{}
		for _, in := range rb.Inputs {
			if in.Default == nil {
				typed[in.Name] = "1"
			}
		}
		if _, steps, err := runbooks.Resolve(rb, typed); err == nil {
			assert.Len(t, steps, len(rb.Steps))
		}
	})
}
