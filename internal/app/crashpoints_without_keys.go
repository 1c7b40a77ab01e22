//go:build crashpoints && without_keys

package app

import (
	"context"

	"blastdoor/simenv"
)

// weaken is a negative control: an infrastructure that knows neither idempotency
// keys nor versions.
func weaken(ctx context.Context, p *parts) error {
	return p.environment.(*simenv.Env).AddFault(ctx, simenv.Fault{Kind: simenv.IgnoreKeys})
}
