package runbooks_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"blastdoor"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const namePattern = `^[a-z0-9][a-z0-9-]{0,62}$`

// actions is a small environment: what the shipped runbooks need.
func actions() []blastdoor.Action {
	name := map[string]any{"type": "string", "pattern": namePattern}
	action := func(name string, kind blastdoor.ActionKind, properties map[string]any, required ...any) blastdoor.Action {
		return blastdoor.Action{Name: name, Kind: kind, Schema: map[string]any{
			"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
			"properties": properties, "required": append([]any{}, required...), "additionalProperties": false}}
	}
	service := map[string]any{"service": name}
	return []blastdoor.Action{
		action("list_services", blastdoor.Read, map[string]any{}),
		action("get_service_status", blastdoor.Read, service, "service"),
		action("get_metrics", blastdoor.Read, service, "service"),
		action("restart_service", blastdoor.Write, service, "service"),
		action("rollout_restart", blastdoor.Write, service, "service"),
		action("scale_service", blastdoor.Write, map[string]any{"service": name,
			"replicas": map[string]any{"type": "integer", "minimum": 0, "maximum": 50}}, "service", "replicas"),
		action("drain_host", blastdoor.Write, map[string]any{"host": name}, "host"),
	}
}

func compareGolden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// told prints what a person would read.
func told(golden *strings.Builder, name string, problems []*blastdoor.Error) {
	fmt.Fprintf(golden, "# %s\n", name)
	for _, p := range problems {
		fmt.Fprintf(golden, "%v\n", p)
	}
	golden.WriteString("\n")
}

func codesOf(problems []*blastdoor.Error) []blastdoor.Code {
	var out []blastdoor.Code
	for _, p := range problems {
		out = append(out, p.Code)
	}
	return out
}
