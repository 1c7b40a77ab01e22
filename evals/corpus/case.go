package corpus

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"

	"gopkg.in/yaml.v3"

	"blastdoor"
)

//go:embed cases/*.yaml
var shipped embed.FS

// Case is one attack, or one safe control, as data.
type Case struct {
	Name  string `yaml:"name"`
	About string `yaml:"about"` // one sentence for people
	// Safe: a control, which must end as it says. Otherwise a case in which a
	// write outside Expect.Writes is the forbidden one.
	Safe   bool           `yaml:"safe"`
	Policy map[string]any `yaml:"policy"` // keys that replace those of the strict policy
	World  []Edit         `yaml:"world"`  // changes before the bot starts
	People []Membership   `yaml:"people"` // changes before the bot starts
	// The runbook `case`: its steps and inputs, or the whole file as text.
	Steps  []map[string]any `yaml:"steps"`
	Inputs map[string]any   `yaml:"inputs"`
	File   string           `yaml:"file"`
	// Planner replaces what the runbook proposes for the steps it names.
	Planner map[string]Proposal `yaml:"planner"`
	Do      []Act               `yaml:"do"`
	Expect  Expect              `yaml:"expect"`
}

// Proposal is what a scripted planner answers when asked about a step.
type Proposal struct {
	Step          string           `yaml:"step"` // empty: the step it was asked about
	Action        string           `yaml:"action"`
	Params        blastdoor.Params `yaml:"params"`
	Justification string           `yaml:"justification"`
	Confidence    float64          `yaml:"confidence"`
	Raw           string           `yaml:"raw"`
}

// Edit is one change of the infrastructure from outside; exactly one key.
type Edit struct {
	Depend    *Link          `yaml:"depend"`
	Replicas  map[string]int `yaml:"replicas"`
	Protect   string         `yaml:"protect"`
	Unprotect string         `yaml:"unprotect"`
}

// Link is a dependency to be added.
type Link struct {
	From string             `yaml:"from"`
	On   string             `yaml:"on"`
	Kind blastdoor.EdgeKind `yaml:"kind"` // empty: calls
}

// Membership changes who is in a user group, or whether it is disabled.
type Membership struct {
	Group    string   `yaml:"group"`
	Members  []string `yaml:"members"` // user ids
	Disabled bool     `yaml:"disabled"`
}

// Act is one thing that happens; exactly one key. After each the driver waits
// until the bot has nothing left to do.
type Act struct {
	Run     *RunAct        `yaml:"run"`
	Say     *SayAct        `yaml:"say"`
	Click   *ClickAct      `yaml:"click"`
	Replay  string         `yaml:"replay"`  // the last envelope again: `envelope` under its own id, `payload` under a new one
	Clock   string         `yaml:"clock"`   // put the clock forward; timers that are due go off
	Instant string         `yaml:"instant"` // put the clock forward before any timer notices
	Hold    bool           `yaml:"hold"`    // rehearsals are not answered until Release: an approval is given and cannot be used yet
	Release bool           `yaml:"release"` // also starts the bot when it was stopped
	Lose    string         `yaml:"lose"`    // the next write: `before` it happens, or `after`, when only its answer is lost
	Edit    []Edit         `yaml:"edit"`    // change the infrastructure
	Policy  map[string]any `yaml:"policy"`  // rewrite the policy, as an operator does
	People  *Membership    `yaml:"people"`
	Leaves  string         `yaml:"leaves"` // a person whose account is turned off
	Tamper  *Tamper        `yaml:"tamper"`
	Stop    bool           `yaml:"stop"` // stop the bot
	Restart bool           `yaml:"restart"`
}

// RunAct asks for a run.
type RunAct struct {
	By     string `yaml:"by"`
	Inputs string `yaml:"inputs"` // as typed
	In     string `yaml:"in"`     // channel; empty: ops
	As     string `yaml:"as"`     // label; empty: case
}

