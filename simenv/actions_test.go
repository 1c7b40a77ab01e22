package simenv_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"blastdoor"
	"blastdoor/simenv"
)

func TestActionsTable(t *testing.T) {
	t.Parallel()
	kinds := make(map[string]blastdoor.ActionKind)
	for _, a := range simenv.Actions() {
		kinds[a.Name] = a.Kind
	}
	assert.Equal(t, map[string]blastdoor.ActionKind{
		"list_services": blastdoor.Read, "get_service_status": blastdoor.Read, "get_metrics": blastdoor.Read,
		"restart_service": blastdoor.Write, "rollout_restart": blastdoor.Write, "scale_service": blastdoor.Write,
		"drain_host": blastdoor.Write}, kinds)
}

func TestActionsReturnsCopies(t *testing.T) {
	t.Parallel()
	simenv.Actions()[0].Schema["additionalProperties"] = true
	assert.Equal(t, false, simenv.Actions()[0].Schema["additionalProperties"])
}

// TestSchemasAreDecodedJSON: a schema survives JSON unchanged, so that no part of
// it has a type that only Go knows.
func TestSchemasAreDecodedJSON(t *testing.T) {
	t.Parallel()
	for _, a := range simenv.Actions() {
		text, err := json.Marshal(a.Schema)
		require.NoError(t, err)
		var back map[string]any
		require.NoError(t, json.Unmarshal(text, &back))
		assert.Equal(t, back, a.Schema, a.Name)
	}
}

// TestSchemasAgreeWithTheEnvironment: what a schema takes, a call takes, and what
// it refuses, a call refuses. (A taken call may still find nothing to do.)
func TestSchemasAgreeWithTheEnvironment(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	values := []any{"cache", "host-a", "Cache", "-a", "a\n", "", "a;b", "web; rm -rf /", 7.0, 7.5, 0.0, 50.0, 51.0, -1.0, true, nil, math.MaxFloat64, []any{"cache"}}
	taken, refusedCount := 0, 0
	for _, a := range simenv.Actions() {
		schema := compile(t, a)
		try := func(params blastdoor.Params) {
			var err error
			if a.Kind == blastdoor.Read {
				_, err = env.Observe(t.Context(), a.Name, params)
			} else {
				_, err = env.DryRun(t.Context(), a.Name, params)
			}
			if schema.Validate(map[string]any(params)) == nil {
				taken++
				assert.False(t, blastdoor.ErrParamsInvalid.Is(err), "%s %v: %v", a.Name, params, err)
			} else {
				refusedCount++
				assert.True(t, blastdoor.ErrParamsInvalid.Is(err), "%s %v: %v", a.Name, params, err)
			}
		}
		try(blastdoor.Params{})
		for _, v := range values {
			try(blastdoor.Params{"service": v})
			try(blastdoor.Params{"host": v})
			try(blastdoor.Params{"service": "web", "replicas": v})
			try(blastdoor.Params{"service": v, "replicas": 7.0})
			try(blastdoor.Params{"host": "host-a", "force": v})
		}
	}
	assert.Greater(t, taken, 10)
	assert.Greater(t, refusedCount, 200)
}

func compile(t *testing.T, a blastdoor.Action) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("mem:///schema.json", a.Schema))
	schema, err := c.Compile("mem:///schema.json")
	require.NoError(t, err)
	return schema
}

func TestNumbersOfAnyOrigin(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	for _, n := range []any{6, int64(6), 6.0, json.Number("6"), json.Number("6.0")} {
		r := rehearse(t, env, "scale_service", blastdoor.Params{"service": "web", "replicas": n})
		assert.Equal(t, []blastdoor.Change{{Target: "web", Field: blastdoor.FieldReplicas, Before: "4", After: "6"}}, r.Changes)
	}
}
