package runbooks_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"blastdoor"
	"blastdoor/runbooks"
)

const fixRunbook = "name: fix\ndescription: Fix it.\nsteps:\n  - {id: list, action: list_services}\n"

// shelf is a directory with one runbook and a policy.
func shelf(t *testing.T) (dir string, write func(file, text string)) {
	t.Helper()
	dir = t.TempDir()
	write = func(file, text string) {
		t.Helper()
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	}
	write("fix.yaml", fixRunbook)
	write("policy.yaml", goodPolicy)
	return dir, write
}

func TestLibraryOfShippedFiles(t *testing.T) {
	l := open(t, runbooks.Options{})
	ctx := t.Context()
	all, err := l.Runbooks(ctx)
	require.NoError(t, err)
	var names []string
	for _, rb := range all {
		names = append(names, rb.Name)
	}
	assert.Equal(t, []string{"drain-host", "drain-host-a", "restart-cache", "safe-restart", "scale-auth", "scale-db-to-zero"}, names)
	policy, err := l.Policy(ctx)
	require.NoError(t, err)
	assert.Equal(t, "default", policy.Name)
	problems, err := l.Check(ctx)
	require.NoError(t, err)
	assert.Empty(t, problems)

	strict, err := open(t, runbooks.Options{PolicyFile: runbooks.StrictPolicy}).Policy(ctx)
	require.NoError(t, err)
	assert.Equal(t, "strict", strict.Name)

	rb, err := l.Runbook(ctx, "drain-host")
	require.NoError(t, err)
	_, steps, err := l.Resolve(rb, map[string]string{"host": "host-a"})
	require.NoError(t, err)
	assert.Equal(t, blastdoor.Params{"host": "host-a"}, steps[0].Params)
	_, _, err = l.Resolve(rb, map[string]string{"host": "web; rm -rf /"})
	assert.EqualError(t, err, `params_invalid: host: "web; rm -rf /" does not have the form [a-z0-9][a-z0-9-]{0,62} `+
		`(drain-host takes host (text of the form [a-z0-9][a-z0-9-]{0,62}, required))`)
}

func TestRunbookNotFound(t *testing.T) {
	dir, _ := shelf(t)
	shipped, own := open(t, runbooks.Options{}), open(t, runbooks.Options{Dir: dir})
	for _, tt := range []struct {
		library    *runbooks.Library
		name, want string
	}{
		{shipped, "drain-hots-a", `not_found: there is no runbook "drain-hots-a" (did you mean "drain-host-a"?)`},
		{shipped, "ghost", `not_found: there is no runbook "ghost" (the runbooks are drain-host, drain-host-a, restart-cache, safe-restart, scale-auth, scale-db-to-zero)`},
		{own, "policy", `not_found: there is no runbook "policy" (the runbooks are fix)`},
		{own, "../fix", `not_found: there is no runbook "../fix" (the runbooks are fix)`},
		{own, "fix.yaml", `not_found: there is no runbook "fix.yaml" (the runbooks are fix)`},
		{own, "", `not_found: there is no runbook "" (the runbooks are fix)`},
		{own, strings.Repeat("x", 10_000), `not_found: there is no runbook "` + strings.Repeat("x", 60) + `"… (10000 characters) (the runbooks are fix)`},
	} {
		_, err := tt.library.Runbook(t.Context(), tt.name)
		assert.Equal(t, blastdoor.ErrNotFound, blastdoor.CodeOf(err))
		assert.EqualError(t, err, tt.want)
	}
}

func TestAFreezeBegunASecondAgoCounts(t *testing.T) {
	dir, write := shelf(t)
	l := open(t, runbooks.Options{Dir: dir})
	before, err := l.Policy(t.Context())
	require.NoError(t, err)
	write("policy.yaml", with("freezes", "[{name: now, names: [\"*\"]}]"))
	after, err := l.Policy(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "release", before.Freezes[0].Name)
	assert.Equal(t, "now", after.Freezes[0].Name)
}

func TestAPolicyThatDoesNotLoadIsNeverReplacedByTheOneBefore(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, dir string, write func(string, string)){
		"wrong": func(_ *testing.T, _ string, write func(string, string)) {
			write("policy.yaml", with("max_affected", "-1"))
		},
		"half":  func(_ *testing.T, _ string, write func(string, string)) { write("policy.yaml", goodPolicy[:200]) },
		"empty": func(_ *testing.T, _ string, write func(string, string)) { write("policy.yaml", "") },
		"missing": func(t *testing.T, dir string, _ func(string, string)) {
			require.NoError(t, os.Remove(filepath.Join(dir, "policy.yaml")))
		},
		"a directory": func(t *testing.T, dir string, _ func(string, string)) {
			require.NoError(t, os.Remove(filepath.Join(dir, "policy.yaml")))
			require.NoError(t, os.Mkdir(filepath.Join(dir, "policy.yaml"), 0o700))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, write := shelf(t)
			l := open(t, runbooks.Options{Dir: dir})
			spoil(t, dir, write)
			for range 2 { // the second time from what was parsed
				p, err := l.Policy(t.Context())
				assert.Equal(t, blastdoor.ErrInvalidPolicy, blastdoor.CodeOf(err))
				assert.Equal(t, blastdoor.Policy{}, p)
			}
			problems, err := l.Check(t.Context())
			require.NoError(t, err)
			assert.Equal(t, blastdoor.ErrInvalidPolicy, problems[0].Code)

			require.NoError(t, os.RemoveAll(filepath.Join(dir, "policy.yaml")))
			write("policy.yaml", goodPolicy)
			_, err = l.Policy(t.Context())
			assert.NoError(t, err, "mended, it counts again")
		})
	}
}

