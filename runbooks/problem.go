package runbooks

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"blastdoor"
)

// maxProblems is how many problems of one file are reported.
const maxProblems = 100

// problems collects what is wrong with one file.
type problems struct {
	file string
	code blastdoor.Code // for what has no code of its own
	step string         // the step being read, or empty
	list []problem
}

type problem struct {
	line int
	err  *blastdoor.Error
}

// add reports a problem under the file's general code.
func (p *problems) add(line int, msg, want string) { p.addAs(p.code, line, msg, want) }

func (p *problems) addAs(code blastdoor.Code, line int, msg, want string) {
	where := fmt.Sprintf("%s:%d", p.file, line)
	if p.step != "" {
		where += " (step " + p.step + ")"
	}
	p.list = append(p.list, problem{line, &blastdoor.Error{Code: code, Where: where, Msg: msg, Want: want}})
}

// suggest is the function of the same name, as long as anyone will read it: a
// file of nothing but mistakes must not cost more than it is worth.
func (p *problems) suggest(name string, candidates []string, all string) string {
	if len(p.list) >= maxProblems {
		return ""
	}
	return suggest(name, candidates, all)
}

// errors returns the problems in the order of their lines.
func (p *problems) errors() []*blastdoor.Error {
	slices.SortStableFunc(p.list, func(a, b problem) int { return cmp.Compare(a.line, b.line) })
	var out []*blastdoor.Error
	for i, pr := range p.list {
		if i == maxProblems {
			out = append(out, &blastdoor.Error{Code: p.code, Where: p.file,
				Msg: fmt.Sprintf("%d more problems", len(p.list)-i), Want: "mend these first"})
			break
		}
		out = append(out, pr.err)
	}
	return out
}

// Join makes one error of all problems of a file: the first one in words, with
// the number of the others; all of them as its cause. Nil when there are none.
func Join(problems []*blastdoor.Error) error {
	switch len(problems) {
	case 0:
		return nil
	case 1:
		return problems[0]
	}
	first := *problems[0]
	first.Msg += fmt.Sprintf("; and %s", plural(len(problems)-1, "more problem", "more problems"))
	causes := make([]error, len(problems))
	for i, p := range problems {
		causes[i] = p
	}
	first.Err = errors.Join(causes...)
	return &first
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