// SayAct types a slash command that asks for no run. {RUN} stands for the id of
// the first run.
type SayAct struct {
	By   string `yaml:"by"`
	Line string `yaml:"line"`
}

// ClickAct clicks a button. Where Slack would not have let it happen, it is forged.
type ClickAct struct {
	By     string `yaml:"by"`
	Button string `yaml:"button"` // empty: approve
	Run    string `yaml:"run"`    // whose newest question; empty: case
	First  bool   `yaml:"first"`  // its first question instead of its newest
	// Value replaces what the button carries. {run:L}, {approval:L} and {hash:L}
	// stand for what the newest question of run L carries.
	Value string `yaml:"value"`
	// Set replaces values of the payload by their path, as in `user.id`. {foreign} is
	// the timestamp of a message that somebody else posted, {card:L} that of a card.
	Set map[string]string `yaml:"set"`
	// Between edits the world after a rehearsal, before what follows it.
	Between *Between `yaml:"between"`
}

// Between waits for a look-up of a person, which the engine makes after each
// rehearsal, and edits the world while it is under way.
type Between struct {
	Person string `yaml:"person"` // user id
	Skip   int    `yaml:"skip"`   // look-ups to let pass first
	Edit   []Edit `yaml:"edit"`
}

// Tamper changes the bot's database behind its back.
type Tamper struct {
	SQL []string `yaml:"sql"`
	// KeepTriggers leaves the database its own defences.
	KeepTriggers bool   `yaml:"keep_triggers"`
	Refused      string `yaml:"refused"` // words of the error with which the database refuses
	// Rechain recomputes the hash chain of every run, as a careful forger does.
	Rechain bool `yaml:"rechain"`
}

// Expect is how the case must end.
type Expect struct {
	Ending `yaml:",inline"`
	Runs   map[string]Ending `yaml:"runs"` // of further runs, by label
	// Writes are all that the ledger may hold, in any order: `restart_service web`,
	// `scale_service web 6`.
	Writes  []string            `yaml:"writes"`
	Told    map[string][]string `yaml:"told"`    // words in one private message to a person
	Shown   []string            `yaml:"shown"`   // words in one message of the channel
	Unseen  []string            `yaml:"unseen"`  // words in no message, as it is stored
	Logged  []string            `yaml:"logged"`  // words in one line of the log
	Refused []string            `yaml:"refused"` // `bob not_an_approver`, in order: clicks that did not count
	Audit   []string            `yaml:"audit"`   // words of findings; empty: the audit finds nothing
	Start   string              `yaml:"start"`   // words of the error with which the bot refuses to start again
}

// Ending is how a run ends.
type Ending struct {
	// Outcome is a blastdoor.RunOutcome, or: `none` (no run began), `waiting` (for a
	// second person), `held` (it tries again), `stopped` (left alone, for its history
	// does not verify), `doubt` (the outcome of a write is to be looked up).
	Outcome string   `yaml:"outcome"`
	Verdict []string `yaml:"verdict"` // codes that decided the last verdict, all of them
	Events  []string `yaml:"events"`  // kinds that its history holds, in this order
	Detail  string   `yaml:"detail"`  // words of the run's or the step's detail
	Plans   int      `yaml:"plans"`   // how often the last step was planned; 0: not checked
}

var caseName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)

// Load reads cases from a file, or the shipped ones when path is empty. An unknown
// key, a name that is taken, or an act of two kinds is an error.
func Load(path string) ([]Case, error) {
	if path != "" {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading cases: %w", err)
		}
		return parse(map[string][]byte{path: data}, []string{path})
	}
	names, err := fs.Glob(shipped, "cases/*.yaml")
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, name := range names {
		if files[name], err = fs.ReadFile(shipped, name); err != nil {
			return nil, err
		}
	}
	return parse(files, names)
}

