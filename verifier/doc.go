// Package verifier decides. Verify judges a plan under a policy, CheckApprover
// judges a click on an approval, and Reach computes who would feel a write.
//
// Everything here is total and pure: it never panics, the same input gives the
// same answer byte for byte, and whatever is missing or not understood denies.
// There are no options and no optional parts, so no wiring can weaken it. The
// package must not know of I/O, clocks, logs, Slack or any environment: time
// and identity are values that the caller looked up.
package verifier
