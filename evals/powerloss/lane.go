package powerloss

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"

	"blastdoor/evals/powerloss/powerfs"
	"blastdoor/evals/powerloss/promise"
)

// variant is what is tried: a child, a disk, and what survives a cut.
type variant struct {
	binary   string
	lying    bool // the disk answers a sync without doing it
	policies []powerfs.Policy
	evidence string // directory for what is found wrong; empty: nothing is kept, for it is a control
}

// lane is a place where one child lives after the other, each on what its
// predecessor's power cut has left.
type lane struct {
	variant
	number int
	dir    string // where its disks are mounted
	forks  *forks
	base   powerfs.Image // a deployment that was just made
	draws  *rand.Rand

	image powerfs.Image
	book  promise.Book
	lives int
	cuts  int // since the lane began anew
}

// anew begins with a new deployment, to which nothing was promised.
func (l *lane) anew() {
	l.image, l.book, l.cuts = l.base, promise.Book{}, 0
}

// cut is when the power fails in a life.
type cut struct {
	mode    string // of the child
	clients int
	at      int  // during this operation; 0: never
	early   bool // counted from the start
}

func (c cut) String() string {
	from := "of its work"
	if c.early {
		from = "after the start"
	}
	return fmt.Sprintf("cut during operation %d %s, %d clients", c.at, from, c.clients)
}

// onlyLook starts a child that stops as soon as nothing is left to be finished.
func onlyLook() *cut { return &cut{mode: "look", clients: 1} }

// live lets a child live on what is there, until the power fails or it is done. It
// counts in t what the child has found of the cut before, which is called after. What
// survives is drawn later.
func (l *lane) live(ctx context.Context, c *cut, t *tally, after string) (outcome, *powerfs.Disk, error) {
	l.lives++
	disk := powerfs.New(l.image, powerfs.Options{LyingSync: l.lying, Journal: l.draws.IntN(2) == 0})
	child := life{binary: l.binary, dir: l.dir, mode: c.mode, name: fmt.Sprintf("%d-%d", l.number, l.lives), clients: c.clients,
		disk: disk, cutAt: c.at, early: c.early}
	before := l.book.Clone()
	o, err := child.live(ctx, l.forks, &l.book)
	if err == nil && t.judge(&o, &before, after) {
		t.examples = append(t.examples, l.save(l.image, before)...)
	}
	if err == nil && o.cut {
		l.cuts++
	}
	return o, disk, err
}

// policy draws how much survives.
func (l *lane) policy() powerfs.Policy { return l.policies[l.draws.IntN(len(l.policies))] }

// save keeps the disk on which something was found wrong, and says where.
func (l *lane) save(image powerfs.Image, book promise.Book) []string {
	if l.evidence == "" {
		return nil
	}
	dir := filepath.Join(l.evidence, fmt.Sprintf("lane-%d-life-%d", l.number, l.lives))
	if err := errors.Join(image.Save(dir), book.Save(filepath.Join(dir, "promised.json"))); err != nil {
		return []string{fmt.Sprintf("the disk could not be kept: %v", err)}
	}
	return []string{"the disk as it was found is kept in " + dir}
}
