package corpus

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"gopkg.in/yaml.v3"

	"blastdoor"
	"blastdoor/chat"
	"blastdoor/chat/slacksim"
	"blastdoor/internal/app"
	"blastdoor/runbooks"
	"blastdoor/simenv"
	"blastdoor/store"
)

// began is when every case begins. Its clock stands still but for what the case says.
var began = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

// clock is the clock of the bot and of the workspace.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) forward(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// mould is a fresh deployment, made once and copied for each case.
type mould struct{ dir string }

func newMould(ctx context.Context, dir string) (mould, error) {
	world, err := simenv.DefaultWorld()
	if err != nil {
		return mould{}, err
	}
	err = app.Init(ctx, app.Files{Dir: dir}, app.InitOptions{Origin: "blastdoor.example/corpus", World: world,
		Now: func() time.Time { return began }})
	return mould{dir}, err
}

// house is a workspace, a deployment and a bot between them, for one case.
type house struct {
	c     *Case
	clock clock
	logs  *logs
	ws    *slacksim.Workspace
	conf  app.Config
	env   *simenv.Env  // the infrastructure, beside the bot
	log   *store.Store // the bot's log, beside the bot
	rules map[string]any

	bot      *app.Bot
	changed  <-chan struct{} // after each commit of the bot
	ended    chan struct{}   // closed when the bot has stopped
	runErr   error           // of a bot that has stopped
	cancel   context.CancelFunc
	refusing string // why the bot did not start again

	runs     map[string]string // label to run id
	requests []string          // run ids, oldest first
	cards    map[string][]slacksim.Message
	length   map[string]int // of each run when it was last looked at
	last     string         // the newest envelope
}

func (m mould) house(ctx context.Context, c *Case, dir string) (*house, error) {
	h := &house{c: c, logs: newLogs(), clock: clock{now: began}, runs: map[string]string{}, cards: map[string][]slacksim.Message{},
		length: map[string]int{}}
	if err := h.build(ctx, m, dir); err != nil {
		return nil, errors.Join(err, h.close())
	}
	return h, nil
}

func (h *house) build(ctx context.Context, m mould, dir string) (err error) {
	if h.ws, err = slacksim.Start(slacksim.Options{Now: h.clock.Now}); err != nil {
		return err
	}
	data, books := filepath.Join(dir, "data"), filepath.Join(dir, "books")
	if err := errors.Join(os.Mkdir(data, 0o700), os.Mkdir(books, 0o700), os.CopyFS(data, os.DirFS(m.dir))); err != nil {
		return err
	}
	if err := h.write(books); err != nil {
		return err
	}
	h.conf = app.Config{Files: app.Files{Dir: data}, RunbookDir: books, SlackAPIURL: h.ws.APIURL(), BotToken: h.ws.BotToken(),
		AppToken: h.ws.AppToken(), Planner: scripted(h.c.Planner), Now: h.clock.Now, Logger: slog.New(h.logs),
		Timing: chat.Timing{Again: 20 * time.Millisecond, Look: 20 * time.Millisecond}}
	if h.env, err = simenv.Open(ctx, h.conf.Files.World(), simenv.Options{Now: h.clock.Now}); err != nil {
		return err
	}
	if err := h.edit(ctx, h.c.World); err != nil {
		return err
	}
	for _, change := range h.c.People {
		if err := h.people(change); err != nil {
			return err
		}
	}
	if h.log, err = store.OpenReadOnly(ctx, h.conf.Files.Store(), store.Options{Now: h.clock.Now}); err != nil {
		return err
	}
	return h.start(ctx)
}

// write writes the runbook and the policy of the case.
func (h *house) write(dir string) error {
	file := []byte(h.c.File)
	if h.c.File == "" {
		book := map[string]any{"name": "case", "steps": h.c.Steps}
		if h.c.Inputs != nil {
			book["inputs"] = h.c.Inputs
		}
		var err error
		if file, err = yaml.Marshal(book); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "case.yaml"), file, 0o600); err != nil {
		return err
	}
	strict, err := fs.ReadFile(runbooks.Shipped(), "policy-strict.yaml")
	if err != nil {
		return err
	}
	if err := yaml.Unmarshal(strict, &h.rules); err != nil {
		return err
	}
	return h.policy(dir, h.c.Policy)
}

