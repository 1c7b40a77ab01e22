package crash

import (
	"bytes"
	"context"
	"io"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"blastdoor/evals/report"
)

func newTestBench(t *testing.T, tags string) bench {
	t.Helper()
	w, err := newWorkshop(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.close()) })
	b, err := w.openBench(t.Context(), tags)
	require.NoError(t, err)
	return b
}

func TestTheShippedBinaryHasNoCrashPoints(t *testing.T) {
	w, err := newWorkshop(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.close()) })
	shipped, err := w.build(t.Context(), "")
	require.NoError(t, err)
	n, err := traces(shipped)
	require.NoError(t, err)
	require.Zero(t, n)

	// The settings have no effect on it: it passes the point, and no log is written.
	b := bench{workshop: w, binary: shipped, limit: caseLimit}
	r, err := b.play(t.Context(), at(point{"before_intent", asking, 1}))
	require.NoError(t, err)
	require.True(t, r.sound(), r.differs)
	require.Zero(t, r.reached)
	require.Empty(t, r.first)

	// The negative control of the look: the other build has every trace, and does
	// not serve without a log of its points.
	tagged, err := w.build(t.Context(), "crashpoints")
	require.NoError(t, err)
	n, err = traces(tagged)
	require.NoError(t, err)
	require.Equal(t, 4, n)
	cmd := exec.CommandContext(t.Context(), tagged, "serve")
	cmd.Env = []string{"SLACK_BOT_TOKEN=xoxb-1", "SLACK_APP_TOKEN=xapp-1", "BLASTDOOR_SLACK_API_URL=http://127.0.0.1:1/api/",
		"BLASTDOOR_DATA=" + w.deployment()}
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "dies on purpose")
}

func TestAnUninterruptedRunPassesEveryPoint(t *testing.T) {
	b := newTestBench(t, "crashpoints")
	r, err := b.play(t.Context())
	require.NoError(t, err)
	require.True(t, r.sound(), r.differs)
	require.Subset(t, r.first, everyPoint())
	require.NoError(t, hasEveryBoundary(r.first))
	require.Error(t, hasEveryBoundary([]point{{"before_rollback", "reset", 1}}))

	// One kill where it is most dangerous, two in a row, and one held for its ack.
	for _, kills := range [][]kill{
		{at(point{"after_effect", asking, 1})},
		{at(point{"before_effect", asking, 1}), at(point{"after_effect", asking, 1})},
		{at(point{"after_ack", "click", 2})},
		{{after: 5 * time.Millisecond}},
	} {
		r, err := b.play(t.Context(), kills...)
		require.NoError(t, err)
		require.Equal(t, len(kills), r.reached, "%v", kills)
		require.True(t, r.sound(), "%v: %v", kills, r.differs)
		require.False(t, r.lost)
		require.Zero(t, r.end.duplicates+r.end.doubled)
	}

	// A point that is not on the way is not counted as reached.
	r, err = b.play(t.Context(), at(point{"after_effect", "look", 1}))
	require.NoError(t, err)
	require.Zero(t, r.reached)
	require.True(t, r.sound(), r.differs)
}

// TestTheMatrixNoticesADoubledCard is a negative control; the eval has four more.
func TestTheMatrixNoticesADoubledCard(t *testing.T) {
	b := newTestBench(t, "crashpoints,without_history")
	r, err := b.play(t.Context(), at(point{"after_post_before_record", "run_card", 1}))
	require.NoError(t, err)
	require.Equal(t, 1, r.end.doubled)
	require.False(t, r.sound())
}

func TestAnEndThatDiffersIsNoticed(t *testing.T) {
	good := func() end {
		return end{environment: []string{"world"}, ledger: []string{"restart"}, run: []string{"completed"},
			messages: []string{"card"}, whispers: []string{"refused"}}
	}
	want := good()
	told := good()
	told.whispers = append(told.whispers, "decided already · `not_pending`")
	require.Empty(t, told.against(&want), "who had to click twice may be told so")
	for name, spoil := range map[string]func(*end){
		"environment":      func(e *end) { e.environment = []string{"another"} },
		"ledger":           func(e *end) { e.ledger = append(e.ledger, "restart") },
		"run":              func(e *end) { e.run = append(e.run, "audit: property 1") },
		"messages":         func(e *end) { e.messages = append(e.messages, "card") },
		"private messages": func(e *end) { e.whispers = nil },
	} {
		bad := good()
		spoil(&bad)
		found := bad.against(&want)
		require.Len(t, found, 1, name)
		require.Contains(t, found[0], name+", line ")
	}
}

func TestMessagesAreComparedWithoutIdsAndTimes(t *testing.T) {
	one := "runbook (app) · 14:29 · edited\n│ ✅ Applied today at 14:29 UTC: Restarted. Effect `effect-3` (it had happened\n" +
		"│ before under the same key; it was not done twice).\n│ · Plan `d7f5c227` · run `tidy-up-b2vdcvbo`\n"
	two := "runbook (app) · 23:59\n│ ✅ Applied yesterday at 23:58 UTC: Restarted. Effect `effect-3`.\n│ · Plan `00000000` · run\n│ `tidy-up-aaaaaaaa`\n"
	require.Equal(t, plain(two), plain(one))
	require.NotEqual(t, plain(two), plain("runbook (app) · 23:59\n│ ✅ Applied TIME: Restarted. Effect `effect-4`.\n"))
}

