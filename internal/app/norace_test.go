//go:build !race

package app_test

import "time"

// ackLimit is what 99 of 100 acknowledgements must stay below; Slack's limit is 3 s.
const ackLimit = time.Second
