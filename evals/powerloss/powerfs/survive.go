package powerfs

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// Policy says which of the pending operations survive a cut.
type Policy string

// The policies, from the mildest to the harshest but for Keep, which is what the
// kill of a process alone would leave.
const (
	Keep    Policy = "keep"    // all survive: the kernel had them
	Prefix  Policy = "prefix"  // a prefix survives, as on a disk that keeps order
	Drop    Policy = "drop"    // none survive
	Reorder Policy = "reorder" // each survives or not
	Tear    Policy = "tear"    // of each write, each sector survives or not
	Garble  Policy = "garble"  // as Tear, and half of the lost sectors hold noise
)

// Cuts are the policies of a power cut.
func Cuts() []Policy { return []Policy{Drop, Prefix, Reorder, Tear, Garble} }

// sector is what a disk writes whole or not at all, in bytes.
const sector = 512

// Survivors returns what is on the medium after the cut, which it makes if the
// power is still on. The same draws give the same image.
func (d *Disk) Survivors(p Policy, draws *rand.Rand) Image {
	d.Cut()
	d.mu.Lock()
	defer d.mu.Unlock()
	s := survivors{policy: p, draws: draws, names: maps.Clone(d.kept), content: map[*file][]byte{}}
	s.limit = s.draw(len(d.pending) + 1)
	s.nameLimit = len(d.pending)
	if d.options.Journal && p != Keep {
		s.nameLimit = s.draw(len(d.pending) + 1)
	}
	for i := range d.pending {
		s.take(i, &d.pending[i], d.options.Journal)
	}
	image := Image{}
	for name, f := range s.names {
		image[name] = s.of(f)
	}
	return image
}

// survivors is an image in the making.
type survivors struct {
	policy           Policy
	draws            *rand.Rand
	limit, nameLimit int
	names            map[string]*file
	content          map[*file][]byte
}

func (s *survivors) draw(n int) int { return s.draws.IntN(n) }

func (s *survivors) of(f *file) []byte {
	if content, ok := s.content[f]; ok {
		return content
	}
	return slices.Clone(f.durable)
}

func (s *survivors) take(i int, o *op, journal bool) {
	switch {
	case !o.kind.isData():
		if s.survives(i, journal) {
			o.onNames(s.names)
		}
	case o.kind == writeOp && (s.policy == Tear || s.policy == Garble):
		s.tear(o)
	case s.survives(i, false):
		s.content[o.file] = o.onData(s.of(o.file))
	}
}

// survives decides on one operation. With a journal, names survive in order
// wherever they could survive at all.
func (s *survivors) survives(i int, ordered bool) bool {
	switch s.policy {
	case Keep:
		return true
	case Drop:
		return false
	case Prefix:
		return i < s.limit
	}
	if ordered {
		return i < s.nameLimit
	}
	return s.draw(2) == 0
}

// tear lets each sector of a write survive or not. Bytes of the sector that were
// not written are never touched: that much a disk promises.
func (s *survivors) tear(o *op) {
	content := s.of(o.file)
	for from, end := o.offset, o.offset+int64(len(o.data)); from < end; {
		to := min((from/sector+1)*sector, end)
		piece := o.data[from-o.offset : to-o.offset]
		switch {
		case s.draw(2) == 0:
			content = overwrite(content, from, piece)
		case s.policy == Garble && s.draw(2) == 0:
			content = overwrite(content, from, s.noise(len(piece)))
		}
		from = to
	}
	s.content[o.file] = content
}

func (s *survivors) noise(n int) []byte {
	noise := make([]byte, n)
	for i := range noise {
		noise[i] = byte(s.draws.Uint32())
	}
	return noise
}
