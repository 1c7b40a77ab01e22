package crash

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"blastdoor/chat/slacksim"
)

const channel = "ops"

// play lets the people of the story act, whatever happens to the bot meanwhile, and
// returns once everything is done, shown, and the last process has ended in order.
// Who sees an error acts again; who sees none does not.
func (s *stage) play(ctx context.Context) error {
	for _, scene := range []func(context.Context) error{s.begin, s.list, s.run, s.clickOwn, s.approve, s.complete, s.finish} {
		if err := scene(ctx); err != nil {
			return because(ctx, err)
		}
	}
	return nil
}

// begin waits for the bot. The clock of the story starts.
func (s *stage) begin(ctx context.Context) error {
	if _, err := s.connected(ctx); err != nil {
		return err
	}
	s.clock = time.Now()
	close(s.begun)
	return nil
}

// list: a request that moves no run and is answered in private.
func (s *stage) list(ctx context.Context) error {
	if err := s.command(ctx, "/runbook list"); err != nil {
		return err
	}
	return s.whispered(ctx, "tidy-up")
}

// run: Alice asks for the run, and the card with the question appears, with
// everything that comes before it.
func (s *stage) run(ctx context.Context) error {
	if err := s.command(ctx, "/runbook run tidy-up"); err != nil {
		return err
	}
	return s.shown(ctx, "the question", func(cards []slacksim.Message) bool {
		return count(cards, isRunCard) > 0 && count(cards, hasQuestion) > 0 && count(cards, isReply) >= len(writes())-1
	})
}

// clickOwn: Alice approves her own request, and is refused.
func (s *stage) clickOwn(ctx context.Context) error {
	if _, err := s.click(ctx, "alice"); err != nil {
		return err
	}
	return s.whispered(ctx, "self_approval")
}

// approve: Bob approves.
func (s *stage) approve(ctx context.Context) error {
	acked, err := s.click(ctx, "bob")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acked = acked
	return err
}

// complete waits until the run is shown as completed. The length of the story is
// taken here: cards that nobody waits for are refreshed up to a second later.
func (s *stage) complete(ctx context.Context) error {
	err := s.shown(ctx, "the end of the run", func(cards []slacksim.Message) bool { return count(cards, isCompleted) > 0 })
	s.length = time.Since(s.clock)
	return err
}

// finish waits until everything is shown and stops the bot. Where a process dies at its
// point on the way out, another one has to show the end again.
func (s *stage) finish(ctx context.Context) error {
	for stopped := false; !stopped; {
		err := s.shown(ctx, "the end", func(cards []slacksim.Message) bool {
			return count(cards, isCompleted) > 0 && count(cards, isApplied) >= len(writes())
		})
		if err != nil {
			return err
		}
		if stopped, err = s.stop(ctx); err != nil {
			return err
		}
	}
	<-s.kept
	return nil
}

// command types a command as Alice. What is not acknowledged, Slack sends again.
func (s *stage) command(ctx context.Context, line string) error {
	if _, err := s.connected(ctx); err != nil {
		return err
	}
	out, err := s.ws.As("alice").Slash(channel, line)
	for err == nil && out.Shown != "" {
		if _, err = s.connected(ctx); err == nil {
			out, err = s.ws.Redeliver(out.EnvelopeID)
		}
	}
	return err
}

// click presses Approve on the question until it is acknowledged or decided; Slack
// never sends a click again. It reports whether a click was acknowledged.
func (s *stage) click(ctx context.Context, who string) (bool, error) {
	for {
		if _, err := s.connected(ctx); err != nil {
			return false, err
		}
		question, open := s.question()
		if !open {
			return false, nil
		}
		out, err := s.ws.As(who).Click(question, "approve")
		switch {
		case errors.Is(err, slacksim.ErrNoButton):
			return false, nil
		case err != nil:
			return false, err
		case out.Shown == "":
			return true, nil
		}
	}
}

func (s *stage) question() (slacksim.Message, bool) {
	for _, m := range s.ws.Messages(channel) {
		if m.HasButton("approve") {
			return m, true
		}
	}
	return slacksim.Message{}, false
}

func (s *stage) whispered(ctx context.Context, text string) error {
	_, err := s.ws.WaitEphemeral(ctx, "alice", func(m slacksim.Message) bool {
		return strings.Contains(slacksim.PlainText(m), text)
	})
	if err != nil {
		return fmt.Errorf("waiting for %q: %w", text, err)
	}
	return nil
}

func isRunCard(m slacksim.Message) bool { return strings.Contains(string(m.Blocks), "Run: tidy-up") }
func isCompleted(m slacksim.Message) bool {
	return isRunCard(m) && strings.Contains(string(m.Blocks), "Completed")
}
func isApplied(m slacksim.Message) bool {
	return strings.Contains(string(m.Blocks), "Dry run: tidy-up") && strings.Contains(string(m.Blocks), "*Applied*")
}
func isReply(m slacksim.Message) bool     { return m.IsReply() }
func hasQuestion(m slacksim.Message) bool { return m.HasButton("approve") }

func count(cards []slacksim.Message, is func(slacksim.Message) bool) int {
	n := 0
	for _, c := range cards {
		if is(c) {
			n++
		}
	}
	return n
}

// shown waits until the channel is as it should be.
func (s *stage) shown(ctx context.Context, what string, right func([]slacksim.Message) bool) error {
	for {
		changed := s.ws.Changed()
		if right(s.ws.Messages(channel)) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		}
	}
}
