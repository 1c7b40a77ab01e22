package store_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// victimVariable names the database that this process is to write to until it is
// killed; see TestKill.
const victimVariable = "STORE_TEST_VICTIM"

func TestMain(m *testing.M) {
	if path := os.Getenv(victimVariable); path != "" {
		if err := beVictim(path, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}