func TestARunbookThatDoesNotLoad(t *testing.T) {
	dir, write := shelf(t)
	l := open(t, runbooks.Options{Dir: dir})
	_, err := l.Runbook(t.Context(), "fix")
	require.NoError(t, err)
	write("fix.yaml", "name: fix\nsteps:\n  - {id: a, action: reboot}\n  - {id: a, action: list_services}\n")
	write("other.yaml", strings.ReplaceAll(fixRunbook, "fix", "another"))
	write("good.yaml", strings.ReplaceAll(fixRunbook, "fix", "good"))

	_, err = l.Runbook(t.Context(), "fix")
	assert.Equal(t, noAction, blastdoor.CodeOf(err))
	first, ok := errors.AsType[*blastdoor.Error](err)
	require.True(t, ok)
	assert.Equal(t, `there is no action "reboot"; and 1 more problem`, first.Msg)
	assert.ErrorContains(t, first.Err, "duplicate_id")

	_, err = l.Runbook(t.Context(), "other")
	assert.EqualError(t, err, `other.yaml:1: invalid_runbook: the file is called other.yaml but the runbook is named "another" (write `+
		"`name: other`, or call the file another.yaml)")

	_, err = l.Runbook(t.Context(), "good")
	assert.NoError(t, err, "one wrong file does not stop another")

	all, err := l.Runbooks(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []blastdoor.Runbook{
		{Name: "fix", File: "fix.yaml", Description: "cannot be run: its file has 2 problems"},
		{Name: "good", File: "good.yaml", Description: "Fix it.", Steps: []blastdoor.Step{{ID: "list", Action: "list_services", Line: 4}}},
		{Name: "other", File: "other.yaml", Description: "cannot be run: its file has 1 problem"},
	}, all)
}

func TestCheckFindsNamesThatLeadNowhere(t *testing.T) {
	dir, write := shelf(t)
	write("policy.yaml", strings.Replace(with("menu", "[{action: drain_hots, tier: 0}]"), "runbooks: [fix]", "runbooks: [fxi]", 1))
	write("broken.yaml", "name: broken\n")
	problems, err := open(t, runbooks.Options{Dir: dir}).Check(t.Context())
	require.NoError(t, err)
	var texts []string
	for _, p := range problems {
		texts = append(texts, p.Error())
	}
	assert.Equal(t, []string{
		"broken.yaml:1: invalid_runbook: the runbook has no steps (add `steps: [{id: list, action: list_services}]`)",
		`policy.yaml: invalid_policy: the menu has drain_hots, which the environment cannot do (did you mean "drain_host"?)`,
		`policy.yaml: invalid_policy: channel C0DEV has the runbook fxi, which does not exist (did you mean "fix"?)`,
	}, texts)
}

func TestOpenErrors(t *testing.T) {
	dir, write := shelf(t)
	write("policy-bad.yaml", "name: bad\n")
	for name, o := range map[string]runbooks.Options{
		"no such directory":      {Dir: filepath.Join(dir, "nowhere")},
		"no such policy":         {Dir: dir, PolicyFile: filepath.Join(dir, "nowhere.yaml")},
		"a policy that is wrong": {Dir: dir, PolicyFile: filepath.Join(dir, "policy-bad.yaml")},
		"no such shipped policy": {PolicyFile: "shipped:lax.yaml"},
		"a shipped runbook":      {PolicyFile: "shipped:drain-host.yaml"},
		"out of the shipped":     {PolicyFile: "shipped:../shipped.go"},
	} {
		_, err := runbooks.Open(o)
		assert.Error(t, err, name)
	}
	p, err := open(t, runbooks.Options{PolicyFile: filepath.Join(dir, "policy.yaml")}).Policy(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "good", p.Name)
}

func TestLibraryStopsWithItsContext(t *testing.T) {
	l := open(t, runbooks.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := l.Policy(ctx)
	assert.ErrorIs(t, err, context.Canceled)
	_, err = l.Runbook(ctx, "drain-host")
	assert.ErrorIs(t, err, context.Canceled)
	_, err = l.Runbooks(ctx)
	assert.ErrorIs(t, err, context.Canceled)
	_, err = l.Check(ctx)
	assert.ErrorIs(t, err, context.Canceled)
}

func TestLibraryIsSafeForManyGoroutines(t *testing.T) {
	dir, write := shelf(t)
	l := open(t, runbooks.Options{Dir: dir})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				// While the file is being written it may be empty or short: an error, never a mixture.
				if rb, err := l.Runbook(t.Context(), "fix"); err == nil {
					assert.Len(t, rb.Steps, 1)
				}
				_, err := l.Policy(t.Context())
				assert.NoError(t, err)
				_, err = l.Runbooks(t.Context())
				assert.NoError(t, err)
			}
		})
	}
	for i := range 20 {
		write("fix.yaml", fixRunbook+strings.Repeat("#\n", i))
	}
	wg.Wait()
	_, err := l.Runbook(t.Context(), "fix")
	assert.NoError(t, err)
}

func TestJoin(t *testing.T) {
	assert.NoError(t, runbooks.Join(nil))
	a, b := &blastdoor.Error{Code: cycle, Msg: "first"}, &blastdoor.Error{Code: noStep, Msg: "second"}
	assert.Same(t, a, runbooks.Join([]*blastdoor.Error{a}))
	both := runbooks.Join(slices.Repeat([]*blastdoor.Error{a, b}, 2))
	assert.Equal(t, cycle, blastdoor.CodeOf(both))
	assert.ErrorIs(t, both, b)
	assert.Equal(t, "first", a.Msg, "the problem itself is not changed")
}
