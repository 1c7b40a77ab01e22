package engine

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"blastdoor"
)

var (
	simulateRuns = flag.Int("simulate.runs", 0, "play at least so many runs with faults: every single fault and every pair, then more at random; 0: a third of the single faults and a few at random")
	simulateSeed = flag.Uint64("simulate.seed", 1, "seed of the first random play; the next has the next")
	simulatePlay = flag.String("simulate.play", "", `play one run and tell it: "STORY CALL:FLAVOUR …" or "seed N"`)
)

// play is one run under faults: a story, and what becomes of some of its calls.
type play struct {
	story  string
	faults map[int]flavour
	seed   uint64 // of a random play
}

// String names the play so that -simulate.play can replay it.
func (p play) String() string {
	if p.seed != 0 {
		return fmt.Sprintf("seed %d", p.seed)
	}
	words := []string{p.story}
	for _, call := range slices.Sorted(maps.Keys(p.faults)) {
		words = append(words, fmt.Sprintf("%d:%s", call, p.faults[call]))
	}
	return strings.Join(words, " ")
}

func parsePlay(text string) (play, error) {
	words := strings.Fields(text)
	if len(words) == 2 && words[0] == "seed" {
		seed, err := strconv.ParseUint(words[1], 10, 64)
		return randomPlay(seed), err
	}
	p := play{story: words[0], faults: map[int]flavour{}}
	for _, word := range words[1:] {
		call, f, _ := strings.Cut(word, ":")
		n, err := strconv.Atoi(call)
		if err != nil {
			return p, fmt.Errorf("%q is not CALL:FLAVOUR", word)
		}
		p.faults[n] = flavour(f)
	}
	return p, nil
}

// stories that are played: a read and then a write that a second person approves;
// two writes, of which one needs nobody; reads.
func stories() []string { return []string{"restart-db", "two", "reads"} }

// randomPlay has three to six faults anywhere.
func randomPlay(seed uint64) play {
	rng := rand.New(rand.NewPCG(seed, 7))
	p := play{story: stories()[rng.IntN(2)], faults: map[int]flavour{}, seed: seed}
	all := flavoursOf("commit")
	for range 3 + rng.IntN(4) {
		p.faults[rng.IntN(90)] = all[rng.IntN(len(all))]
	}
	return p
}

// parts are what a negative control replaces.
type parts struct {
	naive   bool
	journal func(Journal) Journal
	want    string // the property that it breaks
}

// result is what a play came to.
type result struct {
	calls      []string
	struck     int
	restarts   int
	outcome    blastdoor.RunOutcome
	violations []string
}

// figures is what TestSimulate prints, as one line of JSON.
type figures struct {
	Runs       int            `json:"runs"`
	Single     int            `json:"single"`
	Pairs      int            `json:"pairs"`
	Random     int            `json:"random"`
	Calls      int            `json:"calls"`
	Faults     int            `json:"faults"`
	Restarts   int            `json:"restarts"`
	Violations int            `json:"violations"`
	Failing    []string       `json:"failing,omitempty"`
	Controls   map[string]int `json:"controls"` // plays until found out; 0: not
	Outcomes   map[string]int `json:"outcomes"`
	Seed       uint64         `json:"seed"`

	mu sync.Mutex
}

func (f *figures) count(p play, r result, sort *int, each func(play, result)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Runs++
	*sort++
	f.Calls += len(r.calls)
	f.Faults += r.struck
	f.Restarts += r.restarts
	f.Outcomes[string(r.outcome)]++
	if each != nil {
		each(p, r)
	}
	if len(r.violations) > 0 {
		f.Violations++
		if len(f.Failing) < 10 {
			f.Failing = append(f.Failing, p.String()+": "+r.violations[0])
		}
	}
}

// TestSimulate plays runs with one fault, at a third of all calls of ports; with
// -simulate.runs at every call in every flavour, with every two faults, and with more
// at random. After every step the ten properties hold, and when the faults have
// stopped every run ends or waits for a human.
func TestSimulate(t *testing.T) {
	if *simulatePlay != "" {
		replay(t, *simulatePlay)
		return
	}
	f := &figures{Controls: map[string]int{}, Outcomes: map[string]int{}, Seed: *simulateSeed}
	singles := everySingle(t)
	wide := *simulateRuns > 0
	if wide {
		var pairs []play
		f.share(t, "single", singles, &f.Single, func(p play, r result) { pairs = append(pairs, everySecond(p, r)...) })
		f.share(t, "pairs", pairs, &f.Pairs, nil)
	} else {
		f.share(t, "single", everyThird(singles), &f.Single, nil)
	}
	var random []play
	for i := range max(60, *simulateRuns/4, *simulateRuns-f.Runs) {
		random = append(random, randomPlay(*simulateSeed+uint64(i)))
	}
	f.share(t, "random", random, &f.Random, nil)
	for name, with := range brokenParts() {
		f.Controls[name] = foundOut(t, singles, with)
	}
	line, err := json.Marshal(f)
	require.NoError(t, err)
	fmt.Println("SIMULATE " + string(line))
	require.Zero(t, f.Violations, "replay with: go test ./engine -run TestSimulate -v -args -simulate.play='…'\n%s", strings.Join(f.Failing, "\n"))
	for name, plays := range f.Controls {
		require.NotZero(t, plays, "%s: nobody noticed", name)
	}
}

