//go:build crashpoints && without_history

package app

import (
	"context"
	"time"

	"blastdoor"
	"blastdoor/chat"
)

// weaken is a negative control: a message of unknown outcome is posted again without
// looking for it in the channel.
func weaken(_ context.Context, p *parts) error {
	p.outbox = carefreeOutbox{p.outbox}
	return nil
}

type carefreeOutbox struct{ chat.Outbox }

func (o carefreeOutbox) PendingDeliveries(ctx context.Context, until time.Time) ([]blastdoor.OutboxRow, error) {
	rows, err := o.Outbox.PendingDeliveries(ctx, until)
	for i := range rows {
		rows[i].AttemptAt = time.Time{}
	}
	return rows, err
}
