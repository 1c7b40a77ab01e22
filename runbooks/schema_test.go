package runbooks_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"blastdoor"
	"blastdoor/runbooks"
)

func open(t *testing.T, o runbooks.Options) *runbooks.Library {
	t.Helper()
	if o.Actions == nil {
		o.Actions = actions()
	}
	l, err := runbooks.Open(o)
	require.NoError(t, err)
	return l
}

func TestValidateParams(t *testing.T) {
	l := open(t, runbooks.Options{})
	byName := map[string]blastdoor.Action{}
	for _, a := range actions() {
		byName[a.Name] = a
	}
	var golden strings.Builder
	for _, tt := range []struct {
		name, action string
		params       blastdoor.Params
		valid        bool
	}{
		{"good", "scale_service", blastdoor.Params{"service": "db", "replicas": 4}, true},
		{"good after a trip through JSON", "scale_service", blastdoor.Params{"service": "db", "replicas": 4.0}, true},
		{"the least and the most", "scale_service", blastdoor.Params{"service": "db", "replicas": 50}, true},
		{"none needed", "list_services", nil, true},
		{"none given", "drain_host", nil, false},
		{"one too many", "list_services", blastdoor.Params{"zone": "a", "all": true}, false},
		{"a shell command", "drain_host", blastdoor.Params{"host": "web; rm -rf /"}, false},
		{"a newline at the end", "drain_host", blastdoor.Params{"host": "host-a\n"}, false},
		{"10,000 characters", "drain_host", blastdoor.Params{"host": strings.Repeat("a", 10_000)}, false},
		{"a number for a text", "drain_host", blastdoor.Params{"host": 7}, false},
		{"a text for a number", "scale_service", blastdoor.Params{"service": "db", "replicas": "4"}, false},
		{"nothing for a number", "scale_service", blastdoor.Params{"service": "db", "replicas": nil}, false},
		{"a fraction", "scale_service", blastdoor.Params{"service": "db", "replicas": 1.5}, false},
		{"everything wrong", "scale_service", blastdoor.Params{"service": "DB", "replicas": 51, "force": true}, false},
		{"not even JSON", "drain_host", blastdoor.Params{"host": make(chan int)}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := l.ValidateParams(byName[tt.action], tt.params)
			if tt.valid {
				require.NoError(t, err)
				return
			}
			require.Equal(t, badParams, blastdoor.CodeOf(err))
			fmt.Fprintf(&golden, "# %s\n%v\n\n", tt.name, err)
		})
	}
	compareGolden(t, "testdata/params-errors.golden", golden.String())
}

// An action brings its own schema; the library's copy is only a cache.
func TestValidateParamsUsesTheSchemaItIsGiven(t *testing.T) {
	l := open(t, runbooks.Options{})
	stricter := blastdoor.Action{Name: "drain_host", Schema: map[string]any{"type": "object",
		"properties": map[string]any{"host": map[string]any{"enum": []string{"host-x", "host-y"}}, "tags": map[string]any{"maxItems": 1},
			"grace": map[string]any{"exclusiveMinimum": 0}}}}
	assert.NoError(t, l.ValidateParams(stricter, blastdoor.Params{"host": "host-x"}))
	err := l.ValidateParams(stricter, blastdoor.Params{"host": "host-a", "tags": []string{"a", "b"}, "grace": 0})
	assert.EqualError(t, err, `params_invalid: drain_host: grace does not satisfy exclusiveMinimum of the action's schema; `+
		`host must be one of "host-x", "host-y", not "host-a"; tags does not satisfy maxItems of the action's schema (drain_host takes grace, host, tags)`)
}

// A schema can neither reach out to the network or the disk nor be broken unnoticed.
func TestSchemasAreSelfContained(t *testing.T) {
	for _, ref := range []string{"https://example.com/schema.json", "file:///etc/passwd", "#/nowhere"} {
		_, err := runbooks.Open(runbooks.Options{Actions: []blastdoor.Action{{Name: "bad", Schema: map[string]any{"$ref": ref}}}})
		assert.ErrorContains(t, err, "the schema of bad", ref)
	}
	_, problems := runbooks.LoadRunbook("x.yaml", nil, []blastdoor.Action{{Name: "bad", Schema: map[string]any{"type": 7}}})
	assert.Equal(t, one(badParams), codesOf(problems))
	l := open(t, runbooks.Options{})
	assert.Equal(t, badParams, blastdoor.CodeOf(l.ValidateParams(blastdoor.Action{Name: "bad", Schema: map[string]any{"type": 7}}, nil)))
}
