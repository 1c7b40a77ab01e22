// Package blastdoor holds the words that every part of Blast Door shares, as
// plain data with pure methods: runbooks, proposals, plans, graphs, radii,
// policies, verdicts, approvals, events, runs, deliveries and errors.
//
// The closed sets (event kinds, reason codes, refusal codes, error codes,
// statuses) are declared here once. The package must not know of I/O, contexts,
// loggers, Slack, SQL or any environment: it imports the standard library only.
package blastdoor
