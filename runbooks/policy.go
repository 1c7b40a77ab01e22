package runbooks

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"gopkg.in/yaml.v3"

	"blastdoor"
)

// The forms of Slack's ids. A policy names people and channels by id, because
// anyone can change a name.
var (
	userID    = regexp.MustCompile(`^[UW][A-Z0-9]{2,}$`)
	groupID   = regexp.MustCompile(`^S[A-Z0-9]{2,}$`)
	channelID = regexp.MustCompile(`^[CGD][A-Z0-9]{2,}$`)

	actionName  = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)
	nameOrStar  = regexp.MustCompile(`^(?:\*|[a-z0-9][a-z0-9-]{0,62})$`)
	policyRules = []string{string(blastdoor.RuleDeny), string(blastdoor.RuleAsk), string(blastdoor.RuleAllow)}
)

var policyKeys = []string{"name", "max_affected", "approval_above", "max_downstream", "max_writes_per_run",
	"protected", "scale_to_zero", "radius_overlap", "min_confidence", "graph_max_age", "graph_walk_bound",
	"approval_ttl", "approvers", "freezes", "channels", "menu"}

// LoadPolicy reads a policy. Every limit must be written down, so that nobody has
// to know a default. It returns every problem it finds, in the order of their
// lines, all of code ErrInvalidPolicy; the policy is good only when there is
// none. With a problem it is the zero policy, which allows nothing.
func LoadPolicy(file string, data []byte) (blastdoor.Policy, []*blastdoor.Error) {
	p := &problems{file: file, code: blastdoor.ErrInvalidPolicy}
	root := p.parse(data)
	if root == nil {
		return blastdoor.Policy{}, p.errors()
	}
	o, ok := p.object(root, "a policy", policyKeys...)
	if !ok {
		return blastdoor.Policy{}, p.errors()
	}
	policy := blastdoor.Policy{
		Name:            o.policyName(),
		MaxAffected:     o.limit("max_affected", 0, "10"),
		ApprovalAbove:   o.limit("approval_above", 0, "3"),
		MaxDownstream:   o.optionalLimit("max_downstream"),
		MaxWritesPerRun: o.limit("max_writes_per_run", 1, "5"),
		GraphWalkBound:  o.limit("graph_walk_bound", 1, "200000"),
		Protected:       o.rule("protected"),
		ScaleToZero:     o.rule("scale_to_zero"),
		RadiusOverlap:   o.rule("radius_overlap"),
		MinConfidence:   o.fraction("min_confidence"),
		GraphMaxAge:     o.duration("graph_max_age", "10m"),
		ApprovalTTL:     o.duration("approval_ttl", "15m"),
		Freezes:         o.freezes(),
		Channels:        o.channels(),
		Menu:            o.menu(),
	}
	if o.require("the policy", "approvers", "{groups: [S012AB3CD], quorum: 1}") {
		policy.Approvers = p.approvers(o.values["approvers"])
	}
	if len(p.list) > 0 {
		return blastdoor.Policy{}, p.errors()
	}
	return policy, nil
}

func (o object) policyName() string {
	if !o.require("the policy", "name", "default") {
		return ""
	}
	return o.matching("name", runbookName, "default")
}

// limit reads a whole number that must be given and be at least low.
func (o object) limit(key string, low int, example string) int {
	if !o.require("the policy", key, example) {
		return 0
	}
	v, ok := o.integer(key)
	if ok && v < low {
		o.p.add(o.line(key), fmt.Sprintf("%s is %d", key, v), fmt.Sprintf("it must be at least %d", low))
	}
	return v
}

func (o object) optionalLimit(key string) *int {
	if !o.has(key) {
		return nil
	}
	v := o.limit(key, 0, "50")
	return &v
}

func (o object) rule(key string) blastdoor.Rule {
	if !o.require("the policy", key, "ask") {
		return blastdoor.RuleDeny
	}
	r := o.text(key)
	if r != "" && !slices.Contains(policyRules, r) {
		o.p.add(o.line(key), fmt.Sprintf("%s is %s", key, quoted(r)), "it must be deny, ask or allow")
		return blastdoor.RuleDeny
	}
	return blastdoor.Rule(r)
}

func (o object) fraction(key string) float64 {
	if !o.require("the policy", key, "0.7") {
		return 1
	}
	n := o.values[key]
	v, err := strconv.ParseFloat(n.Value, 64)
	if n.Kind != yaml.ScalarNode || n.Tag == "!!str" || err != nil || !(v >= 0 && v <= 1) {
		o.p.add(n.Line, fmt.Sprintf("%s is %s", key, describe(n)), "it must be a number from 0 to 1")
	}
	return v
}

func (o object) duration(key, example string) time.Duration {
	if !o.require("the policy", key, example) {
		return 0
	}
	n := o.values[key]
	d, err := time.ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || d <= 0 {
		o.p.add(n.Line, fmt.Sprintf("%s is %s", key, describe(n)), "it must be a duration above zero, like "+example)
	}
	return d
}

