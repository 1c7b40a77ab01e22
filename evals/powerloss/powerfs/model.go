// Package powerfs is a disk that loses power: a flat file system in memory that
// keeps apart what was written from what was synced, and at a cut lets survive
// only what a real disk might have kept. Every change is visible at once to whoever
// reads, as in a page cache, but stays pending until an fsync of its file makes
// its data durable, or an fsync of the directory its name. A Disk is mounted with
// FUSE where there is one, and is tested without. It must not know what is stored
// on it.
package powerfs

import (
	"maps"
	"slices"
	"sync"
	"syscall"
)

// Options say how the disk behaves while the power is on.
type Options struct {
	// LyingSync: a sync answers that all is well and makes nothing durable. It is
	// a negative control.
	LyingSync bool
	// Journal: names are kept as by a file system with an ordered journal. Syncing
	// a file makes all earlier changes of names durable too, and at a cut they
	// survive as a prefix. Without it names are what POSIX promises: only a sync
	// of the directory counts, and any of the others may survive.
	Journal bool
}

// file is a file, with or without a name.
type file struct {
	number  uint64
	current []byte // what a reader sees
	durable []byte // what was synced
}

type opKind int

const (
	writeOp opKind = iota
	truncateOp
	linkOp   // name begins to be of file
	unlinkOp // name ends
	renameOp // name becomes to
)

func (k opKind) isData() bool { return k == writeOp || k == truncateOp }

// op is a change that is not durable yet.
type op struct {
	kind     opKind
	file     *file
	name, to string
	offset   int64 // where a write begins, or the size after a truncation
	data     []byte
}

// Disk is a disk with the power on, until it is cut. It may be used by many
// goroutines. Its errors are those of system calls; after the cut every call is
// EIO.
type Disk struct {
	options Options
	off     chan struct{} // closed when the power is cut

	mu      sync.Mutex
	names   map[string]*file // as seen now
	kept    map[string]*file // durable names
	pending []op             // in the order of the calls
	files   uint64           // numbers given out
	ops     int
	cutAt   int // the operation during which the power fails; 0: none
	dark    bool
}

// New returns a disk that holds an image.
func New(image Image, o Options) *Disk {
	d := &Disk{options: o, off: make(chan struct{}), names: map[string]*file{}, kept: map[string]*file{}}
	for _, name := range slices.Sorted(maps.Keys(image)) {
		f := d.newFile()
		f.current, f.durable = slices.Clone(image[name]), slices.Clone(image[name])
		d.names[name], d.kept[name] = f, f
	}
	return d
}

func (d *Disk) newFile() *file {
	d.files++
	return &file{number: d.files}
}

// CutAt makes the power fail during the n-th changing or syncing operation from
// now, the next one being number 1. An operation that has failed so may have been
// done in part.
func (d *Disk) CutAt(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cutAt = d.ops + n
}

// Cut cuts the power now.
func (d *Disk) Cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.darken()
}

// Off is closed once the power is cut.
func (d *Disk) Off() <-chan struct{} { return d.off }

// Ops counts the changing and syncing operations so far.
func (d *Disk) Ops() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ops
}

func (d *Disk) darken() {
	if !d.dark {
		d.dark = true
		close(d.off)
	}
}

// step counts an operation. It is EIO when there is no power, and first reports
// whether the power failed in this very operation.
func (d *Disk) step() (torn bool, err error) {
	if d.dark {
		return false, syscall.EIO
	}
	d.ops++
	if d.ops == d.cutAt {
		d.darken()
		return true, syscall.EIO
	}
	return false, nil
}

func (d *Disk) lookup(name string) (*file, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dark {
		return nil, syscall.EIO
	}
	if f := d.names[name]; f != nil {
		return f, nil
	}
	return nil, syscall.ENOENT
}

func (d *Disk) list() (map[string]*file, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dark {
		return nil, syscall.EIO
	}
	return maps.Clone(d.names), nil
}

// change does one operation: at once for who reads, pending for who cuts.
func (d *Disk) change(o op) error {
	torn, err := d.step()
	if err == nil || torn {
		d.pending = append(d.pending, o)
	}
	if err != nil {
		return err
	}
	if o.kind.isData() {
		o.file.current = o.onData(o.file.current)
	} else {
		o.onNames(d.names)
	}
	return nil
}

// create returns the file of a name, made if there is none.
func (d *Disk) create(name string) (*file, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.names[name]; f != nil && !d.dark {
		return f, nil
	}
	f := d.newFile()
	return f, d.change(op{kind: linkOp, file: f, name: name})
}

func (d *Disk) link(f *file, name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names[name] != nil && !d.dark {
		return syscall.EEXIST
	}
	return d.change(op{kind: linkOp, file: f, name: name})
}

func (d *Disk) unlink(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names[name] == nil && !d.dark {
		return syscall.ENOENT
	}
	return d.change(op{kind: unlinkOp, name: name})
}

func (d *Disk) rename(name, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.names[name]
	if f == nil && !d.dark {
		return syscall.ENOENT
	}
	return d.change(op{kind: renameOp, file: f, name: name, to: to})
}

func (d *Disk) write(f *file, data []byte, offset int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.change(op{kind: writeOp, file: f, offset: offset, data: slices.Clone(data)})
}

func (d *Disk) truncate(f *file, size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if size == int64(len(f.current)) && !d.dark {
		return nil
	}
	return d.change(op{kind: truncateOp, file: f, offset: size})
}

// read fills into from the file and returns how much there was.
func (d *Disk) read(f *file, into []byte, offset int64) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dark {
		return 0, syscall.EIO
	}
	if offset >= int64(len(f.current)) {
		return 0, nil
	}
	return copy(into, f.current[offset:]), nil
}

func (d *Disk) size(f *file) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return int64(len(f.current))
}

// sync makes the data of a file durable.
func (d *Disk) sync(f *file) error {
	return d.settle(func(o *op) bool {
		return o.kind.isData() && o.file == f || d.options.Journal && !o.kind.isData()
	})
}

// syncNames makes the names durable.
func (d *Disk) syncNames() error {
	return d.settle(func(o *op) bool { return !o.kind.isData() })
}

// settle makes the chosen pending operations durable. They need no order among
// the others: data of other files and names do not depend on them.
func (d *Disk) settle(chosen func(*op) bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.step(); err != nil || d.options.LyingSync {
		return err
	}
	d.pending = slices.DeleteFunc(d.pending, func(o op) bool {
		switch {
		case !chosen(&o):
			return false
		case o.kind.isData():
			o.file.durable = o.onData(o.file.durable)
		default:
			o.onNames(d.kept)
		}
		return true
	})
	return nil
}

// onData applies a write or a truncation to contents.
func (o *op) onData(content []byte) []byte {
	if o.kind == truncateOp {
		return resize(content, o.offset)
	}
	return overwrite(content, o.offset, o.data)
}

func (o *op) onNames(names map[string]*file) {
	switch o.kind {
	case linkOp:
		names[o.name] = o.file
	case unlinkOp:
		delete(names, o.name)
	case renameOp:
		delete(names, o.name)
		names[o.to] = o.file
	}
}

func overwrite(content []byte, offset int64, data []byte) []byte {
	if end := offset + int64(len(data)); end > int64(len(content)) {
		content = resize(content, end)
	}
	copy(content[offset:], data)
	return content
}

// resize cuts contents off, or lengthens them with zeros.
func resize(content []byte, size int64) []byte {
	length := int64(len(content))
	if size <= length {
		return content[:size]
	}
	content = slices.Grow(content, int(size-length))[:size]
	clear(content[length:])
	return content
}
