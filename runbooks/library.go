package runbooks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"blastdoor"
)

// Options say where the files are.
type Options struct {
	// Dir holds the runbooks, one NAME.yaml each; policy.yaml and
	// policy-*.yaml are not runbooks. Empty: the shipped ones.
	Dir string
	// PolicyFile is the path of the policy, or "shipped:" and the name of a
	// shipped one. Empty: policy.yaml beside the runbooks.
	PolicyFile string
	// Actions are what the environment can do.
	Actions []blastdoor.Action
}

// Library is the runbooks and the policy of now. Every call reads the files; they
// are parsed again only when their bytes have changed. A file that does not load
// is an error: the version before it is never used. It may be used by many
// goroutines at once. What it returns must not be modified.
type Library struct {
	files   fs.FS
	policy  source
	schemas *schemas

	mu       sync.Mutex
	runbooks map[string]parsed[blastdoor.Runbook]
	current  *parsed[blastdoor.Policy] // nil: not read yet
}

// source is one file.
type source struct {
	files fs.FS
	name  string
}

// parsed is what the bytes of a file meant.
type parsed[T any] struct {
	data     []byte
	value    T
	problems []*blastdoor.Error
}

// Open checks that the policy loads and that the runbooks can be listed. A
// runbook that does not load is no error here; Check tells.
func Open(o Options) (*Library, error) {
	s, err := compileAll(o.Actions)
	if err != nil {
		return nil, err
	}
	l := &Library{files: Shipped(), schemas: s, runbooks: map[string]parsed[blastdoor.Runbook]{}}
	if o.Dir != "" {
		l.files = os.DirFS(o.Dir)
	}
	l.policy = source{l.files, "policy.yaml"}
	if name, ok := strings.CutPrefix(o.PolicyFile, "shipped:"); ok {
		l.policy = source{Shipped(), name}
	} else if o.PolicyFile != "" {
		l.policy = source{os.DirFS(filepath.Dir(o.PolicyFile)), filepath.Base(o.PolicyFile)}
	}
	if _, err := l.names(); err != nil {
		return nil, fmt.Errorf("listing runbooks: %w", err)
	}
	if _, err := l.Policy(context.Background()); err != nil {
		return nil, fmt.Errorf("loading the policy: %w", err)
	}
	return l, nil
}

