package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/gofrs/flock"

	"blastdoor"
)

// OwnedError says that another process owns the database.
type OwnedError struct {
	Path string
	PID  int // 0: it is not known which
}

func (e *OwnedError) Error() string {
	if e.PID == 0 {
		return e.Path + " is owned by another process"
	}
	return fmt.Sprintf("%s is owned by process %d", e.Path, e.PID)
}

// ownership is the lock on a file beside the database, and a side file with the
// owner's process id. The kernel releases the lock when the process dies; the
// side file is for people and may be stale.
type ownership struct {
	lock  *flock.Flock
	owner string
}

func own(path string) (*ownership, error) {
	o := &ownership{lock: flock.New(path+".lock", flock.SetPermissions(0o600)), owner: path + ".lock.owner"}
	locked, err := o.lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	if !locked {
		held := &OwnedError{Path: path, PID: readOwner(o.owner)}
		who := "another process"
		if held.PID != 0 {
			who = fmt.Sprintf("process %d", held.PID)
		}
		return nil, &blastdoor.Error{Code: blastdoor.ErrUnavailable, Where: path,
			Msg: "the database is in use by " + who, Want: "one bot owns one database: stop that one first", Err: held}
	}
	if err := os.WriteFile(o.owner, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("writing the owner of %s: %w", path, err), o.lock.Close())
	}
	return o, nil
}

// release removes the side file first: as long as it exists its writer holds the
// lock. The lock file stays, since removing it would let two processes lock two
// files of one name.
func (o *ownership) release() error {
	err := os.Remove(o.owner)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, o.lock.Close())
}

func readOwner(path string) int {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0 // it is a courtesy: the lock itself is what counts
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return 0
	}
	return pid
}
