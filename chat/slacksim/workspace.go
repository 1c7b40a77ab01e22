package slacksim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"
)

// Errors a caller may decide on.
var (
	ErrClosed     = errors.New("the workspace is closed")
	ErrNoUser     = errors.New("no such user")
	ErrNoChannel  = errors.New("no such channel")
	ErrNoGroup    = errors.New("no such user group")
	ErrNoMessage  = errors.New("no such message")
	ErrNoButton   = errors.New("the message has no such button")
	ErrNotVisible = errors.New("this person cannot see that")
	ErrNotAllowed = errors.New("this person may not do that in Slack")
)

// Options configure a workspace; the zero value is a working one.
type Options struct {
	Addr           string           // loopback address to listen on; default 127.0.0.1:0
	World          World            // who and what exists; default DefaultWorld()
	Scopes         []string         // scopes of the bot token; default DefaultScopes()
	Commands       []string         // slash commands of the app; default /runbook
	Now            func() time.Time // wall clock for timestamps and expiries; default time.Now
	AckDeadline    time.Duration    // how long an envelope waits for its ack; default 3 s
	PingInterval   time.Duration    // between the server's WebSocket pings; default 5 s
	ConnectionTime time.Duration    // how long one socket lives before it is refreshed; default 18060 s
	TicketLife     time.Duration    // how long a socket URL may wait for its dial; default 30 s
	RetryDelays    []time.Duration  // before each redelivery of an unacked event; default 0, 1 min, 5 min
	Seed           uint64           // for the choice among connections
	Logger         *slog.Logger     // default: discard
}

func (o Options) withDefaults() Options {
	orDuration := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	orDuration(&o.AckDeadline, 3*time.Second)
	orDuration(&o.PingInterval, 5*time.Second)
	orDuration(&o.ConnectionTime, 18060*time.Second)
	orDuration(&o.TicketLife, 30*time.Second)
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	if len(o.World.Users) == 0 {
		o.World = DefaultWorld()
	}
	if o.Scopes == nil {
		o.Scopes = DefaultScopes()
	}
	if o.Commands == nil {
		o.Commands = []string{"/runbook"}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.RetryDelays == nil {
		o.RetryDelays = []time.Duration{0, time.Minute, 5 * time.Minute}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Workspace is one running Slack workspace with one installed app. Its methods are safe for concurrent use.
type Workspace struct {
	opts Options
	base string // http://host:port
	host string // host:port
	mux  *http.ServeMux
	srv  *http.Server
	api  map[string]route
	stop context.CancelFunc
	ctx  context.Context // ends when the workspace closes
	wg   sync.WaitGroup  // every goroutine but the HTTP server's own
	once sync.Once

	mu         sync.Mutex // guards everything below
	changed    chan struct{}
	rng        *rand.Rand
	team       Team
	app        App
	users      []*User
	groups     []*Group
	channels   []*Channel
	names      map[string]string
	scopes     []string
	authError  string                // when set, every call with a token of the app gets this error
	lastTS     int64                 // microseconds of the newest timestamp given out
	serial     int                   // for ids
	rev        int                   // of messages: counts every change of one
	socketsOff bool                  // Socket Mode is turned off
	messages   map[string][]*Message // by channel, oldest first
	ephemerals []*Message
	triggers   map[string]*trigger
	hooks      map[string]*hook
	views      map[string]*View
	stacks     map[string][]string // open modals of a user, root first
	homes      map[string]string   // Home tab view of a user
	files      map[string]*File
	tickets    map[string]*ticket
	conns      []*conn
	connSerial int
	ghosts     int
	deliveries map[string]*delivery
	faults     []*Fault
	historyLag time.Duration
	journal    []Entry
}

// Start runs a workspace on loopback until Close.
func Start(opts Options) (*Workspace, error) {
	opts = opts.withDefaults()
	if err := opts.World.validate(); err != nil {
		return nil, fmt.Errorf("reading the world: %w", err)
	}
	ln, err := listenLoopback(opts.Addr)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	ws := &Workspace{
		opts: opts, host: ln.Addr().String(), base: "http://" + ln.Addr().String(), ctx: ctx, stop: stop,
		changed: make(chan struct{}), rng: rand.New(rand.NewPCG(opts.Seed, 1)), scopes: opts.Scopes,
		messages: map[string][]*Message{}, triggers: map[string]*trigger{}, hooks: map[string]*hook{},
		views: map[string]*View{}, stacks: map[string][]string{}, homes: map[string]string{}, files: map[string]*File{},
		tickets: map[string]*ticket{}, deliveries: map[string]*delivery{},
	}
	ws.load(opts.World)
	ws.api = ws.routes()
	ws.mux = ws.newMux()
	ws.srv = &http.Server{Handler: ws.guard(ws.mux), ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(opts.Logger.Handler(), slog.LevelDebug)}
	ws.wg.Go(func() { _ = ws.srv.Serve(ln) }) // always http.ErrServerClosed, after Close
	return ws, nil
}

// Close stops the server, closes every socket and waits for what was running. It is safe to call twice.
func (ws *Workspace) Close() {
	ws.once.Do(func() {
		ws.stop()
		_ = ws.srv.Close()
		for _, c := range ws.takeConns() {
			c.cut()
		}
	})
	ws.wg.Wait()
}

// APIURL is what to give the Slack client as its API URL; it ends in /api/.
func (ws *Workspace) APIURL() string { return ws.base + "/api/" }

// URL is the root of the server, for a person's browser.
func (ws *Workspace) URL() string { return ws.base + "/" }

// BotToken is the xoxb token of the app.
func (ws *Workspace) BotToken() string { return botToken }

// AppToken is the xapp token of the app, with the scope connections:write.
func (ws *Workspace) AppToken() string { return appToken }

// App returns the installed app.
func (ws *Workspace) App() App { return ws.app }

// Team returns the workspace's team.
func (ws *Workspace) Team() Team { return ws.team }

// Changed returns a channel that is closed at the next change of anything.
func (ws *Workspace) Changed() <-chan struct{} {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.changed
}

// bump wakes everyone who waits for a change. The caller holds mu.
func (ws *Workspace) bump() {
	close(ws.changed)
	ws.changed = make(chan struct{})
}

// locked runs fn as one step that others see whole, and wakes those who wait.
func (ws *Workspace) locked(fn func()) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	fn()
	ws.bump()
}

// nextTS gives out a message timestamp: the time in microseconds, but never the same twice and never going back.
func (ws *Workspace) nextTS() string {
	us := ws.opts.Now().UnixMicro()
	if us <= ws.lastTS {
		us = ws.lastTS + 1
	}
	ws.lastTS = us
	return formatTS(us)
}

func formatTS(us int64) string { return fmt.Sprintf("%d.%06d", us/1e6, us%1e6) }

// nextID gives out an id that is not used for anything else in this workspace.
func (ws *Workspace) nextID(prefix string) string {
	ws.serial++
	return fmt.Sprintf("%s%05d", prefix, ws.serial)
}

func listenLoopback(addr string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("reading the address %q: %w", addr, err)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return nil, fmt.Errorf("listening on %s: only a loopback address such as 127.0.0.1 is allowed", addr)
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	return ln, nil
}
