package corpus

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"blastdoor"
	"blastdoor/chat/slacksim"
	"blastdoor/engine"
	"blastdoor/simenv"
)

// errImpossible marks an act that could not be done because the bot had not done
// what comes before it. The case goes on: what counts is how it ends.
var errImpossible = errors.New("not possible")

// do performs one act and waits for the bot to come to rest.
func (h *house) do(ctx context.Context, act Act) error {
	switch {
	case act.Run != nil:
		return h.rested(ctx, h.run(act.Run))
	case act.Say != nil:
		return h.rested(ctx, h.say(act.Say))
	case act.Click != nil:
		return h.click(ctx, act.Click)
	case act.Replay != "":
		return h.rested(ctx, h.replay(act.Replay))
	case act.Clock != "":
		return h.later(ctx, act.Clock, true)
	case act.Instant != "":
		return h.later(ctx, act.Instant, false)
	case act.Stop:
		return h.stop(ctx)
	case act.Restart:
		return h.restart(ctx)
	case act.Tamper != nil:
		return tamper(ctx, h.conf.Files.Store(), *act.Tamper)
	default:
		return h.arrange(ctx, act)
	}
}

// arrange performs the acts that concern the world, the rules and the people.
func (h *house) arrange(ctx context.Context, act Act) error {
	switch {
	case act.Hold:
		return h.env.AddFault(ctx, simenv.Fault{Method: simenv.MethodDryRun, Kind: simenv.Unavailable})
	case act.Release:
		if err := h.env.ClearFaults(ctx); err != nil {
			return err
		}
		if h.bot == nil {
			return h.restart(ctx)
		}
		return h.wake(ctx)
	case act.Lose == "before":
		return h.env.AddFault(ctx, simenv.Fault{Method: simenv.MethodApply, Kind: simenv.FailBefore, Times: 1})
	case act.Lose == "after":
		return h.env.AddFault(ctx, simenv.Fault{Method: simenv.MethodApply, Kind: simenv.FailAfter, Times: 1})
	case act.Edit != nil:
		return h.edit(ctx, act.Edit)
	case act.Policy != nil:
		return h.policy(h.conf.RunbookDir, act.Policy)
	case act.People != nil:
		return h.people(*act.People)
	case act.Leaves != "":
		return h.ws.Deactivate(act.Leaves)
	}
	return errors.New("the act says nothing that the driver knows")
}

func (h *house) rested(ctx context.Context, err error) error {
	if err != nil {
		return err
	}
	return h.rest(ctx)
}

// wake makes the bot look at every run again.
func (h *house) wake(ctx context.Context) error {
	h.logs.forget()
	if h.bot == nil {
		return nil
	}
	return h.rested(ctx, h.bot.Wake(ctx))
}

func (h *house) later(ctx context.Context, by string, wake bool) error {
	d, err := time.ParseDuration(by)
	if err != nil {
		return err
	}
	h.clock.forward(d)
	if !wake {
		return nil
	}
	return h.wake(ctx)
}

func (h *house) restart(ctx context.Context) error {
	if err := h.stop(ctx); err != nil {
		return err
	}
	h.logs.forget()
	if err := h.start(ctx); err != nil {
		if h.c.Expect.Start != "" && h.refusing != "" {
			return nil // judged later
		}
		return err
	}
	return h.rest(ctx)
}

func (h *house) run(act *RunAct) error {
	channel, label := "ops", "case"
	if act.In != "" {
		channel = act.In
	}
	if act.As != "" {
		label = act.As
	}
	out, err := h.slash(act.By, channel, strings.TrimSpace("/runbook run case "+act.Inputs))
	id := engine.RunID("case", "slash-"+out.TriggerID)
	h.runs[label], h.requests = id, append(h.requests, id)
	return err
}

func (h *house) say(act *SayAct) error {
	line := act.Line
	if len(h.requests) > 0 {
		line = strings.ReplaceAll(line, "{RUN}", h.requests[0])
	}
	_, err := h.slash(act.By, "ops", line)
	return err
}

func (h *house) slash(by, channel, line string) (slacksim.Outcome, error) {
	out, err := h.ws.As(by).Slash(channel, line)
	if err == nil && out.Status != slacksim.Acked {
		err = fmt.Errorf("%s typed %q and saw %q", by, line, out.Shown)
	}
	h.last = out.EnvelopeID
	return out, err
}

// replay delivers the newest envelope again.
func (h *house) replay(how string) error {
	if how == "envelope" {
		_, err := h.ws.Redeliver(h.last)
		return err
	}
	for _, e := range h.ws.Journal() {
		if e.Kind == slacksim.KindEnvelope && e.EnvelopeID == h.last {
			payload, err := decoded(e.Payload)
			if err != nil {
				return err
			}
			h.last = h.ws.Forge(e.Name, payload).EnvelopeID
			return nil
		}
	}
	return fmt.Errorf("there is no envelope %q to replay", h.last)
}

