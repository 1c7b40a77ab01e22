package slacksim

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"blastdoor/chat/blockkit"
)

const (
	maxViewStack = 3
	triggerLife  = 3 * time.Second // how long a trigger id may be exchanged for a view
)

// trigger is a short right to open a view for one user.
type trigger struct {
	user    string
	expires time.Time
	used    bool
}

// View is an open modal or a published Home tab.
type View struct {
	ID, Type, User string
	Hash           string
	ExternalID     string
	JSON           json.RawMessage // as stored
	Root, Previous string
}

// newTrigger makes a trigger id. The caller holds mu.
func (ws *Workspace) newTrigger(user string) string {
	id := fmt.Sprintf("%d.%d.%016x", ws.opts.Now().UnixMilli(), len(ws.triggers)+1, ws.rng.Uint64())
	ws.triggers[id] = &trigger{user: user, expires: ws.opts.Now().Add(triggerLife)}
	return id
}

func (ws *Workspace) exchange(id string) (string, error) {
	t := ws.triggers[id]
	switch {
	case t == nil:
		return "", refuse("invalid_trigger_id")
	case t.used:
		return "", refuse("exchanged_trigger_id")
	case !ws.opts.Now().Before(t.expires):
		return "", refuse("expired_trigger_id")
	}
	t.used = true
	return t.user, nil
}

// readView checks a view and returns it in stored form.
func (ws *Workspace) readView(raw, wantType string) (*View, error) {
	if problems := blockkit.CheckView(json.RawMessage(raw)); len(problems) > 0 {
		return nil, invalidBlocks("invalid_arguments", problems)
	}
	var head struct {
		Type       string `json:"type"`
		ExternalID string `json:"external_id"`
	}
	if err := json.Unmarshal([]byte(raw), &head); err != nil || head.Type != wantType {
		return nil, refuse("invalid_arguments")
	}
	for _, v := range ws.views {
		if head.ExternalID != "" && v.ExternalID == head.ExternalID {
			return nil, refuse("duplicate_external_id")
		}
	}
	stored, err := blockkit.StoredBlocks(json.RawMessage(raw))
	if err != nil {
		return nil, err
	}
	return &View{Type: head.Type, ExternalID: head.ExternalID, JSON: stored}, nil
}

func (ws *Workspace) keepView(v *View, user string) map[string]any {
	if v.ID == "" {
		v.ID = ws.nextID("V")
	}
	v.User, v.Hash = user, ws.nextTS()+".h"
	ws.views[v.ID] = v
	return map[string]any{"view": ws.wireView(v)}
}

func (ws *Workspace) wireView(v *View) map[string]any {
	out := map[string]any{}
	_ = json.Unmarshal(v.JSON, &out) // it was encoded here
	for key, value := range map[string]any{"id": v.ID, "team_id": ws.team.ID, "hash": v.Hash, "root_view_id": v.Root, "app_id": ws.app.ID,
		"bot_id": ws.app.BotID, "state": map[string]any{"values": map[string]any{}}} {
		out[key] = value
	}
	out["previous_view_id"] = nil
	if v.Previous != "" {
		out["previous_view_id"] = v.Previous
	}
	return out
}

func (ws *Workspace) openView(c *call) (map[string]any, error) {
	v, err := ws.readView(c.args["view"], "modal")
	if err != nil {
		return nil, err
	}
	user, err := ws.exchange(c.args["trigger_id"])
	if err != nil {
		return nil, err
	}
	v.ID = ws.nextID("V")
	v.Root = v.ID
	ws.stacks[user] = []string{v.ID}
	return ws.keepView(v, user), nil
}

func (ws *Workspace) pushView(c *call) (map[string]any, error) {
	v, err := ws.readView(c.args["view"], "modal")
	if err != nil {
		return nil, err
	}
	user, err := ws.exchange(c.args["trigger_id"])
	if err != nil {
		return nil, err
	}
	stack := ws.stacks[user]
	switch {
	case len(stack) == 0:
		return nil, refuse("not_found")
	case len(stack) >= maxViewStack:
		return nil, refuse("push_limit_reached")
	}
	v.Root, v.Previous = stack[0], stack[len(stack)-1]
	out := ws.keepView(v, user)
	ws.stacks[user] = append(slices.Clone(stack), v.ID)
	return out, nil
}

func (ws *Workspace) updateView(c *call) (map[string]any, error) {
	old := ws.views[c.args["view_id"]]
	if old == nil {
		for _, v := range ws.views {
			if v.ExternalID != "" && v.ExternalID == c.args["external_id"] {
				old = v
			}
		}
	}
	switch {
	case old == nil:
		return nil, refuse("not_found")
	case c.args["hash"] != "" && c.args["hash"] != old.Hash:
		return nil, refuse("hash_conflict")
	}
	external := old.ExternalID
	old.ExternalID = "" // the new version may keep it
	v, err := ws.readView(c.args["view"], old.Type)
	if err != nil {
		old.ExternalID = external
		return nil, err
	}
	v.ID, v.Root, v.Previous = old.ID, old.Root, old.Previous
	return ws.keepView(v, old.User), nil
}

func (ws *Workspace) publishView(c *call) (map[string]any, error) {
	u := ws.user(c.args["user_id"])
	if u == nil || u.ID != c.args["user_id"] || u.Deleted || u.TeamID != ws.team.ID {
		return nil, refuse("user_not_found")
	}
	v, err := ws.readView(c.args["view"], "home")
	if err != nil {
		return nil, err
	}
	if id := ws.homes[u.ID]; id != "" {
		if h := c.args["hash"]; h != "" && h != ws.views[id].Hash {
			return nil, refuse("hash_conflict")
		}
		v.ID = id
	}
	out := ws.keepView(v, u.ID)
	ws.homes[u.ID] = v.ID
	return out, nil
}

// Home returns the Home tab the app published for a user.
func (ws *Workspace) Home(user string) (View, bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	u := ws.user(user)
	if u == nil || ws.homes[u.ID] == "" {
		return View{}, false
	}
	return *ws.views[ws.homes[u.ID]], true
}

// Modals returns the modals a user has open, the root first.
func (ws *Workspace) Modals(user string) []View {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	u := ws.user(user)
	if u == nil {
		return nil
	}
	var out []View
	for _, id := range ws.stacks[u.ID] {
		out = append(out, *ws.views[id])
	}
	return out
}
