package slacksim

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// newMux routes the paths of the server. Later pages for people hang on the same mux.
func (ws *Workspace) newMux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("/api/{method}", ws.serveAPI)
	mux.HandleFunc("GET /link/", ws.serveSocket)
	mux.HandleFunc("POST /commands/{secret}", ws.serveResponseURL)
	mux.HandleFunc("POST /actions/{secret}", ws.serveResponseURL)
	mux.HandleFunc("POST /upload/v1/{file}", ws.serveUpload)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "A simulated Slack workspace: %s. API: %s\n", ws.team.Name, ws.APIURL())
	})
	return mux
}

// guard lets in only callers on this machine that speak to this server by a loopback name. A page in the browser of
// someone on this machine must not reach it (DNS rebinding, cross-site requests), hence the checks of Host and Origin.
func (ws *Workspace) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !loopbackHost(r.RemoteAddr):
			http.Error(w, "loopback only", http.StatusForbidden)
		case !ws.ownHost(r.Host):
			http.Error(w, "unknown Host", http.StatusForbidden)
		case !ws.allowedOrigin(r):
			http.Error(w, "foreign Origin", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func loopbackHost(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (ws *Workspace) ownHost(host string) bool {
	_, port, err := net.SplitHostPort(host)
	_, own, _ := net.SplitHostPort(ws.host)
	return err == nil && port == own && loopbackHost(host)
}

// allowedOrigin accepts no Origin (programs), our own pages, and what the Slack client itself sends when it dials a
// socket; a ticket protects that path.
func (ws *Workspace) allowedOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" || r.URL.Path == "/link/" && origin == "https://api.slack.com" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Scheme == "http" && ws.ownHost(u.Host)
}

// apiError is a refusal in Slack's shape: ok=false, an error code, and more fields for some codes.
type apiError struct {
	code  string
	extra map[string]any
}

func (e *apiError) Error() string { return e.code }

func refuse(code string) error { return &apiError{code: code} }

// call is one request to a Web API method, with the lock held.
type call struct {
	method string
	args   args
}

// serveAPI answers one Web API request: read it, apply faults, check the token, run the method, journal the outcome.
func (ws *Workspace) serveAPI(w http.ResponseWriter, r *http.Request) {
	c := &call{method: r.PathValue("method")}
	var readErr error
	c.args, readErr = readArgs(r)
	f := ws.takeFault(c.method, c.args)
	if f != nil && ws.faultBefore(w, c, f) {
		return
	}
	ws.mu.Lock()
	reply, err := ws.run(c, readErr)
	ws.record(Entry{Kind: KindCall, Name: c.method, Args: c.args.public(), Outcome: outcome(f, err), Reply: reply})
	ws.bump()
	ws.mu.Unlock()
	ws.opts.Logger.DebugContext(r.Context(), "api call", "method", c.method, "outcome", outcome(f, err))
	if f != nil && ws.faultAfter(w, f) {
		return
	}
	writeReply(w, reply, err)
}

// run checks a call and runs it. The caller holds mu.
func (ws *Workspace) run(c *call, readErr error) (map[string]any, error) {
	rt, known := ws.api[c.method]
	switch {
	case !known:
		return nil, refuse("unknown_method")
	case readErr != nil:
		return nil, readErr
	}
	if err := ws.authorize(c, rt); err != nil {
		return nil, err
	}
	return rt.handle(c)
}

func outcome(f *Fault, err error) string {
	s := "ok"
	if err != nil {
		s = err.Error()
	}
	if f != nil {
		s += " (" + f.Kind.String() + ")"
	}
	return s
}

// writeReply sends a reply or a refusal; both are HTTP 200, as Slack does it.
func writeReply(w http.ResponseWriter, reply map[string]any, err error) {
	body := map[string]any{"ok": err == nil}
	var refusal *apiError
	switch {
	case errors.As(err, &refusal):
		body["error"] = refusal.code
		for k, v := range refusal.extra {
			body[k] = v
		}
	case err != nil:
		body["error"] = "internal_error"
	}
	for k, v := range reply {
		body[k] = v
	}
	raw, err := marshal(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_, _ = w.Write(raw) // the peer may be gone; nobody is left to tell
}

// args are the arguments of a call, whatever way they came. A value that was JSON in a JSON body is its JSON text, which
// is also how clients send such values in a form.
type args map[string]string

const maxBody = 4 << 20

// readArgs accepts every shape the clients use: a form, JSON with a bearer token, a query string.
func readArgs(r *http.Request) (args, error) {
	out := args{}
	r.Body = http.MaxBytesReader(nil, r.Body, maxBody)
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		out["token"] = strings.TrimSpace(bearer)
	}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		return out, out.fromJSON(r)
	}
	if err := r.ParseForm(); err != nil {
		return out, refuse("invalid_form_data")
	}
	for name, values := range r.Form {
		if len(values) > 0 {
			out[name] = values[0]
		}
	}
	return out, nil
}

func (a args) fromJSON(r *http.Request) error {
	var body map[string]json.RawMessage
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil && r.ContentLength != 0 {
		return refuse("invalid_json")
	}
	for name, raw := range body {
		var s string
		switch {
		case string(raw) == "null":
		case json.Unmarshal(raw, &s) == nil:
			a[name] = s
		default:
			a[name] = string(raw)
		}
	}
	return nil
}

func (a args) flag(name string) bool {
	on, _ := strconv.ParseBool(a[name])
	return on
}

// public is a copy without the token.
func (a args) public() map[string]string {
	out := make(map[string]string, len(a))
	for k, v := range a {
		if k != "token" {
			out[k] = v
		}
	}
	return out
}

// number reads a whole number within bounds.
func (a args) number(name string, def, lo, hi int) (int, error) {
	if a[name] == "" {
		return def, nil
	}
	n, err := strconv.Atoi(a[name])
	if err != nil || n < lo || n > hi {
		return 0, refuse("invalid_" + name)
	}
	return n, nil
}
