// Command bot is Blast Door: a Slack bot that runs operational runbooks safely.
// It holds the configuration, the sub-commands and their help, and nothing that
// decides about a run: that is the engine's and the verifier's.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"blastdoor"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	p := program{args: os.Args[1:], environ: os.Environ(), stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, now: time.Now}
	code := p.run(ctx)
	stop()
	os.Exit(code)
}

// program is one call of the command, with everything it touches passed in.
type program struct {
	args    []string
	environ []string
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer
	now     func() time.Time
}

// Exit codes.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// run returns the exit code. Every error is printed here, and only here.
func (p program) run(ctx context.Context) int {
	err := p.dispatch(ctx)
	switch {
	case err == nil:
		return exitOK
	case blastdoor.ErrUsage.Is(err):
		p.complain(err)
		return exitUsage
	default:
		p.complain(err)
		return exitError
	}
}

// complain prints what is wrong and what would be right. Errors that were joined
// are printed one a line.
func (p program) complain(err error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			p.complain(one)
		}
		return
	}
	e, ok := errors.AsType[*blastdoor.Error](err)
	if !ok {
		fmt.Fprintf(p.stderr, "bot: %v\n", err)
		return
	}
	fmt.Fprintf(p.stderr, "bot: %s\n", plain(err, e))
	if e.Want != "" {
		fmt.Fprintf(p.stderr, "     %s\n", e.Want)
	}
}

// plain is an error without the code and the hint, which a person at a terminal
// does not need on the first line; what it was wrapped in stays.
func plain(err error, e *blastdoor.Error) string {
	text := e.Msg
	if e.Where != "" {
		text = e.Where + ": " + text
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return strings.Replace(err.Error(), e.Error(), text, 1)
}
