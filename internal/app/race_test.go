//go:build race

package app_test

import "time"

// ackLimit under the race detector is Slack's own: the detector makes everything
// several times slower.
const ackLimit = 3 * time.Second
