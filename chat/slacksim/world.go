package slacksim

import (
	"fmt"
	"slices"
)

// Ids of the default world.
const (
	TeamID      = "T0ACME"
	OtherTeamID = "T0OTHER" // where external people come from

	AppID     = "A0RUNBOOK"
	BotUserID = "U0RUNBOOK" // the app's bot user
	BotID     = "B0RUNBOOK"

	Alice    = "U0ALICE"
	Bob      = "U0BOB"
	Carol    = "U0CAROL"
	Mallory  = "U0MALLORY" // a member outside every group
	Gina     = "U0GINA"    // a multi-channel guest
	Uma      = "U0UMA"     // a single-channel guest
	Erin     = "U0ERIN"    // from another workspace, through Slack Connect
	Dora     = "U0DORA"    // deactivated
	Ivan     = "U0IVAN"    // invited, has not joined yet
	OtherBot = "U0DEPLOYBOT"
	Slackbot = "USLACKBOT"

	SRE = "S0SRE" // the user group @sre: Bob and Carol

	Ops      = "C0OPS"
	General  = "C0GENERAL"
	Partners = "C0PARTNERS" // shared with another workspace
	Secret   = "C0SECRET"   // private, without the bot
	Archived = "C0ARCHIVED"
)

// Team is a workspace.
type Team struct{ ID, Domain, Name string }

// App is the one app installed in the workspace.
type App struct{ ID, BotUserID, BotID, Name string }

// User is a person or a bot, with the flags that decide what they may do.
type User struct {
	ID, TeamID, Name, RealName string

	Deleted         bool // deactivated
	Bot             bool
	Restricted      bool // guest
	UltraRestricted bool // single-channel guest; Restricted is then set too
	Stranger        bool // external, with no shared relation
	Invited         bool // has not joined yet
}

// Group is a user group such as @sre.
type Group struct {
	ID, Handle, Name string
	Members          []string
	Disabled         bool
}

// Channel is a channel or a direct message.
type Channel struct {
	ID, Name                               string
	Private, IM                            bool
	ExtShared, PendingExtShared, OrgShared bool
	Archived                               bool
	Members                                []string
}

func (c *Channel) has(user string) bool { return slices.Contains(c.Members, user) }

// World is everything that exists when a workspace starts.
type World struct {
	Team     Team
	App      App
	Users    []User
	Groups   []Group
	Channels []Channel
}

// DefaultWorld is the workspace "acme": see the constants of this package for who is in it.
func DefaultWorld() World {
	member := func(id, name, real string) User { return User{ID: id, TeamID: TeamID, Name: name, RealName: real} }
	with := func(u User, change func(*User)) User { change(&u); return u }
	users := []User{
		member(Alice, "alice", "Alice Adams"),
		member(Bob, "bob", "Bob Brown"),
		member(Carol, "carol", "Carol Chen"),
		member(Mallory, "mallory", "Mallory Moss"),
		with(member(Gina, "gina", "Gina Guest"), func(u *User) { u.Restricted = true }),
		with(member(Uma, "uma", "Uma Ultra"), func(u *User) { u.Restricted, u.UltraRestricted = true, true }),
		{ID: Erin, TeamID: OtherTeamID, Name: "erin", RealName: "Erin Elsewhere", Stranger: true},
		with(member(Dora, "dora", "Dora Departed"), func(u *User) { u.Deleted = true }),
		with(member(Ivan, "ivan", "Ivan Invited"), func(u *User) { u.Invited = true }),
		with(member(OtherBot, "deploybot", "Deploy Bot"), func(u *User) { u.Bot = true }),
		member(Slackbot, "slackbot", "Slackbot"), // Slack says is_bot=false for it
		with(member(BotUserID, "runbook", "Runbook Bot"), func(u *User) { u.Bot = true }),
	}
	everyone := make([]string, 0, len(users))
	for _, u := range users {
		everyone = append(everyone, u.ID)
	}
	return World{
		Team:   Team{ID: TeamID, Domain: "acme", Name: "Acme"},
		App:    App{ID: AppID, BotUserID: BotUserID, BotID: BotID, Name: "runbook"},
		Users:  users,
		Groups: []Group{{ID: SRE, Handle: "sre", Name: "Site reliability", Members: []string{Bob, Carol}}},
		Channels: []Channel{
			{ID: Ops, Name: "ops", Members: everyone},
			{ID: General, Name: "general", Members: []string{Alice, Bob, Carol, Mallory, BotUserID}},
			{ID: Partners, Name: "partners", ExtShared: true, Members: []string{Alice, Bob, Erin, BotUserID}},
			{ID: Secret, Name: "secret", Private: true, Members: []string{Alice, Bob}},
			{ID: Archived, Name: "archived", Archived: true, Members: []string{Alice, BotUserID}},
		},
	}
}

