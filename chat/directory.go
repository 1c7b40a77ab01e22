package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slack-go/slack"

	"blastdoor"
)

// Directory asks Slack who a person is, fresh at every call: an answer from a
// minute ago would let someone approve who was deactivated since.
//
// Every failure is an error with code ErrUnavailable, and a doubtful answer (a
// missing flag, another id) is a failure: a person nobody vouches for may do
// nothing.
type Directory struct {
	web     *web
	client  *http.Client
	token   string
	timeout time.Duration

	mu   sync.Mutex
	self installation // zero until Slack has told us
}

// DirectoryOptions configure a Directory.
type DirectoryOptions struct {
	Token  string // bot token (xoxb-)
	APIURL string // empty: Slack's own; must end in /
	// Timeout bounds each question; zero is 2 s. A click waits for the answer.
	Timeout time.Duration
}

// NewDirectory makes a Directory. It does not talk to Slack yet.
func NewDirectory(o DirectoryOptions) (*Directory, error) {
	w, err := newWeb(o.Token, "", o.APIURL)
	if err != nil {
		return nil, fmt.Errorf("opening directory: %w", err)
	}
	if o.Timeout <= 0 {
		o.Timeout = 2 * time.Second
	}
	return &Directory{web: w, client: httpClient(), token: o.Token, timeout: o.Timeout}, nil
}

// person is users.info as far as trust rests on it. The flags are pointers, so
// that an absent one is not read as "no".
// Source: https://docs.slack.dev/reference/objects/user-object
type person struct {
	ID               string `json:"id"`
	TeamID           string `json:"team_id"`
	Deleted          *bool  `json:"deleted"`
	IsBot            *bool  `json:"is_bot"`
	IsRestricted     *bool  `json:"is_restricted"`
	IsUltra          *bool  `json:"is_ultra_restricted"`
	IsStranger       bool   `json:"is_stranger"`
	IsInvited        bool   `json:"is_invited_user"`
	IsWorkflowBot    bool   `json:"is_workflow_bot"`
	IsConnectorBot   bool   `json:"is_connector_bot"`
	Name             string `json:"name"`
	EnterpriseMember *struct {
		ID           string   `json:"id"`
		EnterpriseID string   `json:"enterprise_id"`
		Teams        []string `json:"teams"`
	} `json:"enterprise_user"`
}

// Person looks the user up. teamID is the person's own team as the authenticated
// payload gives it; when Slack's answer names another, the person counts as
// external.
func (d *Directory) Person(ctx context.Context, userID, teamID string) (blastdoor.Principal, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	if !slackID(userID) || teamID == "" {
		return blastdoor.Principal{}, unsure(fmt.Errorf("looking up %q of team %q: not ids of Slack", cut(userID, 40), cut(teamID, 40)))
	}
	self, err := d.installed(ctx)
	if err != nil {
		return blastdoor.Principal{}, unsure(err)
	}
	p, err := d.usersInfo(ctx, userID)
	if err != nil {
		return blastdoor.Principal{}, unsure(fmt.Errorf("looking up %s: %w", userID, err))
	}
	return p.principal(self, teamID), nil
}

// principal turns Slack's flags into ours. Whatever is not plainly a full member
// of the installed workspace, or of its organisation with access to it, is not one.
func (p person) principal(self installation, claimedTeam string) blastdoor.Principal {
	out := blastdoor.Principal{UserID: p.ID, TeamID: p.TeamID, Name: clean(cut(p.Name, 80)), Verified: true,
		Bot:      isTrue(p.IsBot) || p.IsWorkflowBot || p.IsConnectorBot || p.ID == "USLACKBOT" || p.ID == self.BotUserID,
		Guest:    isTrue(p.IsRestricted) || isTrue(p.IsUltra),
		Inactive: isTrue(p.Deleted) || p.IsInvited,
		External: p.IsStranger || p.TeamID != self.TeamID,
	}
	sisters := []string{p.TeamID}
	if e := p.EnterpriseMember; e != nil {
		out.EnterpriseUserID = e.ID
		sisters = append(sisters, e.Teams...)
		colleague := self.EnterpriseID != "" && e.EnterpriseID == self.EnterpriseID && slices.Contains(e.Teams, self.TeamID)
		if colleague && !p.IsStranger {
			out.External = false
		}
	}
	if !slices.Contains(sisters, claimedTeam) {
		out.External = true
	}
	return out
}

func isTrue(flag *bool) bool { return flag != nil && *flag }

// usersInfo asks users.info and is strict about the answer.
func (d *Directory) usersInfo(ctx context.Context, userID string) (person, error) {
	form := url.Values{"token": {d.token}, "user": {userID}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.web.apiURL.JoinPath("users.info").String(), strings.NewReader(form.Encode()))
	if err != nil {
		return person{}, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := d.client.Do(req)
	if err != nil {
		return person{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return person{}, fmt.Errorf("status %d", resp.StatusCode)
	}
	var answer struct {
		OK    bool   `json:"ok"`
		Error string `json:"error"`
		User  person `json:"user"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&answer); err != nil {
		return person{}, fmt.Errorf("reading the answer: %w", err)
	}
	p := answer.User
	switch {
	case !answer.OK:
		return person{}, fmt.Errorf("the answer is %q", cut(answer.Error, 80))
	case p.ID != userID:
		return person{}, fmt.Errorf("the answer is about %q", cut(p.ID, 40))
	case p.TeamID == "":
		return person{}, errors.New("the answer names no team")
	case p.Deleted == nil || p.IsBot == nil:
		return person{}, errors.New("the answer does not say whether this is an active person")
	case !*p.Deleted && !*p.IsBot && !p.IsStranger && (p.IsRestricted == nil || p.IsUltra == nil):
		// Slack leaves these out for deactivated people, who may do nothing anyway.
		return person{}, errors.New("the answer does not say whether this is a guest")
	}
	return p, nil
}

// Groups returns those of the given user groups that the user is a member of, in
// the order given. It fails when any group cannot be read.
func (d *Directory) Groups(ctx context.Context, userID string, groups []string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	var in []string
	for _, group := range groups {
		members, err := d.web.api.GetUserGroupMembersContext(ctx, group, slack.GetUserGroupMembersOptionIncludeDisabled(false))
		if answer, ok := errors.AsType[slack.SlackErrorResponse](err); ok && (answer.Err == "no_such_subteam" || answer.Err == "subteam_not_found") {
			continue
		}
		if err != nil {
			return nil, unsure(fmt.Errorf("listing user group %s: %w", group, err))
		}
		if slices.Contains(members, userID) {
			in = append(in, group)
		}
	}
	return in, nil
}

// installed returns who we are; asked once, as it never changes for a token.
func (d *Directory) installed(ctx context.Context) (installation, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.self.TeamID != "" {
		return d.self, nil
	}
	self, err := d.web.whoAmI(ctx)
	if err != nil {
		return installation{}, err
	}
	d.self = self
	return self, nil
}

func unsure(err error) error {
	return &blastdoor.Error{Code: blastdoor.ErrUnavailable, Msg: "Slack could not be asked who you are",
		Want: "try again in a minute", Err: err}
}
