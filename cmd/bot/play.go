package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"blastdoor/chat/slacksim"
	"blastdoor/internal/app"
	"blastdoor/simenv"
	"blastdoor/store"
)

// playLimit bounds the whole story.
const playLimit = 60 * time.Second

// storyteller plays the story of the demo and holds it to its end.
type storyteller struct {
	*demonstration
	show *printer
}

// play plays the story and checks its end against the ledger and the log.
func (d *demonstration) play(ctx context.Context) error {
	began := d.p.now()
	ctx, cancel := context.WithTimeoutCause(ctx, playLimit, fmt.Errorf("the story did not end within %s", playLimit))
	defer cancel()
	s := &storyteller{demonstration: d, show: newPrinter(d.ws, d.p.stdout)}
	for _, scene := range []func(context.Context) error{s.ask, s.refuse, s.approve, s.report} {
		if err := scene(ctx); err != nil {
			return fmt.Errorf("%w; the log of the bot ends:\n%s", errors.Join(context.Cause(ctx), err), d.bot.tail())
		}
	}
	if err := d.bot.stop(10 * time.Second); err != nil {
		return fmt.Errorf("stopping the bot: %w", err)
	}
	return s.account(ctx, began)
}

func (s *storyteller) say(format string, args ...any) {
	s.show.print()
	fmt.Fprintf(s.p.stdout, "── "+format+"\n\n", args...)
}

// ask: Alice asks for the drain; the bot rehearses it and asks for a second person.
func (s *storyteller) ask(ctx context.Context) error {
	s.say("alice types /runbook run drain-host-a")
	if err := s.slash("alice", "/runbook run drain-host-a"); err != nil {
		return err
	}
	_, err := s.ws.WaitMessage(ctx, "ops", func(m slacksim.Message) bool { return m.HasButton("approve") })
	return err
}

func (s *storyteller) slash(who, line string) error {
	outcome, err := s.ws.As(who).Slash("ops", line)
	if err != nil {
		return err
	}
	if outcome.Shown != "" {
		return fmt.Errorf("%s sees: %s", who, outcome.Shown)
	}
	return nil
}

// refuse: whoever may not approve is refused, privately, each with a reason.
func (s *storyteller) refuse(ctx context.Context) error {
	for _, c := range []struct{ who, why string }{{"alice", "asked for it herself"}, {"mallory", "is not an approver"},
		{"gina", "is a guest"}, {"erin", "is from another company"}} {
		s.say("%s, who %s, clicks Approve", c.who, c.why)
		before := len(s.ws.Ephemerals(c.who))
		if _, err := s.act(c.who, "approve"); err != nil {
			return err
		}
		_, err := s.ws.WaitEphemeral(ctx, c.who, func(slacksim.Message) bool { return len(s.ws.Ephemerals(c.who)) > before })
		if err != nil {
			return fmt.Errorf("waiting for the answer to %s: %w", c.who, err)
		}
	}
	return nil
}

// approve: Bob approves, the bot is killed, and a new process ends the run.
func (s *storyteller) approve(ctx context.Context) error {
	s.say("bob clicks Approve")
	if _, err := s.act("bob", "approve"); err != nil {
		return err
	}
	s.say("the bot is killed with SIGKILL, and started again")
	if err := s.bot.kill(); err != nil {
		return err
	}
	if err := s.startBot(ctx); err != nil {
		return err
	}
	_, err := s.ws.WaitMessage(ctx, "ops", func(m slacksim.Message) bool {
		return !m.IsReply() && strings.Contains(slacksim.PlainText(m), "Completed")
	})
	if err != nil {
		return fmt.Errorf("waiting for the run to end: %w", err)
	}
	_, err = s.ws.WaitMessage(ctx, "ops", func(m slacksim.Message) bool {
		return !m.HasButton("approve") && strings.Contains(slacksim.PlainText(m), "Approved by")
	})
	return err
}

// report: /runbook status tells it all.
func (s *storyteller) report(ctx context.Context) error {
	s.say("alice types /runbook status")
	before := len(s.ws.Ephemerals("alice"))
	if err := s.slash("alice", "/runbook status"); err != nil {
		return err
	}
	_, err := s.ws.WaitEphemeral(ctx, "alice", func(slacksim.Message) bool { return len(s.ws.Ephemerals("alice")) > before })
	s.show.print()
	return err
}

// account holds the log and the environment's own ledger against each other, and
// says in one line what happened.
func (s *storyteller) account(ctx context.Context, began time.Time) error {
	env, err := simenv.Open(ctx, s.files.World(), simenv.Options{Now: s.p.now})
	if err != nil {
		return err
	}
	ledger, err := env.Ledger(ctx)
	if err := errors.Join(err, env.Close()); err != nil {
		return err
	}
	seen, duplicates := map[string]bool{}, 0
	for _, effect := range ledger {
		if seen[effect.Key] {
			duplicates++
		}
		seen[effect.Key] = true
	}
	audit, err := app.Verify(ctx, s.files, store.AuditOptions{}, s.p.now)
	if err != nil {
		return err
	}
	word := "verified"
	if !audit.OK() {
		word = "NOT VERIFIED"
	}
	fmt.Fprintf(s.p.stdout, "writes: %d · duplicates: %d · audit records: %d, %s · %.1f s\n", len(ledger), duplicates,
		audit.Events, word, s.p.now().Sub(began).Seconds())
	if len(ledger) != 1 || duplicates != 0 || !audit.OK() {
		return errors.New("the story should end with exactly one write and a log that verifies")
	}
	return nil
}