// Policy returns the policy of now; ErrInvalidPolicy when its file cannot be read
// or does not load.
func (l *Library) Policy(ctx context.Context) (blastdoor.Policy, error) {
	if err := ctx.Err(); err != nil {
		return blastdoor.Policy{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	policy, problems := l.loadPolicy()
	return policy, Join(problems)
}

// Runbook returns the runbook of a name, as its file says now. ErrNotFound, with
// the nearest name, when there is none; the load error when its file is wrong.
func (l *Library) Runbook(ctx context.Context, name string) (blastdoor.Runbook, error) {
	if err := ctx.Err(); err != nil {
		return blastdoor.Runbook{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	names, err := l.names()
	if err != nil {
		return blastdoor.Runbook{}, &blastdoor.Error{Code: blastdoor.ErrUnavailable, Msg: "the runbooks cannot be listed", Err: err}
	}
	if !slices.Contains(names, name) {
		return blastdoor.Runbook{}, &blastdoor.Error{Code: blastdoor.ErrNotFound, Msg: "there is no runbook " + quoted(name),
			Want: suggest(name, names, "the runbooks are")}
	}
	rb, problems := l.load(name)
	if err := Join(problems); err != nil {
		return blastdoor.Runbook{}, err
	}
	return rb, nil
}

// Runbooks returns all runbooks by name. One whose file does not load is listed
// without steps, and its description says so; it cannot be run.
func (l *Library) Runbooks(ctx context.Context) ([]blastdoor.Runbook, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	names, err := l.names()
	if err != nil {
		return nil, &blastdoor.Error{Code: blastdoor.ErrUnavailable, Msg: "the runbooks cannot be listed", Err: err}
	}
	var out []blastdoor.Runbook
	for _, name := range names {
		rb, problems := l.load(name)
		if len(problems) > 0 {
			rb = blastdoor.Runbook{Name: name, File: name + ".yaml",
				Description: "cannot be run: its file has " + plural(len(problems), "problem", "problems")}
		}
		out = append(out, rb)
	}
	return out, nil
}

// Resolve converts typed inputs and replaces ${{ inputs.x }}; see the function of
// the same name.
func (l *Library) Resolve(rb blastdoor.Runbook, inputs map[string]string) (blastdoor.Params, []blastdoor.Step, error) {
	return Resolve(rb, inputs)
}

// ValidateParams checks parameters against the action's JSON Schema; ErrParamsInvalid.
func (l *Library) ValidateParams(action blastdoor.Action, params blastdoor.Params) error {
	return l.schemas.validate(action, params)
}

// names lists the runbooks, sorted.
func (l *Library) names() ([]string, error) {
	entries, err := fs.ReadDir(l.files, ".")
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".yaml")
		if ok && !e.IsDir() && name != "policy" && !strings.HasPrefix(name, "policy-") && !strings.HasPrefix(name, ".") {
			out = append(out, name)
		}
	}
	slices.Sort(out) // file names sort otherwise: a dot comes after a dash
	return out, nil
}

// loadPolicy reads the policy; l.mu is held.
func (l *Library) loadPolicy() (blastdoor.Policy, []*blastdoor.Error) {
	data, err := read(l.policy)
	if err != nil {
		return blastdoor.Policy{}, []*blastdoor.Error{{Code: blastdoor.ErrInvalidPolicy, Where: l.policy.name,
			Msg: "the policy cannot be read", Want: "without a policy nothing may run", Err: err}}
	}
	if l.current == nil || !bytes.Equal(data, l.current.data) {
		policy, problems := LoadPolicy(l.policy.name, data)
		l.current = &parsed[blastdoor.Policy]{data, policy, problems}
	}
	return l.current.value, l.current.problems
}

// load reads one runbook; l.mu is held.
func (l *Library) load(name string) (blastdoor.Runbook, []*blastdoor.Error) {
	file := name + ".yaml"
	data, err := read(source{l.files, file})
	if err != nil {
		return blastdoor.Runbook{}, []*blastdoor.Error{{Code: blastdoor.ErrInvalidRunbook, Where: file, Msg: "the file cannot be read", Err: err}}
	}
	before, known := l.runbooks[name]
	if known && bytes.Equal(before.data, data) {
		return before.value, before.problems
	}
	rb, problems := l.schemas.load(file, data)
	if len(problems) == 0 && rb.Name != name {
		problems = []*blastdoor.Error{{Code: blastdoor.ErrInvalidRunbook, Where: file + ":1",
			Msg:  fmt.Sprintf("the file is called %s but the runbook is named %q", file, rb.Name),
			Want: fmt.Sprintf("write `name: %s`, or call the file %s.yaml", name, rb.Name)}}
	}
	l.runbooks[name] = parsed[blastdoor.Runbook]{data, rb, problems}
	return rb, problems
}

// read reads a regular file, and not much more of it than may be parsed.
func read(s source) ([]byte, error) {
	if info, err := fs.Stat(s.files, s.name); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	f, err := s.files.Open(s.name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	if closing := f.Close(); err == nil {
		err = closing
	}
	return data, err
}

// Check returns every problem of every file, and what the files say of each other
// that cannot be: a menu with actions that the environment does not have, channels
// with runbooks that do not exist.
func (l *Library) Check(ctx context.Context) ([]*blastdoor.Error, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	names, err := l.names()
	if err != nil {
		return nil, fmt.Errorf("listing runbooks: %w", err)
	}
	var out []*blastdoor.Error
	for _, name := range names {
		_, problems := l.load(name)
		out = append(out, problems...)
	}
	policy, problems := l.loadPolicy()
	out = append(out, problems...)
	return append(out, l.dangling(policy, names)...), nil
}

// dangling returns the names in the policy that lead nowhere.
func (l *Library) dangling(policy blastdoor.Policy, runbooks []string) (out []*blastdoor.Error) {
	add := func(msg, want string) {
		out = append(out, &blastdoor.Error{Code: blastdoor.ErrInvalidPolicy, Where: l.policy.name, Msg: msg, Want: want})
	}
	for _, e := range policy.Menu {
		if !slices.Contains(l.schemas.names, e.Action) {
			add(fmt.Sprintf("the menu has %s, which the environment cannot do", e.Action), suggest(e.Action, l.schemas.names, "it can"))
		}
	}
	for _, c := range policy.Channels {
		for _, name := range c.Runbooks {
			if name != "*" && !slices.Contains(runbooks, name) {
				add(fmt.Sprintf("channel %s has the runbook %s, which does not exist", c.ID, name), suggest(name, runbooks, "the runbooks are"))
			}
		}
	}
	return out
}