// TestWhatIsDurableIsActedOn: a request or a click that is durable though its answer
// was lost moves the run on, not only when a card expires or the process starts again.
func TestWhatIsDurableIsActedOn(t *testing.T) {
	const story = "restart-db"
	calls := perform(t, play{story: story}, parts{}).calls
	begin, click := slices.Index(calls, "begin"), 0
	for i, op := range calls {
		if op == "groups" { // asked of those who click; Bob is the last
			click = i + 1
		}
	}
	require.Equal(t, "commit", calls[click])
	for _, call := range []int{begin, click} {
		for _, f := range []flavour{lostAnswer, lostDown, late} {
			r := perform(t, play{story: story, faults: map[int]flavour{call: f}}, parts{})
			require.Equal(t, 1, r.struck)
			require.Empty(t, r.violations, f)
			require.Equal(t, blastdoor.RunCompleted, r.outcome, f)
		}
	}
}

// everySingle lists the plays with one fault: every call of a play without any, in
// every flavour.
func everySingle(t *testing.T) []play {
	var plays []play
	for _, story := range stories() {
		calm := perform(t, play{story: story}, parts{})
		require.Equal(t, blastdoor.RunCompleted, calm.outcome)
		require.Empty(t, calm.violations)
		for call, op := range calm.calls {
			for _, fault := range flavoursOf(op) {
				plays = append(plays, play{story: story, faults: map[int]flavour{call: fault}})
			}
		}
	}
	return plays
}

// everySecond lists the plays with a second fault at every call that was made after
// the first. Both are of the flavours that differ in what was done.
func everySecond(p play, r result) []play {
	var plays []play
	for first, f := range p.faults {
		if !slices.Contains(distinct(r.calls[first]), f) {
			continue
		}
		for call := first + 1; call < len(r.calls); call++ {
			for _, second := range distinct(r.calls[call]) {
				plays = append(plays, play{story: p.story, faults: map[int]flavour{first: f, call: second}})
			}
		}
	}
	return plays
}

// distinct are the flavours without those that differ only in what is said or when.
func distinct(op string) []flavour {
	if changes(op) {
		return []flavour{broken, lostAnswer, late, diesAfter}
	}
	return []flavour{broken}
}

func everyThird(plays []play) []play {
	var some []play
	for i := 0; i < len(plays); i += 3 {
		some = append(some, plays[i])
	}
	return some
}

// share performs plays in two goroutines and counts what they come to.
func (f *figures) share(t *testing.T, name string, plays []play, sort *int, each func(play, result)) {
	const hands = 2
	t.Run(name, func(t *testing.T) {
		for hand := range hands {
			t.Run(strconv.Itoa(hand), func(t *testing.T) {
				t.Parallel()
				for i := hand; i < len(plays); i += hands {
					f.count(plays[i], perform(t, plays[i], parts{}), sort, each)
				}
			})
		}
	})
}

// brokenParts are the negative controls: each must be noticed.
func brokenParts() map[string]parts {
	return map[string]parts{
		"an environment without keys and versions":   {naive: true, want: "property 1:"},
		"a journal that forgets an intent":           {journal: func(j Journal) Journal { return forgetful{j} }, want: "property 2:"},
		"a journal that lets a stale length through": {journal: func(j Journal) Journal { return lenient{j} }, want: "property 7:"},
	}
}

// foundOut returns how many plays it took until a broken part was noticed by the
// property that it breaks, or 0. Plays in which an answer is lost or late are enough.
func foundOut(t *testing.T, plays []play, with parts) int {
	n := 0
	for _, p := range plays {
		for _, f := range p.faults {
			if f != lostAnswer && f != late {
				continue
			}
			n++
			if strings.Contains(strings.Join(perform(t, p, with).violations, "\n"), with.want) {
				return n
			}
		}
	}
	return 0
}

// replay plays one run and tells it.
func replay(t *testing.T, text string) {
	p, err := parsePlay(text)
	require.NoError(t, err)
	r := perform(t, p, parts{})
	t.Logf("%s, %v", p.story, p.faults)
	for i, op := range r.calls {
		fault := ""
		if f, ok := p.faults[i]; ok && slices.Contains(flavoursOf(op), f) {
			fault = "  <- " + string(f)
		}
		t.Logf("%3d %s%s", i, op, fault)
	}
	t.Logf("outcome %q, %d restarts", r.outcome, r.restarts)
	require.Empty(t, r.violations)
}
