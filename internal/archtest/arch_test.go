package archtest

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "blastdoor"

// allowed is the table of DESIGN section 1: what each package may import of ours,
// in its own code and, after the bar, additionally in its tests. "all" is all.
var allowed = map[string][2][]string{
	"":                   {},
	"verifier":           {{""}},
	"engine":             {{"", "verifier"}, {"internal/memstore"}},
	"chat/blockkit":      {},
	"chat/slacksim":      {{"chat/blockkit"}},
	"chat":               {{"", "chat/blockkit"}, {"chat/slacksim"}},
	"simenv":             {{""}, {"internal/envtest"}},
	"store":              {{""}, {"internal/storetest"}},
	"runbooks":           {{""}},
	"internal/memstore":  {{""}, {"internal/storetest"}},
	"internal/envtest":   {{""}},
	"internal/storetest": {{""}, {"store", "internal/memstore"}},
	"internal/testproc":  {},
	"internal/archtest":  {},
	"internal/bench":     {{"all"}, {"all"}},
	"internal/app":       {{"all"}, {"all"}},
	"evals":              {{"all"}, {"all"}},
	"cmd/bot":            {{"all"}, {"all"}},
}

// homes says in which one package a heavy library may be imported outside tests.
var homes = map[string][]string{
	"github.com/slack-go/slack":                {"chat"},
	"github.com/gorilla/websocket":             {"chat/slacksim"},
	"modernc.org/sqlite":                       {"store", "simenv", "evals"},
	"golang.org/x/mod/sumdb":                   {"store"},
	"github.com/santhosh-tekuri/jsonschema/v6": {"runbooks"},
	"github.com/sethvargo/go-envconfig":        {"cmd/bot"},
	"github.com/gofrs/flock":                   {"store"},
	"github.com/hanwen/go-fuse/v2":             {"evals"},
	"gopkg.in/yaml.v3":                         {"runbooks", "simenv", "evals"},
}

// testOnly may be imported by tests alone.
var testOnly = []string{"github.com/stretchr/testify", "pgregory.net/rapid", "go.uber.org/goleak", "github.com/rogpeppe/go-internal"}

// testSupport are packages that exist for tests and may use testing libraries.
var testSupport = []string{"internal/envtest", "internal/storetest", "evals"}

// clocks are the packages that may read the wall clock; all others get it as a value.
var clocks = []string{"cmd/bot", "chat/slacksim", "evals"}

func root(t *testing.T) string {
	dir, err := filepath.Abs("../..")
	require.NoError(t, err)
	return dir
}

// packages returns every package of the module by its path below the root.
func packages(t *testing.T) map[string]*build.Package {
	found := map[string]*build.Package{}
	base := root(t)
	err := filepath.WalkDir(base, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if name := d.Name(); path != base && (name == "testdata" || strings.HasPrefix(name, ".")) {
			return filepath.SkipDir
		}
		if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && path != base {
			return filepath.SkipDir // another module
		}
		p, err := build.ImportDir(path, 0)
		if err != nil {
			if _, empty := err.(*build.NoGoError); empty {
				return nil
			}
			return err
		}
		rel, err := filepath.Rel(base, path)
		if rel == "." {
			rel = ""
		}
		found[filepath.ToSlash(rel)] = p
		return err
	})
	require.NoError(t, err)
	return found
}

func TestImportsFollowTheTable(t *testing.T) {
	for path, p := range packages(t) {
		require.Empty(t, violations(path, p.Imports, append(p.TestImports, p.XTestImports...)))
	}
}

// TestTheTableBites is the negative control.
func TestTheTableBites(t *testing.T) {
	require.NotEmpty(t, violations("engine", []string{module + "/simenv"}, nil))
	require.NotEmpty(t, violations("chat", []string{module + "/engine"}, nil))
	require.NotEmpty(t, violations("engine", []string{"github.com/slack-go/slack"}, nil))
	require.NotEmpty(t, violations("", []string{"gopkg.in/yaml.v3"}, nil))
	require.NotEmpty(t, violations("store", []string{"github.com/stretchr/testify/require"}, nil))
	require.NotEmpty(t, violations("brand/new", nil, nil))
}

