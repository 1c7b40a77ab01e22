package chat

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"blastdoor"
)

// Kinds of envelope, as Slack names them.
const (
	slashKind       = "slash_commands"
	interactiveKind = "interactive"
	eventsKind      = "events_api"
)

// The buttons of a card. A button of any other name is not ours to act on.
const (
	approveAction = "approve"
	declineAction = "decline"
)

// origin is where an envelope says it comes from. It is held against the
// installation before anything else is believed.
type origin struct {
	TeamID       string
	EnterpriseID string
	AppID        string
}

// request is one thing that a person asked for, reduced to what is used: the
// payload's deprecated token and the echoed message are not kept.
type request struct {
	Slash *slashRequest `json:"slash,omitempty"`
	Click *clickRequest `json:"click,omitempty"`
}

type slashRequest struct {
	Text        string `json:"text"`
	UserID      string `json:"user"`
	TeamID      string `json:"team"`
	Channel     string `json:"channel"`
	ResponseURL string `json:"response_url,omitempty"`
}

type clickRequest struct {
	Action      string `json:"action"`
	Value       string `json:"value"`
	UserID      string `json:"user"`
	TeamID      string `json:"team"` // of the person, who may be of another workspace
	Channel     string `json:"channel"`
	MessageTS   string `json:"message_ts"`
	ResponseURL string `json:"response_url,omitempty"`
}

// parsed is one envelope, understood.
type parsed struct {
	Origin origin
	Items  []blastdoor.InboxItem // without ReceivedAt; none: nothing to do but acknowledge
}

// parseEnvelope reads an envelope's payload. An envelope of a kind that needs no
// answer has no items. Identity is taken from Slack's authenticated ids alone,
// never from a name.
// Source: https://docs.slack.dev/apis/events-api/using-socket-mode
func parseEnvelope(kind, envelopeID string, payload json.RawMessage) (parsed, error) {
	switch kind {
	case slashKind:
		return parseSlash(envelopeID, payload)
	case interactiveKind:
		return parseInteraction(payload)
	default:
		return parsed{}, nil
	}
}

// parseSlash reads a slash command.
// Source: https://docs.slack.dev/interactivity/implementing-slash-commands
func parseSlash(envelopeID string, payload json.RawMessage) (parsed, error) {
	var p struct {
		TeamID       string `json:"team_id"`
		EnterpriseID string `json:"enterprise_id"`
		ChannelID    string `json:"channel_id"`
		UserID       string `json:"user_id"`
		Text         string `json:"text"`
		AppID        string `json:"api_app_id"`
		ResponseURL  string `json:"response_url"`
		TriggerID    string `json:"trigger_id"`
	}
	if err := json.Unmarshal(payload, &p); err != nil {
		return parsed{}, fmt.Errorf("reading slash command: %w", err)
	}
	if p.UserID == "" || p.ChannelID == "" || p.TeamID == "" {
		return parsed{}, fmt.Errorf("reading slash command: no user, channel or team")
	}
	id := "slash-" + p.TriggerID
	if p.TriggerID == "" {
		id = "envelope-" + envelopeID
	}
	item, err := inboxItem(id, slashKind, request{Slash: &slashRequest{Text: p.Text, UserID: p.UserID,
		TeamID: p.TeamID, Channel: p.ChannelID, ResponseURL: p.ResponseURL}})
	if err != nil {
		return parsed{}, err
	}
	return parsed{Origin: origin{TeamID: p.TeamID, EnterpriseID: p.EnterpriseID, AppID: p.AppID},
		Items: []blastdoor.InboxItem{item}}, nil
}

type blockActions struct {
	Type  string `json:"type"`
	AppID string `json:"api_app_id"`
	Team  *struct {
		ID           string `json:"id"`
		EnterpriseID string `json:"enterprise_id"`
	} `json:"team"`
	Enterprise *struct {
		ID string `json:"id"`
	} `json:"enterprise"`
	User struct {
		ID     string `json:"id"`
		TeamID string `json:"team_id"`
	} `json:"user"`
	Container struct {
		Type        string `json:"type"`
		MessageTS   string `json:"message_ts"`
		ChannelID   string `json:"channel_id"`
		IsEphemeral bool   `json:"is_ephemeral"`
	} `json:"container"`
	ResponseURL string `json:"response_url"`
	Actions     []struct {
		ActionID string `json:"action_id"`
		ActionTS string `json:"action_ts"`
		Value    string `json:"value"`
	} `json:"actions"`
}

// parseInteraction reads the clicks of a block_actions payload: one item for each
// action that is ours, so that each has its own identity and its own answer. Other
// interactions have no items.
// Source: https://docs.slack.dev/reference/interaction-payloads/block_actions-payload
func parseInteraction(payload json.RawMessage) (parsed, error) {
	var p blockActions
	if err := json.Unmarshal(payload, &p); err != nil {
		return parsed{}, fmt.Errorf("reading interaction: %w", err)
	}
	out := parsed{Origin: origin{AppID: p.AppID}}
	if p.Team != nil {
		out.Origin.TeamID, out.Origin.EnterpriseID = p.Team.ID, p.Team.EnterpriseID
	}
	if p.Enterprise != nil && p.Enterprise.ID != "" {
		out.Origin.EnterpriseID = p.Enterprise.ID
	}
	if p.Type != "block_actions" {
		return out, nil
	}
	for _, a := range p.Actions {
		if a.ActionID != approveAction && a.ActionID != declineAction {
			continue
		}
		if p.User.ID == "" || p.Container.ChannelID == "" || p.Container.MessageTS == "" {
			return parsed{}, fmt.Errorf("reading interaction: a click without user, channel or message")
		}
		id := clickID(p.Container.ChannelID, p.Container.MessageTS, a.ActionTS, p.User.ID, a.ActionID)
		item, err := inboxItem(id, interactiveKind, request{Click: &clickRequest{Action: a.ActionID, Value: a.Value,
			UserID: p.User.ID, TeamID: p.User.TeamID, Channel: p.Container.ChannelID,
			MessageTS: p.Container.MessageTS, ResponseURL: p.ResponseURL}})
		if err != nil {
			return parsed{}, err
		}
		out.Items = append(out.Items, item)
	}
	return out, nil
}

// clickID derives the identity of a click from Slack's own: the same press of the
// same button has the same ID however often it is delivered.
func clickID(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return "click-" + hex.EncodeToString(sum[:16])
}

func inboxItem(id, kind string, r request) (blastdoor.InboxItem, error) {
	payload, err := json.Marshal(r)
	if err != nil {
		return blastdoor.InboxItem{}, fmt.Errorf("encoding request %s: %w", id, err)
	}
	return blastdoor.InboxItem{ID: id, Kind: kind, Payload: payload}, nil
}

// buttonValue is what a button carries: only names of what is stored, never a
// command, so that a forged value can at most name something it does not match.
type buttonValue struct{ RunID, ApprovalID, PlanHash string }

func (v buttonValue) String() string {
	return strings.Join([]string{"v1", v.RunID, v.ApprovalID, v.PlanHash}, "|")
}

// parseButtonValue reads a button's value; false when this program did not write it.
func parseButtonValue(s string) (buttonValue, bool) {
	parts := strings.Split(s, "|")
	if len(s) > 2000 || len(parts) != 4 || parts[0] != "v1" || parts[1] == "" || parts[2] == "" || parts[3] == "" {
		return buttonValue{}, false
	}
	return buttonValue{RunID: parts[1], ApprovalID: parts[2], PlanHash: parts[3]}, true
}
