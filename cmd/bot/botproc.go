package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// botProcess is a bot in a process of its own, which can be killed like one.
type botProcess struct {
	args    []string // the program and its arguments
	environ []string
	log     string    // file that takes its output
	watch   io.Writer // takes its output too; nil: nobody watches
	cmd     *exec.Cmd
	ended   chan error
}

// start begins a process. One that is running already is an error.
func (b *botProcess) start() error {
	if b.cmd != nil {
		return errors.New("the bot is running already")
	}
	out, err := os.OpenFile(b.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("starting the bot: %w", err)
	}
	cmd := exec.Command(b.args[0], b.args[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = b.environ, out, out
	if b.watch != nil {
		cmd.Stderr = io.MultiWriter(out, b.watch)
	}
	if err := cmd.Start(); err != nil {
		return errors.Join(fmt.Errorf("starting the bot: %w", err), out.Close())
	}
	b.cmd, b.ended = cmd, make(chan error, 1)
	go func(ended chan<- error) { ended <- errors.Join(cmd.Wait(), out.Close()) }(b.ended)
	return nil
}

// kill ends the process at once, as the kernel does when memory is short: no
// deferred call runs, nothing is flushed.
func (b *botProcess) kill() error {
	if b.cmd == nil {
		return errors.New("the bot is not running")
	}
	err := b.cmd.Process.Kill()
	<-b.ended
	b.cmd = nil
	return err
}

// stop asks the process to end and waits; after the grace it is killed.
func (b *botProcess) stop(grace time.Duration) error {
	if b.cmd == nil {
		return nil
	}
	if err := b.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return errors.Join(err, b.kill())
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case err := <-b.ended:
		b.cmd = nil
		return err
	case <-timer.C:
		return errors.Join(fmt.Errorf("the bot did not stop within %s", grace), b.kill())
	}
}

// tail returns the end of the bot's log, for a person who must find out why.
func (b *botProcess) tail() string {
	data, err := os.ReadFile(b.log)
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-2000):])
}

// await runs wait, but gives up as soon as the process ends by itself.
func (b *botProcess) await(ctx context.Context, wait func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan struct{})
	defer close(done)
	ended := b.ended // of this process: the next one has its own
	go func() {
		select {
		case err := <-ended:
			ended <- err
			cancel(fmt.Errorf("the bot ended by itself (%w); its log says:\n%s", err, b.tail()))
		case <-done:
		}
	}()
	if err := wait(ctx); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
	return nil
}
