package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sethvargo/go-envconfig"

	"blastdoor"
	"blastdoor/internal/app"
)

// secret is a value that is never printed.
type secret string

func (secret) String() string               { return "[redacted]" }
func (secret) GoString() string             { return "[redacted]" }
func (secret) LogValue() slog.Value         { return slog.StringValue("[redacted]") }
func (secret) MarshalJSON() ([]byte, error) { return []byte(`"[redacted]"`), nil }

// config is the environment. configHelp is its manual; keep them together.
type config struct {
	BotToken    secret     `env:"SLACK_BOT_TOKEN"`
	AppToken    secret     `env:"SLACK_APP_TOKEN"`
	SlackAPIURL string     `env:"BLASTDOOR_SLACK_API_URL"`
	Data        string     `env:"BLASTDOOR_DATA, default=blastdoor-data"`
	Runbooks    string     `env:"BLASTDOOR_RUNBOOKS"`
	Policy      string     `env:"BLASTDOOR_POLICY"`
	World       string     `env:"BLASTDOOR_WORLD"`
	Origin      string     `env:"BLASTDOOR_ORIGIN, default=blastdoor"`
	LogLevel    slog.Level `env:"BLASTDOOR_LOG_LEVEL, default=INFO"`
}

const configHelp = `
Environment:
  SLACK_BOT_TOKEN          xoxb-…, from OAuth & Permissions of the Slack app
  SLACK_APP_TOKEN          xapp-…, with the scope connections:write
  BLASTDOOR_DATA           directory of the database and keys (blastdoor-data)
  BLASTDOOR_RUNBOOKS       directory of runbooks and policy.yaml (the shipped ones)
  BLASTDOOR_POLICY         file of the policy (policy.yaml beside the runbooks), or
                           shipped:policy-strict.yaml
  BLASTDOOR_WORLD          init: YAML file of the simulated infrastructure (the shipped one)
  BLASTDOOR_ORIGIN         init: name of this deployment in signed heads (blastdoor)
  BLASTDOOR_LOG_LEVEL      DEBUG, INFO, WARN or ERROR (INFO)
  BLASTDOOR_SLACK_API_URL  another Slack API; on loopback only, for tests and the demo
`

func known() []string {
	return []string{"BLASTDOOR_SLACK_API_URL", "BLASTDOOR_DATA", "BLASTDOOR_RUNBOOKS", "BLASTDOOR_POLICY", "BLASTDOOR_WORLD",
		"BLASTDOOR_ORIGIN", "BLASTDOOR_LOG_LEVEL"}
}

// config reads the environment. A BLASTDOOR_ variable that does not exist is an
// error: a mistyped name must not silently mean its default.
func (p program) config(ctx context.Context) (config, error) {
	vars := map[string]string{}
	for _, pair := range p.environ {
		name, value, _ := strings.Cut(pair, "=")
		vars[name] = value
		if strings.HasPrefix(name, "BLASTDOOR_") && !strings.HasPrefix(name, "BLASTDOOR_TEST_") && !slices.Contains(known(), name) {
			return config{}, &blastdoor.Error{Code: blastdoor.ErrUsage, Where: name, Msg: "there is no such setting",
				Want: "the settings are " + strings.Join(slices.Sorted(slices.Values(known())), ", ")}
		}
	}
	maps.DeleteFunc(vars, func(_, value string) bool { return value == "" })
	var c config
	if err := envconfig.ProcessWith(ctx, &envconfig.Config{Target: &c, Lookuper: envconfig.MapLookuper(vars)}); err != nil {
		return config{}, &blastdoor.Error{Code: blastdoor.ErrUsage, Msg: "reading the environment", Want: "see `bot help serve`", Err: err}
	}
	return c, nil
}

func (c config) files() app.Files { return app.Files{Dir: filepath.Clean(c.Data)} }

// forSlack checks what serving needs. All that is wrong is said at once.
func (c config) forSlack() error {
	var errs []error
	token := func(name string, value secret, prefix, where string) {
		if strings.HasPrefix(string(value), prefix) && len(value) > len(prefix) {
			return
		}
		problem := "is not set"
		if value != "" {
			problem = fmt.Sprintf("does not begin with %s", prefix)
		}
		errs = append(errs, &blastdoor.Error{Code: blastdoor.ErrUsage, Where: name, Msg: problem,
			Want: where + "; docs/slack-app.md has the steps, and `bot demo` needs no Slack"})
	}
	token("SLACK_BOT_TOKEN", c.BotToken, "xoxb-", "copy it from OAuth & Permissions of the Slack app")
	token("SLACK_APP_TOKEN", c.AppToken, "xapp-", "make it under Basic Information → App-Level Tokens, with connections:write")
	if err := checkAPIURL(c.SlackAPIURL); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// checkAPIURL lets the tokens go to nobody but Slack, or a workspace on this machine.
func checkAPIURL(raw string) error {
	if raw == "" {
		return nil
	}
	u, err := url.Parse(raw)
	if err == nil && u.Scheme == "http" && strings.HasSuffix(u.Path, "/") {
		if ip := net.ParseIP(u.Hostname()); ip.IsLoopback() || u.Hostname() == "localhost" {
			return nil
		}
	}
	return &blastdoor.Error{Code: blastdoor.ErrUsage, Where: "BLASTDOOR_SLACK_API_URL", Msg: fmt.Sprintf("%q is not a workspace on this machine", raw),
		Want: "leave it unset for Slack itself; else http://127.0.0.1:PORT/api/"}
}

// logger writes to stderr: JSON lines, one an event.
func (p program) logger(c config) *slog.Logger {
	return slog.New(slog.NewJSONHandler(p.stderr, &slog.HandlerOptions{Level: c.LogLevel}))
}

func (p program) appConfig(c config) app.Config {
	return app.Config{Files: c.files(), RunbookDir: c.Runbooks, PolicyFile: c.Policy, SlackAPIURL: c.SlackAPIURL,
		BotToken: string(c.BotToken), AppToken: string(c.AppToken), Now: p.now, Logger: p.logger(c)}
}