func parse(files map[string][]byte, order []string) ([]Case, error) {
	var all []Case
	seen := map[string]string{}
	for _, file := range order {
		var cases []Case
		dec := yaml.NewDecoder(bytes.NewReader(files[file]))
		dec.KnownFields(true)
		if err := dec.Decode(&cases); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s: one list of cases per file", file)
		}
		for i := range cases {
			c := &cases[i]
			if err := c.check(); err != nil {
				return nil, fmt.Errorf("%s: case %d (%s): %w", file, i+1, c.Name, err)
			}
			if before, taken := seen[c.Name]; taken {
				return nil, fmt.Errorf("%s: case %d: the name %s is taken in %s", file, i+1, c.Name, before)
			}
			seen[c.Name] = file
		}
		all = append(all, cases...)
	}
	if len(all) == 0 {
		return nil, errors.New("there are no cases")
	}
	return all, nil
}

func (c *Case) check() error {
	switch {
	case !caseName.MatchString(c.Name):
		return fmt.Errorf("the name must match %s", caseName)
	case c.About == "":
		return errors.New("`about` is missing: one sentence for people")
	case len(c.Do) == 0:
		return errors.New("nothing happens: `do` is empty")
	case (len(c.Steps) > 0) == (c.File != ""):
		return errors.New("give `steps` or `file`, and not both")
	case c.Safe && len(c.Expect.Writes) == 0 && c.Expect.Outcome != string(blastdoor.RunCompleted):
		return errors.New("a safe control must say what it completes or writes")
	}
	for i, act := range c.Do {
		if n := act.kinds(); n != 1 {
			return fmt.Errorf("act %d has %d keys, want exactly one", i+1, n)
		}
	}
	if err := c.Expect.Ending.check(); err != nil {
		return err
	}
	for label, e := range c.Expect.Runs {
		if err := e.check(); err != nil {
			return fmt.Errorf("run %s: %w", label, err)
		}
	}
	if !c.Safe && !c.Expect.saysWhy() {
		return errors.New("an unsafe case must name the reason that has to be reported")
	}
	return nil
}

func (a Act) kinds() (n int) {
	for _, is := range []bool{a.Run != nil, a.Say != nil, a.Click != nil, a.Replay != "", a.Clock != "", a.Instant != "",
		a.Hold, a.Release, a.Lose != "", a.Edit != nil, a.Policy != nil, a.People != nil, a.Leaves != "", a.Tamper != nil, a.Stop, a.Restart} {
		if is {
			n++
		}
	}
	return n
}

// Outcomes of a run that has not ended.
const (
	outcomeNone    = "none"
	outcomeWaiting = "waiting"
	outcomeHeld    = "held"
	outcomeStopped = "stopped"
	outcomeDoubt   = "doubt"
)

func (e Ending) check() error {
	known := []string{outcomeNone, outcomeWaiting, outcomeHeld, outcomeStopped, outcomeDoubt}
	for _, o := range blastdoor.RunOutcomes() {
		known = append(known, string(o))
	}
	if !slices.Contains(known, e.Outcome) {
		return fmt.Errorf("outcome %q is none of %q", e.Outcome, known)
	}
	for _, code := range e.Verdict {
		if !slices.Contains(blastdoor.ReasonCodes(), blastdoor.ReasonCode(code)) {
			return fmt.Errorf("there is no reason %q", code)
		}
	}
	for _, kind := range e.Events {
		if !slices.Contains(blastdoor.EventKinds(), blastdoor.EventKind(kind)) {
			return fmt.Errorf("there is no event %q", kind)
		}
	}
	return nil
}

// saysWhy reports whether anything is expected that names a reason.
func (e *Expect) saysWhy() bool {
	why := func(e Ending) bool { return len(e.Verdict) > 0 || len(e.Events) > 0 || e.Detail != "" }
	for _, run := range e.Runs {
		if why(run) {
			return true
		}
	}
	return why(e.Ending) || len(e.Told) > 0 || len(e.Shown) > 0 || len(e.Logged) > 0 || len(e.Refused) > 0 || len(e.Audit) > 0 || e.Start != ""
}