// DefaultScopes are the bot scopes of the app as its manifest asks for them.
func DefaultScopes() []string {
	return []string{"commands", "chat:write", "im:write", "users:read", "usergroups:read", "channels:read", "groups:read",
		"channels:history", "groups:history", "files:write", "reactions:write"}
}

// validate finds ids that are missing, used twice or not defined.
func (w World) validate() error {
	seen := map[string]bool{}
	add := func(id string) error {
		if id == "" || seen[id] {
			return fmt.Errorf("id %q is empty or used twice", id)
		}
		seen[id] = true
		return nil
	}
	for _, u := range w.Users {
		if err := add(u.ID); err != nil {
			return err
		}
	}
	users := len(seen)
	for _, c := range w.Channels {
		if err := add(c.ID); err != nil {
			return err
		}
		for _, m := range c.Members {
			if !slices.ContainsFunc(w.Users, func(u User) bool { return u.ID == m }) {
				return fmt.Errorf("channel %s has the unknown member %q", c.Name, m)
			}
		}
	}
	if users == 0 || !slices.ContainsFunc(w.Users, func(u User) bool { return u.ID == w.App.BotUserID && u.Bot }) {
		return fmt.Errorf("the app's bot user %q is not among the users", w.App.BotUserID)
	}
	return nil
}

// load copies a world into the workspace. Copies, so that a later change cannot reach the caller's value.
func (ws *Workspace) load(w World) {
	ws.team, ws.app = w.Team, w.App
	for _, u := range w.Users {
		ws.users = append(ws.users, &u)
	}
	for _, g := range w.Groups {
		g.Members = slices.Clone(g.Members)
		ws.groups = append(ws.groups, &g)
	}
	for _, c := range w.Channels {
		c.Members = slices.Clone(c.Members)
		ws.channels = append(ws.channels, &c)
	}
	ws.rename()
}

// rename rebuilds the book of names that messages carry for rendering. The old book is left alone: messages already
// handed out still point to it.
func (ws *Workspace) rename() {
	book := make(map[string]string, len(ws.users)+len(ws.channels)+len(ws.groups))
	for _, u := range ws.users {
		book[u.ID] = "@" + u.Name
	}
	for _, c := range ws.channels {
		book[c.ID] = "#" + c.Name
	}
	for _, g := range ws.groups {
		book[g.ID] = "@" + g.Handle
	}
	ws.names = book
}

// user finds a user by id or name; nil if there is none. The caller holds mu, as for the next two.
func (ws *Workspace) user(key string) *User {
	for _, u := range ws.users {
		if u.ID == key || u.Name == key {
			return u
		}
	}
	return nil
}

// channel finds a channel by id or name, with or without #.
func (ws *Workspace) channel(key string) *Channel {
	if len(key) > 0 && key[0] == '#' {
		key = key[1:]
	}
	for _, c := range ws.channels {
		if c.ID == key || c.Name == key {
			return c
		}
	}
	return nil
}

func (ws *Workspace) group(key string) *Group {
	for _, g := range ws.groups {
		if g.ID == key || g.Handle == key {
			return g
		}
	}
	return nil
}

// ChangeUser changes a user's flags while the workspace runs, e.g. deactivates them or makes them a guest.
func (ws *Workspace) ChangeUser(user string, change func(*User)) error {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	u := ws.user(user)
	if u == nil {
		return fmt.Errorf("changing %s: %w", user, ErrNoUser)
	}
	change(u)
	ws.rename()
	ws.bump()
	return nil
}

// Deactivate turns a user's account off.
func (ws *Workspace) Deactivate(user string) error {
	return ws.ChangeUser(user, func(u *User) { u.Deleted = true })
}

// ChangeGroup changes a user group while the workspace runs: its members, or whether it is disabled.
func (ws *Workspace) ChangeGroup(group string, change func(*Group)) error {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	g := ws.group(group)
	if g == nil {
		return fmt.Errorf("changing %s: %w", group, ErrNoGroup)
	}
	change(g)
	ws.rename()
	ws.bump()
	return nil
}

// ChangeChannel changes a channel while the workspace runs, e.g. archives or shares it.
func (ws *Workspace) ChangeChannel(channel string, change func(*Channel)) error {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	c := ws.channel(channel)
	if c == nil {
		return fmt.Errorf("changing %s: %w", channel, ErrNoChannel)
	}
	change(c)
	ws.rename()
	ws.bump()
	return nil
}
