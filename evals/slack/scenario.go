package slack

import (
	"context"
	"fmt"
	"strings"
	"time"

	"blastdoor/chat"
)

// scenario is one bad day of Slack's.
type scenario struct {
	name    string
	play    func(*stage)
	timing  *chat.Timing      // nil: short pauses; zero fields have the shipped values
	policy  *strings.Replacer // edits the shipped policy; nil: as it is
	process bool              // the real binary in a process of its own
	alone   bool              // while nothing else runs: it is about load
}

// patience is how long a scenario may take before what it waits for is missing.
const patience = 45 * time.Second

// scenarios are all that are played.
func scenarios() []scenario {
	shipped := &chat.Timing{}
	return []scenario{
		{name: "200 slash commands at once", play: crowd, alone: true},
		{name: "the socket refreshes in the middle of a click", play: refresh},
		{name: "the ack is lost", play: ackLost},
		{name: "the same envelope arrives again", play: again},
		{name: "429 with Retry-After on every posting method", play: throttledWithHint},
		{name: "429 without Retry-After on every posting method", play: throttledWithoutHint},
		{name: "a post whose connection dies before Slack stored it", play: cutBefore},
		{name: "a post whose connection dies after Slack stored it", play: cutAfter},
		{name: "history that lags 5 s", play: lag, timing: shipped},
		{name: "users.info fails at click time", play: strangers},
		{name: "the workspace is down while an approval expires", play: downAndExpired, policy: strings.NewReplacer("approval_ttl: 15m", "approval_ttl: 6s")},
		{name: "the workspace is down for ten minutes, and a click comes too late", play: downAndLate},
		{name: "the process is killed while a post hangs, and Slack stores it then", play: killedWhilePosting, timing: shipped, process: true},
	}
}

// run plays a scenario with a bot and counts what came of it. An error means that
// the scenario could not be played at all.
func (sc scenario) run(ctx context.Context, dir string, open opener, patience time.Duration) (tally, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s, err := newStage(ctx, dir, sc, open)
	if err != nil {
		return tally{}, fmt.Errorf("%s: %w", sc.name, err)
	}
	sc.play(s)
	return s.finish(), nil
}
