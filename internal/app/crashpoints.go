//go:build crashpoints

package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"blastdoor/chat"
)

// The settings of a build with crash points. A point is boundary:subject:n, as in
// after_intent:restart:1: right after the first intent of the step restart that
// this process has committed.
const (
	crashAt  = "BLASTDOOR_TEST_CRASH"     // the point to die at; empty: none
	crashLog = "BLASTDOOR_TEST_CRASH_LOG" // file that takes every point that is passed
)

// interpose puts crash points in front of the parts. It refuses to serve without
// a log of the points, so that this build is not taken for a bot.
func interpose(ctx context.Context, p *parts) error {
	path := os.Getenv(crashLog)
	if path == "" {
		return errors.New("this build dies on purpose: it is for the crash matrix of the evals only")
	}
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the log of crash points: %w", err)
	}
	if err := weaken(ctx, p); err != nil {
		return err
	}
	c := &crasher{point: os.Getenv(crashAt), log: log, passed: map[string]int{}}
	signHead := p.afterDecision
	p.afterDecision = func(ctx context.Context) {
		c.at("before_head", "decision")
		signHead(ctx)
		c.at("after_head", "decision")
	}
	p.environment = crashingEnvironment{p.environment, c}
	p.journal = crashingJournal{p.journal, c}
	p.inbox = crashingInbox{p.inbox, c}
	p.outbox = &crashingOutbox{Outbox: p.outbox, c: c, rows: map[string]*outboxRow{}}
	p.timing = chat.Timing{Again: 20 * time.Millisecond, Look: 20 * time.Millisecond}
	return nil
}

// crasher kills its own process at one point. It is the equivalent of kill -9: no
// deferred call runs and nothing is flushed.
type crasher struct {
	point string
	log   *os.File

	mu     sync.Mutex
	passed map[string]int
	held   bool
}

// at passes a point, or dies at it. The lock is never released by the dying: no
// other goroutine passes a point any more.
func (c *crasher) at(boundary, subject string) {
	c.mu.Lock()
	if c.reach("killed at", boundary, subject) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // cannot be refused by oneself
		select {}
	}
	c.release()
}

// hold passes a point, or lets the caller go on and nobody else: whoever watches
// kills the process once the caller has done what comes next. It serves where that
// is out of reach of the parts.
func (c *crasher) hold(boundary, subject string) {
	c.mu.Lock()
	if c.reach("holding at", boundary, subject) {
		c.held = true
		c.mu.Unlock()
		return
	}
	c.release()
}

// gate lets nobody through while the process is held.
func (c *crasher) gate() {
	c.mu.Lock()
	c.release()
}

func (c *crasher) release() {
	held := c.held
	c.mu.Unlock()
	if held {
		select {}
	}
}

// reach counts the point, writes it down, and reports whether it is the one.
func (c *crasher) reach(word, boundary, subject string) bool {
	if c.held {
		return false
	}
	point := boundary + ":" + subject
	c.passed[point]++
	point += ":" + strconv.Itoa(c.passed[point])
	meant := point == c.point
	if !meant {
		word = "passed"
	}
	if _, err := fmt.Fprintln(c.log, word, point); err != nil {
		panic(fmt.Sprintf("writing the log of crash points: %v", err)) // a kill that leaves no trace proves nothing
	}
	return meant
}