func (p *problems) approvers(n *yaml.Node) blastdoor.Approvers {
	o, ok := p.object(n, "approvers", "users", "groups", "quorum")
	if !ok {
		return blastdoor.Approvers{}
	}
	a := blastdoor.Approvers{Users: o.texts("users", userID, "U012AB3CD"), Groups: o.texts("groups", groupID, "S012AB3CD"), Quorum: 1}
	if v, ok := o.integer("quorum"); ok {
		a.Quorum = v
	}
	switch {
	case a.Quorum < 1:
		p.add(o.line("quorum"), fmt.Sprintf("quorum is %d", a.Quorum), "it must be at least 1")
	case len(o.items("groups")) == 0 && len(a.Users) > 0 && a.Quorum > len(a.Users):
		p.add(o.line("quorum"), fmt.Sprintf("quorum is %d, but only %s listed", a.Quorum, plural(len(a.Users), "user is", "users are")),
			"list more people, or lower the quorum")
	}
	return a
}

func (o object) freezes() []blastdoor.Freeze {
	var out []blastdoor.Freeze
	for _, n := range o.items("freezes") {
		f, ok := o.p.object(n, "a freeze", "name", "reason", "names", "from", "until", "break_glass")
		if !ok {
			continue
		}
		freeze := blastdoor.Freeze{Reason: f.prose("reason"), Names: f.texts("names", nameOrStar, "payment-svc"),
			From: f.instant("from"), Until: f.instant("until")}
		if f.require("the freeze", "name", "release") {
			freeze.Name = f.matching("name", anyText, "release")
		}
		if f.require("the freeze", "names", "[payment-svc]") && len(f.items("names")) == 0 {
			o.p.add(f.line("names"), "the freeze names nothing", `write names: ["*"] for everything`)
		}
		if !freeze.From.IsZero() && !freeze.Until.IsZero() && !freeze.From.Before(freeze.Until) {
			o.p.add(f.line("until"), "the freeze ends before it begins", "")
		}
		if n := f.values["break_glass"]; n != nil {
			glass := o.p.approvers(n)
			freeze.BreakGlass = &glass
		}
		out = append(out, freeze)
	}
	return out
}

// instant reads an RFC 3339 time; a missing one is the zero time.
func (o object) instant(key string) time.Time {
	n := o.values[key]
	if n == nil {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, n.Value)
	if n.Kind != yaml.ScalarNode || err != nil {
		o.p.add(n.Line, fmt.Sprintf("%s is %s", key, describe(n)), "it must be a time like 2026-11-27T00:00:00Z")
	}
	return t.UTC()
}

func (o object) channels() []blastdoor.ChannelRule {
	if !o.require("the policy", "channels", "[]") {
		return nil
	}
	var out []blastdoor.ChannelRule
	first := map[string]int{}
	for _, n := range o.items("channels") {
		c, ok := o.p.object(n, "a channel", "id", "runbooks", "requesters")
		if !ok || !c.require("the channel", "id", "C012AB3CD") {
			continue
		}
		rule := blastdoor.ChannelRule{ID: c.matching("id", channelID, "C012AB3CD; a channel's id is at the foot of its details"),
			Runbooks: c.texts("runbooks", nameOrStar, "restart-web")}
		o.p.once(first, rule.ID, "channel", n.Line)
		c.require("the channel", "runbooks", `["*"]`)
		if c.require("the channel", "requesters", "{anyone: true}") {
			rule.Requesters = o.p.people(c.values["requesters"])
		}
		out = append(out, rule)
	}
	return out
}

// once reports a name that was seen before.
func (p *problems) once(first map[string]int, name, what string, line int) {
	if before, dup := first[name]; dup && name != "" {
		p.add(line, fmt.Sprintf("%s %s is given twice, first in line %d", what, name, before), "keep one of them")
		return
	}
	first[name] = line
}

func (p *problems) people(n *yaml.Node) blastdoor.People {
	o, ok := p.object(n, "requesters", "users", "groups", "anyone")
	if !ok {
		return blastdoor.People{}
	}
	return blastdoor.People{Users: o.texts("users", userID, "U012AB3CD"), Groups: o.texts("groups", groupID, "S012AB3CD"),
		Anyone: o.boolean("anyone")}
}

func (o object) menu() []blastdoor.MenuEntry {
	if !o.require("the policy", "menu", "[{action: list_services, tier: 0}]") {
		return nil
	}
	var out []blastdoor.MenuEntry
	first := map[string]int{}
	for _, n := range o.items("menu") {
		m, ok := o.p.object(n, "a menu entry", "action", "tier", "approvers", "reason")
		if !ok || !m.require("the menu entry", "action", "restart_service") {
			continue
		}
		e := blastdoor.MenuEntry{Action: m.matching("action", actionName, "restart_service"), Tier: m.tier(), Reason: m.prose("reason")}
		o.p.once(first, e.Action, "action", n.Line)
		if m.has("approvers") {
			a := o.p.approvers(m.values["approvers"])
			e.Approvers = &a
		}
		if e.Tier == blastdoor.TierForbidden && e.Reason == "" {
			o.p.add(n.Line, fmt.Sprintf("tier 2 forbids %s without a reason", e.Action), "add `reason: …` for the person who will ask why")
		}
		out = append(out, e)
	}
	slices.SortStableFunc(out, func(a, b blastdoor.MenuEntry) int { return cmp.Compare(a.Action, b.Action) })
	return out
}

func (o object) tier() blastdoor.Tier {
	if !o.require("the menu entry", "tier", "1") {
		return blastdoor.TierForbidden
	}
	v, ok := o.integer("tier")
	if ok && (v < int(blastdoor.TierUnattended) || v > int(blastdoor.TierForbidden)) {
		o.p.add(o.line("tier"), fmt.Sprintf("tier is %d", v), "0 may run unattended, 1 always asks, 2 is forbidden")
	}
	return blastdoor.Tier(v)
}
