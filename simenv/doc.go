// Package simenv is a simulated infrastructure in one SQLite file: services and
// hosts, dependencies, metrics, an append-only ledger of effects, and faults that
// can be scripted. Several processes may open the same file at once, and it
// survives a kill at any moment: a write and its ledger row are one transaction.
//
// Env satisfies the engine's Environment port by shape. The package must not know
// of the engine, of the verifier, of Slack, of runbooks or of approvals.
package simenv
