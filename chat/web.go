package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/slack-go/slack"
)

// web is the part of Slack's Web API that the bot uses. It never retries by
// itself: a retried post is a second message.
type web struct {
	api    *slack.Client
	apiURL *url.URL
}

// callTimeout bounds one call. Slack answers in well under a second; after this
// long the outcome of a post is unknown.
const callTimeout = 15 * time.Second

// httpClient does not follow redirects: a redirected response_url would take an
// answer to a host that nobody checked.
func httpClient() *http.Client {
	return &http.Client{Timeout: callTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func newWeb(token, appToken, apiURL string) (*web, error) {
	if apiURL == "" {
		apiURL = slack.APIURL
	}
	u, err := url.Parse(apiURL)
	if err != nil || u.Host == "" || !strings.HasSuffix(apiURL, "/") {
		return nil, fmt.Errorf("the API address %q must be an absolute URL that ends in /", apiURL)
	}
	// OptionDebug is never set: it shortens every connection to six minutes.
	api := slack.New(token, slack.OptionAppLevelToken(appToken), slack.OptionAPIURL(apiURL),
		slack.OptionHTTPClient(httpClient()))
	return &web{api: api, apiURL: u}, nil
}

// options are the parts common to every message that is sent.
func (m Message) options() ([]slack.MsgOption, error) {
	opts := []slack.MsgOption{slack.MsgOptionText(m.Text, false), slack.MsgOptionDisableLinkUnfurl(), slack.MsgOptionDisableMediaUnfurl()}
	if len(m.Blocks) == 0 {
		return opts, nil
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(m.Blocks, &raw); err != nil {
		return nil, fmt.Errorf("reading blocks: %w", err)
	}
	blocks := make([]slack.Block, len(raw))
	for i, r := range raw {
		b, err := slack.BlockFromJSON(string(r))
		if err != nil {
			return nil, fmt.Errorf("reading block %d: %w", i, err)
		}
		blocks[i] = b
	}
	return append(opts, slack.MsgOptionBlocks(blocks...)), nil
}

// post sends a new message and returns its address.
func (w *web) post(ctx context.Context, channel, thread string, m Message, meta slack.SlackMetadata) (string, error) {
	opts, err := m.options()
	if err != nil {
		return "", err
	}
	opts = append(opts, slack.MsgOptionMetadata(meta))
	if thread != "" {
		opts = append(opts, slack.MsgOptionTS(thread))
	}
	_, ts, err := w.api.PostMessageContext(ctx, channel, opts...)
	if err != nil {
		return "", fmt.Errorf("posting to %s: %w", channel, err)
	}
	if ts == "" {
		return "", fmt.Errorf("posting to %s: the answer holds no address", channel)
	}
	return ts, nil
}

// update replaces a message of ours. Doing it twice is doing it once.
func (w *web) update(ctx context.Context, channel, ts string, m Message) error {
	opts, err := m.options()
	if err != nil {
		return err
	}
	if _, _, _, err := w.api.UpdateMessageContext(ctx, channel, ts, opts...); err != nil {
		return fmt.Errorf("updating %s/%s: %w", channel, ts, err)
	}
	return nil
}

// remove deletes a message of ours.
func (w *web) remove(ctx context.Context, channel, ts string) error {
	if _, _, err := w.api.DeleteMessageContext(ctx, channel, ts); err != nil {
		return fmt.Errorf("deleting %s/%s: %w", channel, ts, err)
	}
	return nil
}

// whisper sends a message that one person of a channel sees.
func (w *web) whisper(ctx context.Context, channel, user string, m Message) (string, error) {
	opts, err := m.options()
	if err != nil {
		return "", err
	}
	ts, err := w.api.PostEphemeralContext(ctx, channel, user, opts...)
	if err != nil {
		return "", fmt.Errorf("answering privately in %s: %w", channel, err)
	}
	return ts, nil
}

// direct sends a message to one person outside any channel.
func (w *web) direct(ctx context.Context, user string, m Message) error {
	opts, err := m.options()
	if err != nil {
		return err
	}
	im, _, _, err := w.api.OpenConversationContext(ctx, &slack.OpenConversationParameters{Users: []string{user}, ReturnIM: true})
	if err != nil {
		return fmt.Errorf("opening a conversation with %s: %w", user, err)
	}
	if _, _, err := w.api.PostMessageContext(ctx, im.ID, opts...); err != nil {
		return fmt.Errorf("writing to %s: %w", user, err)
	}
	return nil
}

// respond answers through a response_url. The URL is as good as a secret: it is in
// no error and no log.
// Source: https://docs.slack.dev/interactivity/handling-user-interaction#message_responses
func (w *web) respond(ctx context.Context, responseURL string, m Message) error {
	if !w.mayRespondTo(responseURL) {
		return fmt.Errorf("answering through a response URL: the host is not Slack's")
	}
	opts, err := m.options()
	if err != nil {
		return err
	}
	opts = append(opts, slack.MsgOptionResponseURL(responseURL, slack.ResponseTypeEphemeral))
	if _, _, err := w.api.PostMessageContext(ctx, "", opts...); err != nil {
		if urlErr, ok := errors.AsType[*url.Error](err); ok {
			err = urlErr.Err // the outer error quotes the URL
		}
		return fmt.Errorf("answering through a response URL: %w", err)
	}
	return nil
}

// mayRespondTo allows https hosts of Slack, and the host that all API calls go to.
func (w *web) mayRespondTo(responseURL string) bool {
	u, err := url.Parse(responseURL)
	if err != nil || u.User != nil {
		return false
	}
	if u.Scheme == w.apiURL.Scheme && strings.EqualFold(u.Host, w.apiURL.Host) {
		return true
	}
	host := strings.ToLower(u.Hostname())
	return u.Scheme == "https" && (u.Port() == "" || u.Port() == "443") &&
		(host == "slack.com" || strings.HasSuffix(host, ".slack.com"))
}

// fate is what an error of a call says about its effect. The zero value is doubt.
type fate int

const (
	// inDoubt: the call may or may not have had its effect.
	inDoubt fate = iota
	// notDone: it had no effect and may be tried again.
	notDone
	// throttled: it had no effect; Slack says when to try again.
	throttled
	// refused: it had no effect and never will.
	refused
)

// judge says what an error means for the message, how long Slack asked to wait,
// and Slack's own word for it.
// Source: the errors of https://docs.slack.dev/reference/methods/chat.postMessage
func judge(err error) (f fate, wait time.Duration, word string) {
	const noHint = 30 * time.Second // Slack gave no Retry-After
	if limited, ok := errors.AsType[*slack.RateLimitedError](err); ok {
		return throttled, limited.RetryAfter, "ratelimited"
	}
	if status, ok := errors.AsType[slack.StatusCodeError](err); ok {
		word = fmt.Sprintf("http_%d", status.Code)
		switch {
		case status.Code == http.StatusTooManyRequests:
			return throttled, noHint, "ratelimited"
		case status.Code >= 500 || status.Code == http.StatusRequestTimeout:
			return inDoubt, 0, word
		default:
			return refused, 0, word
		}
	}
	if answer, ok := errors.AsType[slack.SlackErrorResponse](err); ok {
		switch answer.Err {
		case "ratelimited", "rate_limited", "message_limit_exceeded":
			return throttled, noHint, answer.Err
		case "internal_error", "fatal_error", "request_timeout", "service_unavailable", "team_added_to_org":
			return inDoubt, 0, answer.Err
		default:
			return refused, 0, answer.Err
		}
	}
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		return notDone, 0, "unreachable"
	}
	return inDoubt, 0, "no_answer"
}

// tooBig reports whether Slack's word says that a smaller message could pass.
func tooBig(word string) bool {
	switch word {
	case "msg_too_long", "msg_blocks_too_long", "invalid_blocks", "invalid_blocks_format", "metadata_too_large":
		return true
	}
	return false
}

// fatal are the errors of a token that no retry can heal, each with the way out.
func fatal(err error) (string, bool) {
	answer, ok := errors.AsType[slack.SlackErrorResponse](err)
	if !ok {
		return "", false
	}
	switch answer.Err {
	case "invalid_auth", "not_authed", "missing_args":
		return "Slack does not know the token: copy it again from the app's settings", true
	case "account_inactive", "token_revoked":
		return "the token has been revoked: reinstall the app and copy the new one", true
	case "token_expired":
		return "the token has expired: turn token rotation off or copy a new one", true
	case "no_permission", "missing_scope":
		return "the token lacks a scope (needed: " + answer.Needed + "): add it in the app's settings and reinstall", true
	case "not_allowed_token_type":
		return "this is the wrong kind of token: the bot token begins with xoxb-, the app-level token with xapp-", true
	}
	return "", false
}

// installation is who we are, as Slack says.
type installation struct {
	TeamID       string
	EnterpriseID string
	BotUserID    string
	BotID        string
}

// whoAmI asks which workspace the token belongs to.
func (w *web) whoAmI(ctx context.Context) (installation, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := w.api.AuthTestContext(ctx)
	if err != nil {
		return installation{}, fmt.Errorf("asking Slack who the bot is: %w", err)
	}
	if answer.TeamID == "" || answer.UserID == "" {
		return installation{}, fmt.Errorf("asking Slack who the bot is: the answer names no team or user")
	}
	return installation{TeamID: answer.TeamID, EnterpriseID: answer.EnterpriseID, BotUserID: answer.UserID, BotID: answer.BotID}, nil
}
