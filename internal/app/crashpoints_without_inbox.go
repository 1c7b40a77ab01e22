//go:build crashpoints && without_inbox

package app

import (
	"context"
	"errors"
	"sync"

	"blastdoor"
	"blastdoor/chat"
)

// weaken is a negative control: a request is acknowledged when it is in memory, and
// stored when its turn comes.
func weaken(_ context.Context, p *parts) error {
	p.inbox = &hastyInbox{Inbox: p.inbox}
	return nil
}

type hastyInbox struct {
	chat.Inbox

	mu      sync.Mutex
	waiting []blastdoor.InboxItem
}

func (i *hastyInbox) Accept(_ context.Context, item blastdoor.InboxItem) (bool, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.waiting = append(i.waiting, item)
	return true, nil
}

func (i *hastyInbox) PendingInbox(ctx context.Context) ([]blastdoor.InboxItem, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	var errs []error
	for _, item := range i.waiting {
		_, err := i.Inbox.Accept(ctx, item)
		errs = append(errs, err)
	}
	i.waiting = nil
	items, err := i.Inbox.PendingInbox(ctx)
	return items, errors.Join(append(errs, err)...)
}
