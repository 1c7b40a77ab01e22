//go:build crashpoints && !without_keys && !without_intent && !without_inbox && !without_consumption && !without_history

package app

import "context"

// weaken breaks nothing: this is the bot itself. Each negative control has its own.
func weaken(context.Context, *parts) error { return nil }
