package crash

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"blastdoor/chat/slacksim"
)

// process is one life of the bot.
type process struct {
	cmd    *exec.Cmd
	points string // file of the points that it passed
	output string // file of its log
	before int    // how long Slack's journal was when it was started
	exited chan struct{}
	err    error // of Wait; to be read once exited
}

// launch starts a life that ends at a point; a nil point lets it live.
func launch(binary, dir string, life int, at *point, environ []string) (*process, error) {
	p := &process{points: filepath.Join(dir, fmt.Sprintf("points-%d", life)), output: filepath.Join(dir, fmt.Sprintf("log-%d", life)),
		exited: make(chan struct{})}
	out, err := os.Create(p.output)
	if err != nil {
		return nil, fmt.Errorf("starting the bot: %w", err)
	}
	p.cmd = exec.Command(binary, "serve")
	p.cmd.Env = append(environ[:len(environ):len(environ)], "BLASTDOOR_TEST_CRASH_LOG="+p.points)
	if at != nil {
		p.cmd.Env = append(p.cmd.Env, "BLASTDOOR_TEST_CRASH="+at.String())
	}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the bot: %w", err), out.Close())
	}
	go func() {
		p.err = errors.Join(p.cmd.Wait(), out.Close())
		close(p.exited)
	}()
	return p, nil
}

// kill ends the process at once, as kill -9 does, and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.exited
}

// killed reports whether the process died of SIGKILL.
func (p *process) killed() bool {
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// last returns the last line of the log of points: a word and a point.
func (p *process) last() string {
	lines, err := p.lines()
	if err != nil || len(lines) == 0 {
		return ""
	}
	return lines[len(lines)-1]
}

func (p *process) lines() ([]string, error) {
	data, err := os.ReadFile(p.points)
	if errors.Is(err, fs.ErrNotExist) || len(data) == 0 {
		return nil, nil // it ended before the first point, or has none
	}
	if err != nil {
		return nil, fmt.Errorf("reading the points of a process: %w", err)
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n"), nil
}

// passed returns the points that the process passed.
func (p *process) passed() ([]point, error) {
	lines, err := p.lines()
	if err != nil {
		return nil, err
	}
	var out []point
	for _, line := range lines {
		text, ok := strings.CutPrefix(line, "passed ")
		if !ok {
			continue
		}
		at, err := parsePoint(text)
		if err != nil {
			return nil, err
		}
		out = append(out, at)
	}
	return out, nil
}

// diedAt reports whether the process died of SIGKILL at the point, by its own hand
// or, held there, by ours.
func (p *process) diedAt(at point) bool {
	last := p.last()
	return p.killed() && (last == "killed at "+at.String() || last == "holding at "+at.String())
}

// killWhenAcked kills a process that is held at a point as soon as Slack has its
// ack. Until then it is not known that the ack has left the process.
func (p *process) killWhenAcked(ctx context.Context, ws *slacksim.Workspace, at point) {
	_, err := ws.WaitEntry(ctx, "the ack of a held process", func(e slacksim.Entry) bool {
		return e.Kind == slacksim.KindAck && p.last() == "holding at "+at.String()
	})
	if err == nil {
		p.kill()
	}
}

// tail returns the end of the log, for a person who must find out why.
func (p *process) tail() string {
	data, err := os.ReadFile(p.output)
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-1500):])
}
