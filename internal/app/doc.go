// Package app is the wiring: the only place where two adapters meet. The program
// and the evals start the bot through it. It decides nothing itself: it must not
// hold a rule of the engine, the verifier or the Slack edge.
package app
