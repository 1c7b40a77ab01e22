package powerloss

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"

	"blastdoor/evals/powerloss/powerfs"
	"blastdoor/evals/powerloss/promise"
)

// patience is how long a life may last before it counts as hanging. A life takes a
// fraction of a second.
const patience = time.Minute

// forks keeps mounting and starting processes apart: a child must not inherit a
// descriptor of /dev/fuse.
type forks struct{ sync.Mutex }

func (f *forks) mount(disk *powerfs.Disk, dir string) (*powerfs.Mount, error) {
	f.Lock()
	defer f.Unlock()
	return disk.Mount(dir)
}

func (f *forks) start(cmd *exec.Cmd) error {
	f.Lock()
	defer f.Unlock()
	return cmd.Start()
}

// powered runs do on a mounted disk until it returns. Its context ends when the
// power fails or patience does; then processes are killed. Afterwards the power is
// off. It reports whether the power failed while do was running, and whether do
// hung.
func (f *forks) powered(ctx context.Context, disk *powerfs.Disk, dir string, do func(context.Context) error) (cut, hung bool, err error) {
	mount, err := f.mount(disk, dir)
	if err != nil {
		return false, false, err
	}
	running, kill := context.WithTimeout(ctx, patience)
	defer kill()
	go func() {
		select {
		case <-disk.Off():
			kill()
		case <-running.Done():
		}
	}()
	err = do(running)
	select {
	case <-disk.Off():
		cut = true
	default:
		hung = running.Err() != nil
	}
	disk.Cut()
	return cut, hung, errors.Join(err, mount.Unmount(), ctx.Err())
}

// life is one life of a child on a disk, until the power fails or it is done.
type life struct {
	binary  string
	dir     string // where the disk is mounted
	mode    string
	name    string // of this life among others
	clients int
	disk    *powerfs.Disk
	cutAt   int  // during this operation the power fails; 0: never
	early   bool // counted from the start, else from the moment that the child is ready
}

// outcome is what a life came to.
type outcome struct {
	cut      bool
	promises int // acknowledged in this life
	booted   bool
	ready    bool
	done     bool
	found    []promise.Broken
	begun    string // the kind of the event whose commit was not acknowledged
	err      string // why the child ended by itself
	stderr   string
}

// broken is what is wrong after a start. What the child says once the power is off
// is no news.
func (o *outcome) broken() []promise.Broken {
	if o.cut || len(o.found) > 0 || o.done {
		return o.found
	}
	what := o.err
	if what == "" {
		what = "the child ended without a word: " + o.stderr
	}
	return []promise.Broken{{What: what}}
}

// live mounts the disk, runs the child, notes in the book what it acknowledges, and
// unmounts. The error is for what has nothing to do with the child.
func (l *life) live(ctx context.Context, forks *forks, book *promise.Book) (o outcome, err error) {
	known, err := json.Marshal(book)
	if err != nil {
		return o, err
	}
	if l.early && l.cutAt > 0 {
		l.disk.CutAt(l.cutAt)
	}
	cut, hung, err := forks.powered(ctx, l.disk, l.dir, func(ctx context.Context) error {
		cmd := exec.CommandContext(ctx, l.binary, "-dir", l.dir, "-mode", l.mode, "-life", l.name, "-clients", fmt.Sprint(l.clients))
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		in, err1 := cmd.StdinPipe()
		out, err2 := cmd.StdoutPipe()
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		if err := forks.start(cmd); err != nil {
			return fmt.Errorf("starting the child: %w", err)
		}
		fmt.Fprintf(in, "%s\n", known) // a child that is gone does not read it
		l.listen(out, in, book, &o)
		_ = cmd.Wait() // it was killed, or has said itself what was wrong
		o.stderr = stderr.String()
		return nil
	})
	o.cut = cut
	if hung {
		o.err = fmt.Sprintf("it hangs: still at work after %s", patience)
	}
	return o, err
}

// listen reads what the child says until it is gone.
func (l *life) listen(from io.Reader, to io.Writer, book *promise.Book, o *outcome) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		r, err := promise.Read(lines.Text())
		if err != nil {
			o.err = err.Error() // a kill cuts no line: each is one write to a pipe
			return
		}
		switch {
		case r.Promise != nil:
			book.Add(*r.Promise)
			o.promises++
			if r.Promise.Kind == promise.Committed {
				o.begun = ""
			}
		case r.Begins != "":
			o.begun = r.Begins
		case r.Booted:
			o.booted, o.found = true, r.Found
		case r.Ready:
			o.ready = true
			if l.cutAt > 0 && !l.early {
				l.disk.CutAt(l.cutAt)
			}
			fmt.Fprintln(to, "begin")
		case r.Done:
			o.done = true
		case r.Err != "":
			o.err = r.Err
		}
	}
}
