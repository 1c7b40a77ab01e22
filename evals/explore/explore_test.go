package explore

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"blastdoor/engine"
)

func search1(t *testing.T, b bounds, f flaws) *search {
	t.Helper()
	m, err := newModel(b, f)
	require.NoError(t, err)
	return newSearch(m, 20_000, 1)
}

// TestBothCheckersAgree holds the checks of single transitions against the checker
// of whole histories, in every state of a model.
func TestBothCheckersAgree(t *testing.T) {
	s := search1(t, bounds{runs: 1, stale: true}, flaws{})
	f, err := s.run(t.Context(), io.Discard)
	require.NoError(t, err)
	require.Empty(t, f.breach, strings.Join(f.trace, "\n"))
	require.True(t, f.exhausted)
	require.Equal(t, f.states, f.checked, "every state was held against engine.CheckProperties")
	require.Greater(t, f.states, 1000)
}

// TestBrokenModelsAreFoundOut: each flaw is found, by the property that it breaks;
// and where that is one of the ten, the checker of whole histories objects too.
func TestBrokenModelsAreFoundOut(t *testing.T) {
	for _, c := range controls() {
		t.Run(c.name, func(t *testing.T) {
			m, err := newModel(c.bounds, c.flaws)
			require.NoError(t, err)
			f, err := newSearch(m, limit, sampled).run(t.Context(), io.Discard)
			require.NoError(t, err)
			require.Truef(t, strings.HasPrefix(f.breach, c.want), "found %q", f.breach)
			require.NotEmpty(t, f.trace)
			if strings.HasPrefix(c.want, "property") && c.want != "property 7" {
				require.NotEmpty(t, engine.CheckProperties(m.evidence(f.end)))
			}
		})
	}
}

// TestOneFingerprintOneFuture: states that are taken for one have the same
// successors, whichever way they were reached.
func TestOneFingerprintOneFuture(t *testing.T) {
	s := search1(t, bounds{runs: 1, stale: true}, flaws{})
	var b printer
	future := func(st *state) (out [][16]byte) {
		for _, mv := range s.model.moves(st, nil) {
			next, _ := s.model.do(st, mv)
			out = append(out, next.fingerprint(&b))
		}
		return out
	}
	start := &state{}
	start.env.version = 1
	known, todo, joined := map[[16]byte][][16]byte{}, []*state{start}, 0
	for len(todo) > 0 {
		st := todo[0]
		todo = todo[1:]
		for _, mv := range s.model.moves(st, nil) {
			next, _ := s.model.do(st, mv)
			sum := next.fingerprint(&b)
			if was, ok := known[sum]; ok {
				joined++
				require.Equal(t, was, future(&next))
				continue
			}
			known[sum] = future(&next)
			if len(known) < 1500 {
				todo = append(todo, &next)
			}
		}
	}
	require.Greater(t, joined, 1000)
}

// TestARunThatGoesRoundIsFound is the negative control of property 8.
func TestARunThatGoesRoundIsFound(t *testing.T) {
	s := search1(t, bounds{runs: 1}, flaws{})
	_, err := s.run(t.Context(), io.Discard)
	require.NoError(t, err)
	last := uint32(len(s.fair) - 1)
	s.fair[last], s.fair[last-1] = last-1, last
	s.checkProgress()
	require.Contains(t, s.found.breach, "property 8")
}

func TestASearchStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := search1(t, bounds{runs: 1}, flaws{}).run(ctx, io.Discard)
	require.ErrorIs(t, err, context.Canceled)
}
