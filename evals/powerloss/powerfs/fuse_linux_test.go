package powerfs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func mount(t *testing.T, d *Disk) (string, *Mount) {
	t.Helper()
	if err := Available(); err != nil {
		t.Skipf("SKIPPED, WHICH IS NO PASS: %v", err)
	}
	dir := t.TempDir()
	m, err := d.Mount(dir)
	require.NoError(t, err)
	return dir, m
}

func TestAMountedDiskLosesItsPower(t *testing.T) {
	d := New(Image{"old": []byte("old")}, Options{})
	dir, m := mount(t, d)
	path := func(name string) string { return filepath.Join(dir, name) }
	f, err := os.Create(path("synced"))
	require.NoError(t, err)
	_, err = f.WriteString("synced")
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	_, err = f.WriteAt([]byte("S"), 0)
	require.NoError(t, err)
	home, err := os.Open(dir)
	require.NoError(t, err)
	require.NoError(t, home.Sync())
	require.NoError(t, os.WriteFile(path("unsynced"), []byte("x"), 0o600))
	require.NoError(t, os.Link(path("unsynced"), path("link")))
	require.NoError(t, os.Rename(path("old"), path("renamed")))
	require.NoError(t, os.Remove(path("link")))
	seen, err := Load(dir)
	require.NoError(t, err)
	require.Equal(t, Image{"synced": []byte("Synced"), "unsynced": []byte("x"), "renamed": []byte("old")}, seen)

	d.CutAt(1)
	_, err = f.WriteString("more")
	require.ErrorIs(t, err, syscall.EIO)
	<-d.Off()
	require.ErrorIs(t, f.Sync(), syscall.EIO)
	require.NoError(t, errors.Join(f.Close(), home.Close()))
	require.NoError(t, m.Unmount())
	require.Equal(t, Image{"synced": []byte("synced"), "old": []byte("old")}, d.Survivors(Drop, draws(1)))
}

func TestNoChildInheritsTheDevice(t *testing.T) {
	_, m := mount(t, New(nil, Options{}))
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	found := 0
	for _, entry := range entries {
		target, err := os.Readlink("/proc/self/fd/" + entry.Name())
		if err != nil || target != "/dev/fuse" {
			continue
		}
		found++
		info, err := os.ReadFile("/proc/self/fdinfo/" + entry.Name())
		require.NoError(t, err)
		require.Regexp(t, `flags:\s+02[0-7]{6}`, string(info), "O_CLOEXEC is 02000000")
	}
	require.NotZero(t, found)
	require.NoError(t, m.Unmount())
}

func TestOnlyTheMountsOfTheDeadAreCleaned(t *testing.T) {
	mountinfo := strings.Join([]string{
		`22 1 0:21 / /proc rw - proc proc rw`,
		`90 1 0:40 / /tmp/a\040b rw,nosuid - fuse.` + typeName + ` 100 rw,user_id=0`,
		`91 1 0:41 / /tmp/alive rw - fuse.` + typeName + ` 200 rw`,
		`92 1 0:42 / /tmp/other rw - fuse.sshfs 100 rw`, ``}, "\n")
	require.Equal(t, []string{"/tmp/a b"}, abandoned(mountinfo, func(pid string) bool { return pid == "200" }))
}
