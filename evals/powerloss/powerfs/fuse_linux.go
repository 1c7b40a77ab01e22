package powerfs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// typeName is the kind of mount in /proc/self/mountinfo, after "fuse.".
const typeName = "blastdoor-powerfs"

// Available reports why a disk cannot be mounted here; nil when it can. It tries.
func Available() (err error) {
	if _, err := os.Stat("/dev/fuse"); err != nil {
		return fmt.Errorf("no FUSE on this machine: %w", err)
	}
	dir, err := os.MkdirTemp("", "powerfs-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(dir)) }()
	mount, err := New(nil, Options{}).Mount(dir)
	if err != nil {
		return fmt.Errorf("FUSE on this machine is not for us: %w", err)
	}
	return mount.Unmount()
}

// Mount is a disk under a directory.
type Mount struct {
	dir    string
	server *fuse.Server
}

// Mount mounts the disk. No other process may be started until it returns: the
// library opens /dev/fuse so that a child would inherit it, and a child that holds
// it hangs for ever when this process dies. Nor may this process map a file of the
// mount into its memory: a page fault would wait for itself.
func (d *Disk) Mount(dir string) (*Mount, error) {
	long := time.Hour // nobody else changes anything, so the kernel may remember
	server, err := fs.Mount(dir, &root{disk: d}, &fs.Options{EntryTimeout: &long, AttrTimeout: &long, NullPermissions: true,
		MountOptions: fuse.MountOptions{DirectMount: true, FsName: strconv.Itoa(os.Getpid()), Name: typeName, DisableXAttrs: true}})
	if err != nil {
		return nil, fmt.Errorf("mounting %s: %w", dir, err)
	}
	m := &Mount{dir: dir, server: server}
	if err := closeOnExec(); err != nil {
		return nil, errors.Join(err, m.Unmount())
	}
	return m, nil
}

// Unmount returns once the kernel has let go of the disk. Who used it must have
// ended.
func (m *Mount) Unmount() error {
	if err := syscall.Unmount(m.dir, syscall.MNT_DETACH); err != nil {
		return m.server.Unmount() // by the helper that mounted it
	}
	m.server.Wait()
	return nil
}

// closeOnExec marks every descriptor of /dev/fuse.
func closeOnExec() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("looking for /dev/fuse: %w", err)
	}
	for _, entry := range entries {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if target, err := os.Readlink(filepath.Join("/proc/self/fd", entry.Name())); err == nil && target == "/dev/fuse" {
			syscall.CloseOnExec(fd)
		}
	}
	return nil
}

// Clean unmounts what processes that are gone have left behind, and returns where. An
// error about one does not keep it from the others.
func Clean() ([]string, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("looking for mounts that were left behind: %w", err)
	}
	var cleaned []string
	var errs []error
	for _, dir := range abandoned(string(data), alive) {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			errs = append(errs, fmt.Errorf("unmounting %s: %w", dir, err))
			continue
		}
		cleaned = append(cleaned, dir)
	}
	return cleaned, errors.Join(errs...)
}

func alive(pid string) bool {
	_, err := os.Stat(filepath.Join("/proc", pid))
	return err == nil
}

// abandoned picks the mount points of ours whose process is gone, as proc(5)
// describes mountinfo: fields, the mount point the fifth, " - ", type, source.
func abandoned(mountinfo string, alive func(pid string) bool) []string {
	var dirs []string
	for line := range strings.Lines(mountinfo) {
		before, after, _ := strings.Cut(line, " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if len(fields) > 4 && len(kind) > 1 && kind[0] == "fuse."+typeName && !alive(kind[1]) {
			dirs = append(dirs, strings.ReplaceAll(fields[4], `\040`, " "))
		}
	}
	return dirs
}

// root is the one directory of a disk.
type root struct {
	fs.Inode
	disk *Disk
}

// leaf is a file of a disk.
type leaf struct {
	fs.Inode
	disk *Disk
	file *file
}

var (
	_ fs.NodeLookuper  = (*root)(nil)
	_ fs.NodeReaddirer = (*root)(nil)
	_ fs.NodeGetattrer = (*root)(nil)
	_ fs.NodeCreater   = (*root)(nil)
	_ fs.NodeLinker    = (*root)(nil)
	_ fs.NodeUnlinker  = (*root)(nil)
	_ fs.NodeRenamer   = (*root)(nil)
	_ fs.NodeFsyncer   = (*root)(nil)
	_ fs.NodeStatfser  = (*root)(nil)
	_ fs.NodeGetattrer = (*leaf)(nil)
	_ fs.NodeSetattrer = (*leaf)(nil)
	_ fs.NodeOpener    = (*leaf)(nil)
	_ fs.NodeReader    = (*leaf)(nil)
	_ fs.NodeWriter    = (*leaf)(nil)
	_ fs.NodeFsyncer   = (*leaf)(nil)
	_ fs.NodeAllocater = (*leaf)(nil)
)

