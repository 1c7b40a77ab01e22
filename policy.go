package blastdoor

import "time"

// Rule says what a policy does about something it noticed. The zero value denies.
type Rule string

const (
	RuleDeny  Rule = "deny"
	RuleAsk   Rule = "ask"
	RuleAllow Rule = "allow"
)

// Tier tightens a verdict, never loosens it.
type Tier int

const (
	TierUnattended Tier = 0 // may run unattended if the verifier allows it
	TierApproval   Tier = 1 // always needs a second person
	TierForbidden  Tier = 2 // listed so that nobody debates it at 3 a.m.
)

// People is a list of Slack users and user groups, by id. An empty list is nobody.
type People struct {
	Users  []string `json:"users,omitempty"`
	Groups []string `json:"groups,omitempty"`
	// Anyone: every full member of the workspace. Only requesters may say so.
	Anyone bool `json:"anyone,omitempty"`
}

// Approvers are who may approve, and how many different people must.
type Approvers struct {
	Users  []string `json:"users,omitempty"`
	Groups []string `json:"groups,omitempty"`
	Quorum int      `json:"quorum"` // below 1 counts as 1
}

// Freeze forbids changes to some names for a time. It covers a write when a
// target or anything in the radius is named.
type Freeze struct {
	Name   string    `json:"name"`
	Reason string    `json:"reason,omitempty"`
	Names  []string  `json:"names"` // services and hosts; "*" is everything
	From   time.Time `json:"from"`  // inclusive; zero: since ever
	Until  time.Time `json:"until"` // exclusive; zero: until lifted
	// BreakGlass are the people who may act all the same, as themselves and with a
	// reason, when as many others of them agree as Quorum says; nil: nobody.
	BreakGlass *Approvers `json:"break_glass,omitempty"`
}

// BreakGlassKey is how a requester asks to act in spite of a freeze:
// /runbook run NAME break-glass="why". No input of a runbook may be named so.
const BreakGlassKey = "break-glass"

// Active reports whether the freeze holds at now.
func (f Freeze) Active(now time.Time) bool {
	return !now.Before(f.From) && (f.Until.IsZero() || now.Before(f.Until))
}

// ChannelRule says what may be run in a channel and by whom. A channel without a
// rule may run nothing.
type ChannelRule struct {
	ID         string   `json:"id"`       // Slack channel id; a name can be changed by anyone
	Runbooks   []string `json:"runbooks"` // names; "*" is every runbook
	Requesters People   `json:"requesters"`
}

// MenuEntry is one action that may be used at all.
type MenuEntry struct {
	Action string `json:"action"`
	Tier   Tier   `json:"tier"`
	// Approvers of this action; nil means the policy's own.
	Approvers *Approvers `json:"approvers,omitempty"`
	Reason    string     `json:"reason,omitempty"` // tier 2: why never
}

// Policy is what people allow. The zero value allows nothing: its menu is empty.
type Policy struct {
	Name            string        `json:"name"`
	MaxAffected     int           `json:"max_affected"`             // direct + dependents above this: deny
	ApprovalAbove   int           `json:"approval_above"`           // direct + dependents above this: ask
	MaxDownstream   *int          `json:"max_downstream,omitempty"` // nil: shown, not limited
	MaxWritesPerRun int           `json:"max_writes_per_run"`
	Protected       Rule          `json:"protected"`
	ScaleToZero     Rule          `json:"scale_to_zero"`
	RadiusOverlap   Rule          `json:"radius_overlap"`
	MinConfidence   float64       `json:"min_confidence"` // below this: ask
	GraphMaxAge     time.Duration `json:"graph_max_age"`  // older: ask
	GraphWalkBound  int           `json:"graph_walk_bound"`
	ApprovalTTL     time.Duration `json:"approval_ttl"`
	Approvers       Approvers     `json:"approvers"`
	Freezes         []Freeze      `json:"freezes,omitempty"`
	Channels        []ChannelRule `json:"channels,omitempty"`
	Menu            []MenuEntry   `json:"menu,omitempty"` // sorted by action, unique
}

// Entry returns the menu entry of an action.
func (p *Policy) Entry(action string) (MenuEntry, bool) {
	for i := range p.Menu {
		if p.Menu[i].Action == action {
			return p.Menu[i], true
		}
	}
	return MenuEntry{}, false
}

// ApproversOf returns who may approve an action: its own list, else the policy's.
func (p *Policy) ApproversOf(action string) Approvers {
	if e, ok := p.Entry(action); ok && e.Approvers != nil {
		return *e.Approvers
	}
	return p.Approvers
}

// ChannelRule returns the rule of a channel.
func (p *Policy) ChannelRule(id string) (ChannelRule, bool) {
	for i := range p.Channels {
		if p.Channels[i].ID == id {
			return p.Channels[i], true
		}
	}
	return ChannelRule{}, false
}