func violations(path string, imports, testImports []string) []string {
	rule, known := allowed[family(path)]
	if !known {
		return []string{fmt.Sprintf("package %q is not in the table: decide what it may import", path)}
	}
	var out []string
	for _, imp := range imports {
		if why := forbidden(path, imp, rule[0]); why != "" {
			out = append(out, why)
		}
	}
	for _, imp := range testImports {
		if ours, isOurs := own(imp); isOurs && ours != path && !may(ours, slices.Concat(rule[0], rule[1])) {
			out = append(out, fmt.Sprintf("the tests of %q may not import %q", path, ours))
		}
	}
	return out
}

// family is the line of the table that a package stands under: the evals are one.
func family(path string) string {
	if strings.HasPrefix(path, "evals/") {
		return "evals"
	}
	return path
}

func forbidden(path, imp string, mayImport []string) string {
	if ours, isOurs := own(imp); isOurs {
		if !may(ours, mayImport) {
			return fmt.Sprintf("%q may not import %q", path, ours)
		}
		return ""
	}
	if path == "" && strings.Contains(imp, ".") {
		return fmt.Sprintf("the root package imports the standard library only, not %q", imp)
	}
	for lib, where := range homes {
		if (imp == lib || strings.HasPrefix(imp, lib+"/")) && !slices.Contains(where, family(path)) {
			return fmt.Sprintf("%q may not import %q: its home is %v", path, imp, where)
		}
	}
	for _, lib := range testOnly {
		if strings.HasPrefix(imp, lib) && !slices.Contains(testSupport, family(path)) {
			return fmt.Sprintf("%q may import %q only in tests", path, imp)
		}
	}
	return ""
}

func own(imp string) (string, bool) {
	if imp == module {
		return "", true
	}
	return strings.CutPrefix(imp, module+"/")
}

func may(path string, list []string) bool {
	return slices.Contains(list, path) || slices.Contains(list, "all")
}

func TestEveryPackageSaysWhatItDoes(t *testing.T) {
	for path, p := range packages(t) {
		if len(p.GoFiles) > 0 {
			require.NotEmpty(t, p.Doc, "package %q has no doc comment", path)
		}
	}
}

// TestTimeIsAValue: the wall clock is read, and slept on, at the edges only.
func TestTimeIsAValue(t *testing.T) {
	for path, p := range packages(t) {
		if slices.Contains(clocks, family(path)) {
			continue
		}
		for _, name := range p.GoFiles {
			file := filepath.Join(root(t), path, name)
			require.Empty(t, clockReads(t, file), "%s reads the clock: pass the time in", filepath.Join(path, name))
		}
	}
}

// TestTestsDoNotSleep: a test waits on a signal. Where a package's tests run under
// testing/synctest, a sleep is virtual and is how time passes.
func TestTestsDoNotSleep(t *testing.T) {
	for path, p := range packages(t) {
		if slices.Contains(append(p.TestImports, p.XTestImports...), "testing/synctest") {
			continue
		}
		for _, name := range append(p.TestGoFiles, p.XTestGoFiles...) {
			for _, call := range clockReads(t, filepath.Join(root(t), path, name)) {
				require.NotContains(t, call, "Sleep", "%s sleeps", filepath.Join(path, name))
			}
		}
	}
}

// clockReads returns calls of time.Now, time.Since, time.Until and time.Sleep. A
// mention without a call (time.Now as a default value) is how the edge passes it in.
func clockReads(t *testing.T, file string) []string {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, nil, 0)
	require.NoError(t, err)
	var out []string
	ast.Inspect(tree, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "time" && slices.Contains([]string{"Now", "Since", "Until", "Sleep"}, sel.Sel.Name) {
			out = append(out, fmt.Sprintf("%s: time.%s", set.Position(call.Pos()), sel.Sel.Name))
		}
		return true
	})
	return out
}
