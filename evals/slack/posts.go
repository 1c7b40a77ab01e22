package slack

import (
	"slices"
	"strings"
	"time"

	"blastdoor"
	"blastdoor/chat/slacksim"
)

// What goes wrong between the bot and what people read.

func throttledWithHint(s *stage) {
	s.throttled(slacksim.Fault{Kind: slacksim.RateLimited, RetryAfter: time.Second}, func(done func() bool) {
		s.entry("the message after the pause", func(slacksim.Entry) bool { return done() })
	}, time.Second)
}

// throttledWithoutHint plays it for both of Slack's ways of giving no hint. The bot
// waits for half a minute of its own, so time must pass.
func throttledWithoutHint(s *stage) {
	for _, kind := range []slacksim.FaultKind{slacksim.RateLimitedNoHeader, slacksim.OKRateLimited} {
		s.throttled(slacksim.Fault{Kind: kind}, s.halfMinutes, 20*time.Second)
	}
}

// throttled throttles each way of posting once, in the course of one run. pass lets
// time go by until something is there.
func (s *stage) throttled(f slacksim.Fault, pass func(done func() bool), least time.Duration) {
	// strike arms the faults, does something, and waits until all have been met: only
	// then may time pass, or somebody else's message would meet them.
	strike := func(do func(), methods ...string) {
		var met []<-chan struct{}
		for _, f.Method = range methods {
			met = append(met, s.inject(f))
		}
		do()
		for _, m := range met {
			s.reached(m)
		}
	}
	var id string
	strike(func() { id = s.run("alice", "restart-cache") }, "chat.postMessage")
	var card slacksim.Message
	pass(func() bool {
		return s.shows(&card, func(m slacksim.Message) bool { return m.HasButton("approve") && strings.Contains(read(m), id) })
	})
	heard := len(s.ws.Ephemerals("alice"))
	strike(func() { s.clicks("alice", card, "approve") }, "response_url", "chat.postEphemeral")
	pass(func() bool { return len(s.ws.Ephemerals("alice")) > heard })

	strike(func() { s.approves(card) }, "chat.update")
	var ended slacksim.Message
	pass(func() bool {
		return s.shows(&ended, func(m slacksim.Message) bool {
			return strings.Contains(read(m), "Run: ") && strings.Contains(read(m), id) && strings.Contains(read(m), "Completed")
		})
	})
	pass(func() bool {
		return s.shows(&card, func(m slacksim.Message) bool { return m.TS == card.TS && len(m.Buttons()) == 0 })
	})
	s.waited(least, "chat.postMessage", "chat.postEphemeral", "chat.update")
}

// shows looks for a message of #ops.
func (s *stage) shows(found *slacksim.Message, pred func(slacksim.Message) bool) bool {
	all := s.ws.Messages("ops")
	i := slices.IndexFunc(all, pred)
	if i >= 0 {
		*found = all[i]
	}
	return i >= 0
}

// halfMinutes lets half a minute pass, and again, until something is there. Each
// time somebody asks for help, so that the bot looks at its clock.
func (s *stage) halfMinutes(done func() bool) {
	for range 8 {
		if s.err != nil || done() {
			return
		}
		s.later(31 * time.Second)
		s.hears("mallory", "runs operational runbooks", func() { s.asks("mallory", "/runbook help") })
	}
	s.expect(done(), "four minutes after it was throttled the bot has not posted")
}

// waited holds the calls after each 429 against the pause that was asked for.
func (s *stage) waited(least time.Duration, methods ...string) {
	for _, method := range methods {
		calls := s.ws.Calls(method)
		for i, e := range calls {
			if strings.Contains(e.Outcome, "limited") && i+1 < len(calls) {
				pause := calls[i+1].Time.Sub(e.Time)
				s.expect(pause >= least, "%s was called again %s after a 429", method, pause)
			}
		}
	}
}

func cutBefore(s *stage) {
	s.cut(slacksim.Fault{Kind: slacksim.CutBeforeCommit}, slacksim.Fault{Kind: slacksim.ErrorBeforeCommit}, slacksim.Fault{Kind: slacksim.Status, Status: 502})
}

func cutAfter(s *stage) {
	s.cut(slacksim.Fault{Kind: slacksim.CutAfterCommit}, slacksim.Fault{Kind: slacksim.ErrorAfterCommit})
}

// cut strikes each of the three posts of a run that is declined, and then all posts
// of one that is approved.
func (s *stage) cut(faults ...slacksim.Fault) {
	for _, f := range faults {
		f.Method = "chat.postMessage"
		for f.Skip = range 3 {
			met := s.inject(f)
			id := s.run("alice", "restart-cache")
			card := s.card(id)
			s.clicks("bob", card, "decline")
			s.becomes(card, "Declined by @bob")
			s.sees("alice to be told", func(m slacksim.Message) bool {
				return m.IsReply() && strings.Contains(read(m), id) && strings.Contains(read(m), "Declined")
			})
			s.reached(met)
		}
		f.Skip, f.Times = 0, 2
		met := s.inject(f)
		id := s.run("alice", "restart-cache")
		card := s.card(id)
		s.approves(card)
		s.ends(id, "Completed")
		s.becomes(card, "Approved by @bob")
		s.reached(met)
		s.reached(met)
	}
}

// lag hides the question from the history for as long as Slack has been seen to,
// after an answer was cut. Bob clicks on the card he sees before the bot knows where
// it is: the click is kept until it does.
func lag(s *stage) {
	s.ws.SetHistoryLag(5 * time.Second)
	met := s.inject(slacksim.Fault{Method: "chat.postMessage", Kind: slacksim.CutAfterCommit,
		Match: func(args map[string]string) bool { return strings.Contains(args["text"]+args["blocks"], "Dry run") }})
	id := s.run("alice", "restart-cache")
	card := s.card(id)
	s.reached(met)
	s.approves(card)
	s.ends(id, "Completed")
	s.becomes(card, "Approved by @bob")
	s.expect(len(s.ws.Calls("conversations.history")) > 1, "the history was not read more than once")
	s.refused("bob", card, blastdoor.RefusedNotPending)
}

// killedWhilePosting kills the bot with SIGKILL while its question hangs in Slack.
// Slack stores it then, with nobody to hear of it.
func killedWhilePosting(s *stage) {
	gate := make(chan struct{})
	met := s.inject(slacksim.Fault{Method: "chat.postMessage", Kind: slacksim.Slow, Gate: gate,
		Match: func(args map[string]string) bool { return strings.Contains(args["text"]+args["blocks"], "Dry run") }})
	id := s.run("alice", "restart-cache")
	s.reached(met)
	s.kill()
	close(gate)
	card := s.card(id)
	s.start()
	s.approves(card)
	s.ends(id, "Completed")
	s.becomes(card, "Approved by @bob")
	s.refused("bob", card, blastdoor.RefusedNotPending)
}
