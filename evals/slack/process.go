package slack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"blastdoor/internal/app"
)

// build makes the real binary.
func build(ctx context.Context, dir string) (string, error) {
	binary := filepath.Join(dir, "bot")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "blastdoor/cmd/bot").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building the bot: %w\n%s", err, out)
	}
	return binary, nil
}

// process is the real binary, running by itself. Its pauses are the shipped ones
// and its clock is the machine's.
type process struct {
	binary string
	conf   app.Config
	cmd    chan *exec.Cmd // the one that runs
	killed atomic.Bool
}

func asProcess(binary string) opener {
	return func(_ context.Context, c app.Config) (bot, error) {
		return &process{binary: binary, conf: c, cmd: make(chan *exec.Cmd, 1)}, nil
	}
}

// Run runs the binary until ctx ends, and then lets it stop in order.
func (p *process) Run(ctx context.Context) error {
	log, err := os.Create(filepath.Join(p.conf.Files.Dir, "bot.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, p.binary, "serve")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 15 * time.Second
	cmd.Stdout, cmd.Stderr = log, log
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "BLASTDOOR_") && !strings.HasPrefix(pair, "SLACK_") {
			cmd.Env = append(cmd.Env, pair)
		}
	}
	cmd.Env = append(cmd.Env, "BLASTDOOR_DATA="+p.conf.Files.Dir, "BLASTDOOR_SLACK_API_URL="+p.conf.SlackAPIURL,
		"SLACK_BOT_TOKEN="+p.conf.BotToken, "SLACK_APP_TOKEN="+p.conf.AppToken)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the bot: %w", err)
	}
	p.cmd <- cmd
	err = cmd.Wait()
	if p.killed.Load() || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// Close does nothing: the process has ended with Run.
func (p *process) Close() error { return nil }

// kill ends the bot's process without giving it a chance to do anything.
func (s *stage) kill() {
	if s.err != nil {
		return
	}
	p, ok := s.bot.(*process)
	if !ok {
		s.fail(errors.New("only a process can be killed"))
		return
	}
	cmd := <-p.cmd
	p.killed.Store(true)
	s.fail(cmd.Process.Kill())
	s.stop()
	s.fail(s.ws.WaitConnections(s.ctx, 0))
}