// errno is the number of an error of Disk.
func errno(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		return number
	}
	return syscall.EIO
}

func (r *root) leaf(ctx context.Context, f *file, out *fuse.Attr) *fs.Inode {
	r.disk.describe(f, out)
	return r.NewInode(ctx, &leaf{disk: r.disk, file: f}, fs.StableAttr{Mode: syscall.S_IFREG, Ino: f.number + 1}) // the root is 1
}

func (d *Disk) describe(f *file, out *fuse.Attr) {
	out.Mode, out.Nlink, out.Blksize = syscall.S_IFREG|0o600, 1, 4096
	out.Size = uint64(d.size(f))
	out.Blocks = (out.Size + 511) / 512
}

func (r *root) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Nlink = syscall.S_IFDIR|0o700, 2
	return 0
}

func (r *root) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	f, err := r.disk.lookup(name)
	if err != nil {
		return nil, errno(err)
	}
	return r.leaf(ctx, f, &out.Attr), 0
}

func (r *root) Readdir(context.Context) (fs.DirStream, syscall.Errno) {
	names, err := r.disk.list()
	if err != nil {
		return nil, errno(err)
	}
	var entries []fuse.DirEntry
	for _, name := range slices.Sorted(maps.Keys(names)) {
		entries = append(entries, fuse.DirEntry{Name: name, Mode: syscall.S_IFREG, Ino: names[name].number + 1})
	}
	return fs.NewListDirStream(entries), 0
}

func (r *root) Create(ctx context.Context, name string, _, _ uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	f, err := r.disk.create(name)
	if err != nil {
		return nil, nil, 0, errno(err)
	}
	return r.leaf(ctx, f, &out.Attr), nil, fuse.FOPEN_KEEP_CACHE, 0
}

func (r *root) Link(ctx context.Context, target fs.InodeEmbedder, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	l, ok := target.(*leaf)
	if !ok {
		return nil, syscall.EPERM
	}
	if err := r.disk.link(l.file, name); err != nil {
		return nil, errno(err)
	}
	return r.leaf(ctx, l.file, &out.Attr), 0
}

func (r *root) Unlink(_ context.Context, name string) syscall.Errno {
	return errno(r.disk.unlink(name))
}

func (r *root) Rename(_ context.Context, name string, _ fs.InodeEmbedder, to string, flags uint32) syscall.Errno {
	if flags != 0 {
		return syscall.EINVAL // RENAME_NOREPLACE and RENAME_EXCHANGE
	}
	return errno(r.disk.rename(name, to))
}

func (r *root) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	return errno(r.disk.syncNames())
}

func (r *root) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	out.Bsize, out.Blocks, out.Bfree, out.Bavail, out.NameLen = 4096, 1<<20, 1<<20, 1<<20, 255
	return 0
}

func (l *leaf) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	l.disk.describe(l.file, &out.Attr)
	return 0
}

// Setattr changes the size; owner, mode and times are not kept.
func (l *leaf) Setattr(_ context.Context, _ fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if size, ok := in.GetSize(); ok {
		if err := l.disk.truncate(l.file, int64(size)); err != nil {
			return errno(err)
		}
	}
	l.disk.describe(l.file, &out.Attr)
	return 0
}

func (l *leaf) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_KEEP_CACHE, 0
}

func (l *leaf) Read(_ context.Context, _ fs.FileHandle, into []byte, offset int64) (fuse.ReadResult, syscall.Errno) {
	n, err := l.disk.read(l.file, into, offset)
	return fuse.ReadResultData(into[:n]), errno(err)
}

func (l *leaf) Write(_ context.Context, _ fs.FileHandle, data []byte, offset int64) (uint32, syscall.Errno) {
	if err := l.disk.write(l.file, data, offset); err != nil {
		return 0, errno(err)
	}
	return uint32(len(data)), 0
}

func (l *leaf) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	return errno(l.disk.sync(l.file))
}

// Allocate is refused: who asks then writes zeros, which the model can lose.
func (l *leaf) Allocate(context.Context, fs.FileHandle, uint64, uint64, uint32) syscall.Errno {
	return syscall.EOPNOTSUPP
}
