// Package chat is the Slack edge: it authenticates and parses what comes in over
// Socket Mode, hands it to an operator, renders runs as Block Kit and delivers
// the outbox effectively once.
//
// An envelope is stored before it is acknowledged; a card is rendered from the
// store, never from the echo of a message; safety never rests on what a card
// shows. The package must not know of environments, the verifier, SQL or files:
// whatever it needs of them it asks through the small ports in ports.go.
package chat