// sample is what a matrix would hold after everything went well.
func sample() *matrix {
	good := func() tally { return tally{total: 3, cases: 3, kills: 3, reached: 3, sound: 3} }
	m := &matrix{singles: good(), pairs: good(), random: good(), planner: newPlanner(map[point][]point{})}
	for _, c := range controls() {
		m.controls = append(m.controls, verdict{tag: c.tag, caught: true})
	}
	here := place{everyPoint()[0], everyPoint()[1]}
	m.planner.places[here.pair()] = []place{here}
	return m
}

func TestTheEvalFailsWhenItFallsShort(t *testing.T) {
	passed := func(m *matrix) bool { return report.New(Eval(), m.figures(), time.Now()).Passed }
	require.True(t, passed(sample()))
	for name, spoil := range map[string]func(*matrix){
		"a point not reached":   func(m *matrix) { m.singles.reached-- },
		"a wrong end":           func(m *matrix) { m.singles.sound-- },
		"a wrong end of two":    func(m *matrix) { m.pairs.sound-- },
		"a wrong end at random": func(m *matrix) { m.random.sound-- },
		"a duplicate write":     func(m *matrix) { m.pairs.duplicates = 1 },
		"a lost approval":       func(m *matrix) { m.random.lost = 1 },
		"a doubled card":        func(m *matrix) { m.singles.doubled = 1 },
		"a control not caught":  func(m *matrix) { m.controls[2].caught = false },
		"a trace in the binary": func(m *matrix) { m.plain = 1 },
		"a pair not met": func(m *matrix) {
			first, second := everyPoint()[0], everyPoint()[1]
			m.planner.after[first] = []place{{first, second}}
		},
	} {
		m := sample()
		spoil(m)
		require.False(t, passed(m), name)
	}
}

func TestATallyCountsWhatWentWrong(t *testing.T) {
	var out bytes.Buffer
	sum := tally{out: &out}
	sum.add(result{kills: []kill{at(everyPoint()[0])}, reached: 1})
	sum.add(result{kills: []kill{at(everyPoint()[0])}, differs: []string{"ledger, line 2"}, lost: true, end: end{duplicates: 1, doubled: 2}})
	require.Equal(t, tally{out: &out, cases: 2, kills: 1, reached: 1, sound: 1, duplicates: 1, lost: 1, doubled: 2}, sum)
	require.Contains(t, out.String(), "ledger, line 2")
}

func TestThePlannerMeetsEveryPair(t *testing.T) {
	points := everyPoint()
	passed := map[point][]point{}
	for i, p := range points {
		passed[p] = append(slices.Clone(points[i:]), point{"after_update_record", "widen", 7}) // no place of its own
	}
	plan := newPlanner(passed)
	all := len(plan.missing())
	require.Equal(t, len(plan.places), all)
	for runs := plan.next(); len(runs) > 0; runs = plan.next() {
		for _, kills := range runs {
			require.LessOrEqual(t, len(kills), maxChain)
			plan.note(result{kills: kills, reached: len(kills)})
		}
		require.LessOrEqual(t, plan.round, 2, "what is not met in chains is met one by one")
	}
	require.Empty(t, plan.missing())

	// A pair that is never met is given up, and stays missing.
	stubborn := newPlanner(passed)
	rounds := 0
	for runs := stubborn.next(); len(runs) > 0; runs = stubborn.next() {
		rounds++
		for _, kills := range runs {
			stubborn.note(result{kills: kills, reached: 1})
		}
	}
	require.Equal(t, maxRounds, rounds)
	require.Len(t, stubborn.missing(), all)
}

func TestPointsAreReadBack(t *testing.T) {
	for _, p := range everyPoint() {
		got, err := parsePoint(p.String())
		require.NoError(t, err)
		require.Equal(t, p, got)
	}
	for _, bad := range []string{"", "after_effect", "after_effect:reset", "after_effect:reset:x", "after_effect:reset:0", "a:b:1:2"} {
		_, err := parsePoint(bad)
		require.Error(t, err, bad)
	}
	for _, c := range controls() {
		for _, text := range c.points {
			p, err := parsePoint(text)
			require.NoError(t, err)
			require.Contains(t, everyPoint(), p)
		}
	}
}

func TestAnEvalThatIsCancelledSaysSo(t *testing.T) {
	b := newTestBench(t, "crashpoints")
	b.limit = time.Millisecond
	r, err := b.play(t.Context())
	require.NoError(t, err)
	require.False(t, r.sound())
	_, err = run(cancelled(t), report.Options{Progress: io.Discard})
	require.Error(t, err)
}

func cancelled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
