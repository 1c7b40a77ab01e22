package slack

import (
	"strings"
	"sync"

	"blastdoor"
	"blastdoor/chat/slacksim"
)

// What goes wrong between a person's hand and the bot.

// crowd lets two hundred people ask at the same moment, half of them for a run.
func crowd(s *stage) {
	const commands = 200
	people := []string{"alice", "bob", "carol", "mallory"}
	before := map[string]int{}
	for _, who := range people {
		before[who] = len(s.ws.Ephemerals(who))
	}
	outcomes, errs := make([]slacksim.Outcome, commands), make([]error, commands)
	var typing sync.WaitGroup
	for i := range commands {
		line := "/runbook list"
		if i%2 == 0 {
			line = "/runbook run restart-cache"
		}
		typing.Go(func() { outcomes[i], errs[i] = s.ws.As(people[i/2%len(people)]).Slash("ops", line) })
	}
	typing.Wait()
	var asked []string
	lists, late := map[string]int{}, 0
	for i, out := range outcomes {
		s.fail(errs[i])
		if i%2 == 0 {
			s.requests++
		}
		switch {
		case out.Status != slacksim.Acked:
			late++ // the person sees an error, and need not wait for anything
		case i%2 == 0:
			asked = append(asked, runOf("restart-cache", out))
		default:
			lists[people[i/2%len(people)]]++
		}
	}
	for _, id := range asked {
		s.card(id)
	}
	for who, n := range lists {
		s.answered(who, before[who]+n)
	}
	s.expect(late == 0, "%d of %d commands were not acknowledged within Slack's 3 s", late, commands)
}

// answered waits until a person has read exactly so many private answers.
func (s *stage) answered(who string, n int) {
	s.entry("the answers to "+who, func(slacksim.Entry) bool { return len(s.ws.Ephemerals(who)) >= n })
	s.expect(len(s.ws.Ephemerals(who)) == n, "%s has read %d answers, not %d", who, len(s.ws.Ephemerals(who)), n)
}

// refresh lets Slack ask for a new socket at four moments of a click. Whatever Bob
// sees, he may click once more, and one click counts.
func refresh(s *stage) {
	for _, moment := range []func(*stage, slacksim.Message) slacksim.Outcome{
		func(s *stage, card slacksim.Message) slacksim.Outcome { // no socket when he clicks
			s.ws.Refresh()
			return s.click("bob", card, "approve")
		},
		func(s *stage, card slacksim.Message) slacksim.Outcome { // the click is on its way
			return s.clickWhile(card, func() {
				s.entry("the click to be sent", func(e slacksim.Entry) bool {
					return e.Kind == slacksim.KindEnvelope && strings.Contains(e.Payload, card.TS) && e.Outcome == "ok"
				})
			})
		},
		func(s *stage, card slacksim.Message) slacksim.Outcome { // the ack is on its way, and lost
			lost := s.inject(slacksim.Fault{Method: "ack", Kind: slacksim.LoseAck})
			return s.clickWhile(card, func() { s.reached(lost) })
		},
		func(s *stage, card slacksim.Message) slacksim.Outcome { // the bot asks who Bob is
			gate := make(chan struct{})
			asked := s.inject(slacksim.Fault{Method: "users.info", Kind: slacksim.Slow, Gate: gate})
			defer close(gate)
			return s.clickWhile(card, func() { s.reached(asked) })
		},
	} {
		id := s.run("alice", "restart-cache")
		card := s.card(id)
		if s.err != nil {
			return
		}
		s.writes++
		out := moment(s, card)
		s.reconnected()
		if out.Status != slacksim.Acked { // he saw an error; whether the click counted he cannot know
			s.clicks("bob", card, "approve")
		}
		s.ends(id, "Completed")
		s.becomes(card, "Approved by @bob")
		s.refused("bob", card, blastdoor.RefusedNotPending)
	}
}

// clickWhile clicks, and refreshes the socket at a moment.
func (s *stage) clickWhile(card slacksim.Message, moment func()) slacksim.Outcome {
	if s.err != nil {
		return slacksim.Outcome{}
	}
	clicked := make(chan slacksim.Outcome, 1)
	errs := make(chan error, 1)
	go func() {
		out, err := s.ws.As("bob").ForceClick(card, "approve", nil)
		errs <- err
		clicked <- out
	}()
	moment()
	s.ws.Refresh()
	s.fail(<-errs)
	return <-clicked
}

// ackLost loses the ack of the command, and then that of the click: both people see
// an error, and both have been heard.
func ackLost(s *stage) {
	s.inject(slacksim.Fault{Method: "ack", Kind: slacksim.LoseAck})
	out := s.slash("alice", "/runbook run restart-cache")
	s.requests, s.writes = 1, 1
	s.expect(out.Status == slacksim.OperationTimeout, "alice should see an error")
	id := runOf("restart-cache", out)
	card := s.card(id)
	s.inject(slacksim.Fault{Method: "ack", Kind: slacksim.LoseAck})
	out = s.click("bob", card, "approve")
	s.expect(out.Status == slacksim.OperationTimeout, "bob should see an error")
	s.ends(id, "Completed")
	s.refused("bob", card, blastdoor.RefusedNotPending) // he tries again
}

// again sends the same command and the same click several times, also after the end
// of the run and to a bot that has been started anew.
func again(s *stage) {
	asked := s.asks("alice", "/runbook run restart-cache")
	s.requests, s.writes = 1, 1
	id := runOf("restart-cache", asked)
	s.resent(asked)
	card := s.card(id)
	s.resent(asked)
	clicked := s.clicks("bob", card, "approve")
	s.resent(clicked)
	s.ends(id, "Completed")
	s.resent(asked)
	s.resent(clicked)
	s.restart()
	s.resent(asked)
	s.resent(clicked)
	s.hears("mallory", "runs operational runbooks", func() { s.asks("mallory", "/runbook help") })
	s.becomes(card, "Approved by @bob")
}

// resent sends an envelope once more and expects it to be acknowledged: what the
// bot knows already it has dealt with.
func (s *stage) resent(out slacksim.Outcome) {
	if s.err != nil {
		return
	}
	once, err := s.ws.Redeliver(out.EnvelopeID)
	s.fail(err)
	s.expect(once.Status == slacksim.Acked, "an envelope that came again was not acknowledged")
}
