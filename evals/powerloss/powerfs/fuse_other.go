//go:build !linux

package powerfs

import "errors"

// Available reports why a disk cannot be mounted here.
func Available() error { return errors.New("no FUSE on this machine: disks are mounted on Linux only") }

// Mount is a disk under a directory.
type Mount struct{}

// Mount is for Linux.
func (d *Disk) Mount(string) (*Mount, error) { return nil, Available() }

// Unmount is for Linux.
func (m *Mount) Unmount() error { return Available() }

// Clean has nothing to clean.
func Clean() ([]string, error) { return nil, nil }
