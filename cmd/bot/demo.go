package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"blastdoor"
	"blastdoor/chat/slacksim"
	"blastdoor/internal/app"
	"blastdoor/simenv"
)

const demoHelp = `Starts a Slack workspace that runs on this machine only, a simulated infrastructure, and the
bot as a second process that connects to the workspace over Socket Mode with the real client.
Type what people do, and see what they would see:

  alice /runbook run drain-host-a     say something as alice, bob, carol, mallory, gina, erin, dora
  bob approve                         click a button of the newest card that has one (or: decline)
  kill | start                        SIGKILL the bot; start it again
  quit

With --play the story is played without anyone at the keyboard; the exit status is 0 when the
write happened exactly once and the log verifies, else 1 and the reason.

  --data DIR   keep the data in DIR (default: a temporary directory, removed at the end)
`

// demonstration is a workspace, an infrastructure and a bot process.
type demonstration struct {
	p       program
	ws      *slacksim.Workspace
	files   app.Files
	bot     *botProcess
	cleanup func() error
}

func (p program) demo(ctx context.Context, args []string) error {
	var play bool
	var data string
	rest, err := parse("demo", args, func(f *flag.FlagSet) {
		f.BoolVar(&play, "play", false, "")
		f.StringVar(&data, "data", "", "")
	})
	if err != nil {
		return err
	}
	if err := none("demo", rest); err != nil {
		return err
	}
	d, err := p.startDemo(ctx, data)
	if err != nil {
		return err
	}
	if play {
		return errors.Join(d.play(ctx), d.close())
	}
	return errors.Join(d.converse(ctx), d.close())
}

func (p program) startDemo(ctx context.Context, data string) (*demonstration, error) {
	d := &demonstration{p: p, cleanup: func() error { return nil }}
	if data == "" {
		dir, err := os.MkdirTemp("", "blastdoor-demo-")
		if err != nil {
			return nil, fmt.Errorf("making a directory for the demo: %w", err)
		}
		data, d.cleanup = dir, func() error { return os.RemoveAll(dir) }
	}
	d.files = app.Files{Dir: data}
	if err := d.open(ctx); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *demonstration) open(ctx context.Context) error {
	world, err := simenv.DefaultWorld()
	if err != nil {
		return err
	}
	err = app.Init(ctx, d.files, app.InitOptions{Origin: "blastdoor-demo", World: world, Now: d.p.now})
	if err != nil && !blastdoor.ErrConflict.Is(err) { // a deployment kept with --data goes on
		return err
	}
	if d.ws, err = slacksim.Start(slacksim.Options{}); err != nil {
		return fmt.Errorf("starting the workspace: %w", err)
	}
	executable, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	d.bot = &botProcess{args: []string{executable, "serve"}, log: filepath.Join(d.files.Dir, "bot.log"),
		environ: append(withoutSettings(d.p.environ), "SLACK_BOT_TOKEN="+d.ws.BotToken(), "SLACK_APP_TOKEN="+d.ws.AppToken(),
			"BLASTDOOR_SLACK_API_URL="+d.ws.APIURL(), "BLASTDOOR_DATA="+d.files.Dir)}
	return d.startBot(ctx)
}

// withoutSettings keeps the demo away from a real deployment's environment.
func withoutSettings(environ []string) []string {
	var out []string
	for _, pair := range environ {
		setting := strings.HasPrefix(pair, "BLASTDOOR_") && !strings.HasPrefix(pair, "BLASTDOOR_TEST_")
		if !setting && !strings.HasPrefix(pair, "SLACK_") {
			out = append(out, pair)
		}
	}
	return out
}

func (d *demonstration) startBot(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	// The socket of a bot that was killed looks alive for a moment; a click must not
	// go there.
	if d.bot.cmd == nil {
		if err := d.ws.WaitConnections(ctx, 0); err != nil {
			return err
		}
	}
	if err := d.bot.start(); err != nil {
		return err
	}
	return d.bot.await(ctx, d.ws.WaitConnected)
}

func (d *demonstration) close() error {
	var errs []error
	if d.bot != nil {
		errs = append(errs, d.bot.stop(10*time.Second))
	}
	if d.ws != nil {
		d.ws.Close()
	}
	return errors.Join(append(errs, d.cleanup())...)
}

// converse lets a person at the terminal act as the people of the workspace.
func (d *demonstration) converse(ctx context.Context) error {
	out := d.p.stdout
	fmt.Fprintf(out, "workspace   %s\ndata        %s\nbot         a second process; its log is %s\n\n", d.ws.URL(), d.files.Dir, d.bot.log)
	fmt.Fprint(out, "Try:  alice /runbook run drain-host-a\nthen: alice approve\nthen: bob approve\nalso: kill, start, help, quit\n\n")
	show := newPrinter(d.ws, out)
	var printing sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer printing.Wait()
	defer cancel()
	printing.Go(func() { show.follow(ctx) })

	lines := make(chan string)
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(d.p.stdin)
		for scanner.Scan() {
			lines <- scanner.Text()
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case line, ok := <-lines:
			if !ok {
				fmt.Fprintln(out, "(no more input; running until interrupted)")
				<-ctx.Done()
				return nil
			}
			done, err := d.obey(ctx, strings.TrimSpace(line))
			if err != nil {
				fmt.Fprintf(out, "! %v\n", err)
			}
			if done {
				return nil
			}
		}
	}
}

// obey does what one line says. It reports whether that was the end.
func (d *demonstration) obey(ctx context.Context, line string) (bool, error) {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "":
		return false, nil
	case "quit", "exit":
		return true, nil
	case "help":
		fmt.Fprint(d.p.stdout, demoHelp)
		return false, nil
	case "kill":
		return false, d.bot.kill()
	case "start":
		return false, d.startBot(ctx)
	}
	outcome, err := d.act(word, strings.TrimSpace(rest))
	if err != nil {
		return false, err
	}
	if outcome.Shown != "" {
		fmt.Fprintf(d.p.stdout, "(%s sees: %s)\n", word, outcome.Shown)
	}
	return false, nil
}

// act is what one person does in #ops: a slash command, a click, or a word.
func (d *demonstration) act(who, what string) (slacksim.Outcome, error) {
	person := d.ws.As(who)
	switch {
	case strings.HasPrefix(what, "/"):
		return person.Slash("ops", what)
	case what == "approve" || what == "decline":
		card, ok := newestWith(person.Messages("ops"), what)
		if !ok {
			return slacksim.Outcome{}, fmt.Errorf("no card has a button %q", what)
		}
		return person.Click(card, what)
	case what == "":
		return slacksim.Outcome{}, fmt.Errorf("what does %s do? (help says how)", who)
	default:
		_, err := person.Say("ops", what)
		return slacksim.Outcome{}, err
	}
}

func newestWith(messages []slacksim.Message, actionID string) (slacksim.Message, bool) {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].HasButton(actionID) {
			return messages[i], true
		}
	}
	return slacksim.Message{}, false
}
