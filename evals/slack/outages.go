package slack

import (
	"strings"
	"time"

	"blastdoor"
	"blastdoor/chat/slacksim"
)

// What goes wrong when Slack cannot be asked, or cannot be reached at all.

// strangers lets each question about the clicker fail in each way. He is refused
// and told so, nothing is written, and once Slack answers again his click counts.
func strangers(s *stage) {
	id := s.run("alice", "restart-cache")
	card := s.card(id)
	gate := make(chan struct{})
	defer close(gate)
	for _, method := range []string{"users.info", "usergroups.users.list"} {
		for _, f := range []slacksim.Fault{{Kind: slacksim.ErrorBeforeCommit}, {Kind: slacksim.ErrorBeforeCommit, Error: "user_not_found"},
			{Kind: slacksim.Status, Status: 503}, {Kind: slacksim.CutBeforeCommit}, {Kind: slacksim.CutAfterCommit},
			{Kind: slacksim.RateLimited, RetryAfter: time.Second}, {Kind: slacksim.Slow, Gate: gate}} {
			f.Method = method
			met := s.inject(f)
			s.refused("bob", card, blastdoor.RefusedUnverifiedIdentity)
			s.reached(met)
		}
	}
	s.approves(card)
	s.ends(id, "Completed")
}

// down takes the workspace away: every socket is cut and every call dies.
func (s *stage) down() {
	s.ws.Inject(slacksim.Fault{Method: "*", Kind: slacksim.CutBeforeCommit, Times: -1})
	s.ws.DropSockets()
}

func (s *stage) up() {
	s.ws.ClearFaults()
	s.reconnected()
}

// downAndExpired: the question expires by the bot's own timer while Slack is down,
// and ten minutes later, when Slack is back, the card says so.
func downAndExpired(s *stage) {
	id := s.run("alice", "restart-cache")
	card := s.card(id)
	s.down()
	s.entry("the bot to try to say that the question has expired", func(e slacksim.Entry) bool {
		return e.Kind == slacksim.KindCall && e.Name == "chat.update" && !e.OK() && strings.Contains(e.Args["blocks"], "xpired")
	})
	s.later(10 * time.Minute)
	out := s.click("bob", card, "approve")
	s.expect(out.Status != slacksim.Acked, "a click was accepted while Slack was down")
	s.up()
	s.becomes(card, "expired")
	s.ends(id, "Expired")
	s.refused("bob", card, blastdoor.RefusedExpired)
}

// downAndLate: Slack is away for ten minutes, in which the first question expires
// and the second does not, while the bot's timer knows nothing of it: the first
// thing that happens when Slack is back is a click. A third question expires while
// the bot too is away, and comes back to a Slack that is not there yet.
func downAndLate(s *stage) {
	first := s.run("alice", "restart-cache")
	early := s.card(first)
	s.later(6 * time.Minute)
	s.down()
	s.later(10 * time.Minute)
	s.up()
	s.refused("bob", early, blastdoor.RefusedExpired)
	s.becomes(early, "expired")
	s.ends(first, "Expired")

	second := s.run("alice", "restart-cache")
	late := s.card(second)
	s.later(4 * time.Minute)
	s.down()
	s.later(10 * time.Minute)
	s.up()
	s.approves(late) // a minute before the end
	s.ends(second, "Completed")

	third := s.run("alice", "restart-cache")
	lost := s.card(third)
	s.down()
	s.stop()
	s.later(16 * time.Minute)
	asked := len(s.ws.Calls("auth.test"))
	s.launch()
	s.entry("the bot to ask for Slack", func(slacksim.Entry) bool { return len(s.ws.Calls("auth.test")) > asked })
	s.up()
	s.ends(third, "Expired")
	s.becomes(lost, "expired")
	s.refused("bob", lost, blastdoor.RefusedExpired)
}