// policy replaces keys of the policy; the file appears whole, as from an editor.
func (h *house) policy(dir string, keys map[string]any) error {
	maps.Copy(h.rules, keys)
	data, err := yaml.Marshal(h.rules)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// start opens the bot and returns when Slack counts its connection.
func (h *house) start(ctx context.Context) error {
	bot, err := app.Open(ctx, h.conf)
	if err != nil {
		h.refusing = err.Error()
		return err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	changed, unsubscribe := bot.Subscribe()
	h.bot, h.changed, h.cancel, h.ended = bot, changed, cancel, make(chan struct{})
	go func() {
		defer close(h.ended)
		defer unsubscribe()
		h.runErr = errors.Join(bot.Run(running), bot.Close())
	}()
	return h.ws.WaitConnected(ctx)
}

// stop stops the bot as an operator does, and returns why it had to stop before.
func (h *house) stop(ctx context.Context) error {
	if h.bot == nil {
		return nil
	}
	h.cancel()
	<-h.ended
	h.bot = nil
	return errors.Join(h.runErr, h.ws.WaitConnections(ctx, 0))
}

func (h *house) close() error {
	var errs []error
	if h.bot != nil {
		h.cancel()
		<-h.ended
	}
	if h.log != nil {
		errs = append(errs, h.log.Close())
	}
	if h.env != nil {
		errs = append(errs, h.env.Close())
	}
	if h.ws != nil {
		h.ws.Close()
	}
	return errors.Join(errs...)
}

// rest waits until the bot has nothing to do before somebody does something or
// the clock moves on.
func (h *house) rest(ctx context.Context) error { return h.restOr(ctx, nil, nil) }

// restOr is rest, and does something once when told to meanwhile.
func (h *house) restOr(ctx context.Context, when <-chan struct{}, do func() error) error {
	if h.bot == nil {
		return nil
	}
	for {
		busy, err := h.busy(ctx)
		if err != nil || busy == "" {
			return err
		}
		select {
		case <-h.changed:
		case <-h.logs.changed:
		case <-when:
			if err := do(); err != nil {
				return err
			}
			when = nil
		case <-h.ended:
			return fmt.Errorf("the bot has ended: %w", h.runErr)
		case <-ctx.Done():
			return fmt.Errorf("the bot does not come to rest: %s", busy)
		}
	}
}

// busy says what the bot still has to do, or "".
func (h *house) busy(ctx context.Context) (string, error) {
	counts, err := h.log.Counts(ctx)
	if err != nil {
		return "", err
	}
	if counts.Unsettled > 0 {
		return fmt.Sprintf("%d requests are not answered", counts.Unsettled), nil
	}
	for p, err := range h.log.Projections(ctx) {
		if err != nil {
			return "", err
		}
		if !p.Ended && !h.parked(p) {
			return fmt.Sprintf("run %s is %s after %d events", p.Run.ID, p.Run.Status, p.Run.Len), nil
		}
	}
	due, err := h.log.PendingDeliveries(ctx, h.clock.Now().Add(time.Hour))
	if err != nil {
		return "", err
	}
	for _, d := range due {
		// A refresh that is not urgent may wait a second, and here the clock stands still.
		if d.Urgent || d.TS == "" {
			return "message " + d.ID + " is not delivered", nil
		}
	}
	h.look()
	return "", nil
}

// parked reports whether a run that has not ended waits for a person, the clock or
// a part that is missing.
func (h *house) parked(p blastdoor.Projection) bool {
	id := p.Run.ID
	if h.length[id] != p.Run.Len {
		h.length[id] = p.Run.Len
		h.logs.moved(id)
	}
	return h.clock.Now().Before(p.WakeAt) || h.logs.parked(id) != ""
}

// look notes the questions that hang in the channels now.
func (h *house) look() {
	for _, m := range h.messages() {
		if !m.HasButton("approve") {
			continue
		}
		text := slacksim.PlainText(m)
		for label, id := range h.runs {
			known := slices.ContainsFunc(h.cards[label], func(k slacksim.Message) bool { return k.Channel == m.Channel && k.TS == m.TS })
			if strings.Contains(text, id) && !known {
				h.cards[label] = append(h.cards[label], m)
			}
		}
	}
}

// messages are all that hang in the channels, threads included.
func (h *house) messages() (all []slacksim.Message) {
	for _, channel := range []string{slacksim.Ops, slacksim.General} {
		all = append(all, h.ws.Messages(channel)...)
	}
	return all
}
