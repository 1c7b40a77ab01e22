// Package engine runs runbooks: pure Decide, Evolve and Next over a run's events,
// and a thin Runner that performs the effect that Next calls for and commits the
// outcome. Normal running and recovery are the same loop. It calls the verifier
// directly, so that no wiring can weaken it. It must not know of Slack, SQL, YAML
// or any particular environment.
package engine
