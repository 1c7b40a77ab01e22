package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"blastdoor/chat/slacksim"
	"blastdoor/internal/app"
)

// kill says how one process of a case dies: at a point, or some time after the
// story began.
type kill struct {
	at    *point
	after time.Duration
}

func at(p point) kill { return kill{at: &p} }

func (k kill) String() string {
	if k.at != nil {
		return k.at.String()
	}
	return fmt.Sprintf("%.1f ms after the beginning", float64(k.after)/float64(time.Millisecond))
}

// ackDeadline is how long Slack waits for an ack here; a process that has died never
// sends it, so each case that dies before the ack waits this long.
const ackDeadline = 400 * time.Millisecond

// stage is one case: a workspace and a deployment of its own, and the processes that
// live in it one after the other.
type stage struct {
	ws     *slacksim.Workspace
	files  app.Files
	binary string
	env    []string
	kills  []kill
	fail   context.CancelCauseFunc
	begun  chan struct{} // closed when the story begins
	timed  chan struct{} // closed once no kill by the clock is left
	kept   chan struct{} // closed once no process is left

	clock  time.Time     // when the story began
	length time.Duration // of the story, until the run was shown as completed

	mu    sync.Mutex
	lives []*process
	died  int  // planned kills that have happened
	acked bool // Slack acknowledged Bob's click
}

// openStage sets a stage up and starts the first process. The context that it
// returns ends when the case cannot go on.
func (w *workshop) openStage(ctx context.Context, binary string, kills ...kill) (*stage, context.Context, error) {
	dir, err := os.MkdirTemp(w.dir, "case-")
	if err != nil {
		return nil, nil, fmt.Errorf("setting a case up: %w", err)
	}
	files := app.Files{Dir: filepath.Join(dir, "data")}
	if err := os.CopyFS(files.Dir, os.DirFS(w.deployment())); err != nil {
		return nil, nil, fmt.Errorf("setting a case up: %w", err)
	}
	ws, err := slacksim.Start(slacksim.Options{AckDeadline: ackDeadline})
	if err != nil {
		return nil, nil, fmt.Errorf("setting a case up: %w", err)
	}
	s := &stage{ws: ws, files: files, binary: binary, kills: kills,
		begun: make(chan struct{}), timed: make(chan struct{}), kept: make(chan struct{})}
	s.env = []string{"GOGC=off", // such a short life ends before there is much garbage
		"SLACK_BOT_TOKEN=" + ws.BotToken(), "SLACK_APP_TOKEN=" + ws.AppToken(), "BLASTDOOR_SLACK_API_URL=" + ws.APIURL(),
		"BLASTDOOR_DATA=" + files.Dir, "BLASTDOOR_RUNBOOKS=" + w.runbooks()}
	ctx, s.fail = context.WithCancelCause(ctx)
	if len(kills) == 0 || kills[len(kills)-1].after == 0 {
		close(s.timed)
	}
	go func() {
		defer close(s.kept)
		if err := s.keep(ctx, dir); err != nil {
			s.fail(err)
		}
	}()
	return s, ctx, nil
}

// close ends what still runs and removes what is left.
func (s *stage) close() error {
	s.fail(errors.New("the case is over"))
	<-s.kept
	s.ws.Close()
	return os.RemoveAll(filepath.Dir(s.files.Dir))
}

// keep starts a process whenever the one before was killed as planned, until one
// ends in order. A process that ends otherwise is an error.
func (s *stage) keep(ctx context.Context, dir string) error {
	for life := 0; ; life++ {
		var next kill
		if life < len(s.kills) {
			next = s.kills[life]
		}
		before := len(s.ws.Journal())
		p, err := launch(s.binary, dir, life, next.at, s.env)
		if err != nil {
			return err
		}
		p.before = before
		s.mu.Lock()
		s.lives = append(s.lives, p)
		s.mu.Unlock()
		s.outlive(ctx, p, next)
		switch {
		case ctx.Err() != nil:
			return nil // whoever ended the case says why
		case p.cmd.ProcessState.Success():
			return nil
		case next.at != nil && !p.diedAt(*next.at), next.at == nil && (next.after == 0 || !p.killed()):
			return fmt.Errorf("the bot ended by itself (%w); its log ends:\n%s", p.err, p.tail())
		}
		s.mu.Lock()
		s.died++
		s.mu.Unlock()
		if next.after > 0 && s.died == len(s.kills) {
			close(s.timed)
		}
	}
}

// outlive waits for the end of a process, and brings it about where that is planned
// to be done from outside.
func (s *stage) outlive(ctx context.Context, p *process, next kill) {
	watching, done := context.WithCancel(ctx)
	var watchers sync.WaitGroup
	defer watchers.Wait()
	defer done()
	switch {
	case next.at != nil && next.at.boundary == "after_ack":
		watchers.Go(func() { p.killWhenAcked(watching, s.ws, *next.at) })
	case next.after > 0:
		watchers.Go(func() { s.killByTheClock(watching, p, next.after) })
	}
	select {
	case <-p.exited:
	case <-ctx.Done():
		p.kill()
	}
}

// killByTheClock kills a process some time after the story began, whatever it does.
func (s *stage) killByTheClock(ctx context.Context, p *process, after time.Duration) {
	select {
	case <-s.begun:
	case <-ctx.Done():
		return
	}
	timer := time.NewTimer(after)
	defer timer.Stop()
	select {
	case <-timer.C:
		p.kill()
	case <-ctx.Done():
	}
}

// newest returns the process that was started last; nil before the first.
func (s *stage) newest() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lives) == 0 {
		return nil
	}
	return s.lives[len(s.lives)-1]
}

// connected waits until the newest process has been connected, and returns it.
func (s *stage) connected(ctx context.Context) (*process, error) {
	var p *process
	_, err := s.ws.WaitEntry(ctx, "a connection", func(e slacksim.Entry) bool {
		p = s.newest()
		return e.Kind == slacksim.KindSocket && e.Name == "open" && p != nil && e.Seq > p.before
	})
	return p, err
}

// because adds the reason why a case could not go on to "cancelled".
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil && cause != ctx.Err() {
		return fmt.Errorf("%w (%w)", err, cause)
	}
	return err
}

// stop asks the newest process to end in order. It reports false when that process
// died at its point instead, and another one has taken over.
func (s *stage) stop(ctx context.Context) (bool, error) {
	select {
	case <-s.timed:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	p, err := s.connected(ctx)
	if err != nil {
		return false, err
	}
	_ = p.cmd.Process.Signal(os.Interrupt) // it may have died meanwhile
	select {
	case <-p.exited:
		return p.cmd.ProcessState.Success(), nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// reached reports how many of the planned kills have happened.
func (s *stage) reached() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.died
}
