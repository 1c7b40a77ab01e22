package simenv

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// WriterSettings reads back the settings of the connection that writes.
func WriterSettings(t *testing.T, e *Env) map[string]int {
	t.Helper()
	out := make(map[string]int)
	for _, name := range []string{"synchronous", "foreign_keys", "busy_timeout"} {
		var value int
		require.NoError(t, e.writer.QueryRowContext(t.Context(), "PRAGMA "+name).Scan(&value))
		out[name] = value
	}
	return out
}