func (h *house) click(ctx context.Context, act *ClickAct) error {
	card, err := h.card(act)
	if err != nil {
		return err
	}
	change, err := h.forgery(act)
	if err != nil {
		return err
	}
	if act.Between == nil {
		return h.rested(ctx, h.press(act, card, change))
	}
	reached, gate := make(chan struct{}, 1), make(chan struct{})
	h.ws.Inject(slacksim.Fault{Method: "users.info", Kind: slacksim.Slow, Skip: act.Between.Skip, Gate: gate, Reached: reached,
		Match: func(args map[string]string) bool { return args["user"] == act.Between.Person }})
	if err := h.press(act, card, change); err != nil {
		return err
	}
	edited := false
	err = h.restOr(ctx, reached, func() error {
		defer close(gate)
		edited = true
		return h.edit(ctx, act.Between.Edit)
	})
	if err == nil && !edited {
		return fmt.Errorf("%s was not looked up often enough to edit between: %w", act.Between.Person, errImpossible)
	}
	return err
}

// press presses the button, by forgery where Slack would have kept the person from
// it. change is nil for an honest click.
func (h *house) press(act *ClickAct, card slacksim.Message, change func(map[string]any)) error {
	button, who := act.Button, h.ws.As(act.By)
	if button == "" {
		button = "approve"
	}
	var out slacksim.Outcome
	err := slacksim.ErrNotAllowed
	if change == nil && !act.First {
		out, err = who.Click(card, button)
	}
	if err != nil {
		out, err = who.ForceClick(card, button, change)
	}
	if err == nil && out.Status != slacksim.Acked {
		err = fmt.Errorf("%s clicked %s and saw %q", act.By, button, out.Shown)
	}
	h.last = out.EnvelopeID
	return err
}

func (h *house) card(act *ClickAct) (slacksim.Message, error) {
	label := act.Run
	if label == "" {
		label = "case"
	}
	cards := h.cards[label]
	switch {
	case len(cards) == 0:
		return slacksim.Message{}, fmt.Errorf("%s cannot click: run %s asks nothing: %w", act.By, label, errImpossible)
	case act.First:
		return cards[0], nil
	default:
		return cards[len(cards)-1], nil
	}
}

// forgery is what a click changes in its payload; nil for an honest one.
func (h *house) forgery(act *ClickAct) (func(map[string]any), error) {
	if act.Value == "" && act.Set == nil {
		return nil, nil
	}
	value, err := h.fill(act.Value)
	if err != nil {
		return nil, err
	}
	set := map[string]string{}
	for path, text := range act.Set {
		if set[path], err = h.fill(text); err != nil {
			return nil, err
		}
	}
	return func(payload map[string]any) {
		if value != "" {
			payload["actions"].([]any)[0].(map[string]any)["value"] = value
		}
		for path, text := range set {
			at, keys := payload, strings.Split(path, ".")
			for _, key := range keys[:len(keys)-1] {
				at = at[key].(map[string]any)
			}
			at[keys[len(keys)-1]] = text
		}
	}, nil
}

var placeholder = regexp.MustCompile(`\{(\w+)(?::(\w+))?\}`)

// fill replaces {run:L}, {approval:L}, {hash:L}, {card:L} and {foreign}.
func (h *house) fill(text string) (string, error) {
	var errs []error
	out := placeholder.ReplaceAllStringFunc(text, func(match string) string {
		m := placeholder.FindStringSubmatch(match)
		if m[1] == "foreign" {
			said, err := h.ws.As("mallory").Say("ops", "who is on call today?")
			errs = append(errs, err)
			return said.TS
		}
		cards := h.cards[m[2]]
		if len(cards) == 0 {
			errs = append(errs, fmt.Errorf("%s: run %s asks nothing: %w", match, m[2], errImpossible))
			return ""
		}
		newest := cards[len(cards)-1]
		parts := strings.Split(newest.Buttons()[0].Value, "|")
		switch {
		case m[1] == "card":
			return newest.TS
		case m[1] == "run" && len(parts) == 4:
			return parts[1]
		case m[1] == "approval" && len(parts) == 4:
			return parts[2]
		case m[1] == "hash" && len(parts) == 4:
			return parts[3]
		}
		errs = append(errs, fmt.Errorf("%s means nothing", match))
		return ""
	})
	return out, errors.Join(errs...)
}

func (h *house) edit(ctx context.Context, edits []Edit) error {
	for _, e := range edits {
		if err := h.editOne(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

func (h *house) editOne(ctx context.Context, e Edit) error {
	switch {
	case e.Depend != nil:
		kind := e.Depend.Kind
		if kind == "" {
			kind = blastdoor.Calls
		}
		return h.env.AddDependency(ctx, e.Depend.From, simenv.Dependency{Name: e.Depend.On, Kind: kind})
	case e.Protect != "":
		return h.env.SetProtected(ctx, e.Protect, true)
	case e.Unprotect != "":
		return h.env.SetProtected(ctx, e.Unprotect, false)
	case len(e.Replicas) > 0:
		for service, n := range e.Replicas {
			if err := h.env.SetReplicas(ctx, service, n); err != nil {
				return err
			}
		}
		return nil
	}
	return errors.New("the edit says nothing that the driver knows")
}

func (h *house) people(m Membership) error {
	return h.ws.ChangeGroup(m.Group, func(g *slacksim.Group) { g.Members, g.Disabled = m.Members, m.Disabled })
}
