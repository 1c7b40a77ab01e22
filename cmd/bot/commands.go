package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"blastdoor"
)

// command is one sub-command.
type command struct {
	name  string
	usage string // arguments, after the name
	short string // one line
	long  string
	run   func(program, context.Context, []string) error
}

// commands lists the sub-commands in the order of the help.
func commands() []command {
	return []command{
		{"demo", "[--play] [--data DIR]", "try it: a simulated Slack workspace, a bot, an infrastructure", demoHelp, program.demo},
		{"serve", "", "run the bot", serveHelp, program.serve},
		{"init", "", "create the database, the keys and the simulated infrastructure", initHelp, program.init},
		{"validate", "[FILE…]", "check runbooks and policies", validateHelp, program.validate},
		{"plan", "[--channel ID] [--json] RUNBOOK [KEY=VALUE…]", "dry run and verdict in the terminal; nothing is written", planHelp, program.plan},
		{"status", "[--json] [RUN]", "show runs, or one run whole", statusHelp, program.status},
		{"audit", "verify | show RUN | export | head | rebuild", "check and print the log", auditHelp, program.audit},
		{"help", "[COMMAND]", "say more about a command", "", program.help},
	}
}

func (p program) dispatch(ctx context.Context) error {
	if len(p.args) == 0 {
		p.printUsage(p.stderr)
		return blastdoor.Errorf(blastdoor.ErrUsage, "a command is missing")
	}
	name, args := p.args[0], p.args[1:]
	if name == "-h" || name == "--help" || name == "-help" {
		name = "help"
	}
	c, ok := find(name)
	if !ok {
		return &blastdoor.Error{Code: blastdoor.ErrUsage, Msg: fmt.Sprintf("there is no command %q", name), Want: "see `bot help`"}
	}
	for _, arg := range args {
		if arg == "-h" || arg == "--help" || arg == "-help" {
			p.printHelp(c)
			return nil
		}
	}
	return c.run(p, ctx, args)
}

func find(name string) (command, bool) {
	for _, c := range commands() {
		if c.name == name {
			return c, true
		}
	}
	return command{}, false
}

func (p program) help(_ context.Context, args []string) error {
	if len(args) == 0 {
		p.printUsage(p.stdout)
		return nil
	}
	c, ok := find(args[0])
	if !ok {
		return &blastdoor.Error{Code: blastdoor.ErrUsage, Msg: fmt.Sprintf("there is no command %q", args[0]), Want: "see `bot help`"}
	}
	p.printHelp(c)
	return nil
}

func (p program) printUsage(w io.Writer) {
	fmt.Fprint(w, "Blast Door runs operational runbooks from Slack, safely.\n\nUsage: bot COMMAND\n\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-10s %s\n", c.name, c.short)
	}
	fmt.Fprint(w, "\n`bot help COMMAND` says more, including the environment variables.\n")
}

func (p program) printHelp(c command) {
	fmt.Fprintf(p.stdout, "Usage: bot %s\n\n%s%s\n", strings.TrimSpace(c.name+" "+c.usage), strings.ToUpper(c.short[:1]), c.short[1:]+".")
	if c.long != "" {
		fmt.Fprintf(p.stdout, "\n%s\n", strings.TrimSpace(c.long))
	}
}

// parse reads the flags of a sub-command; define adds them to the set. It returns
// the other arguments, which may stand before or after the flags.
func parse(name string, args []string, define func(*flag.FlagSet)) ([]string, error) {
	set := flag.NewFlagSet(name, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	define(set)
	var rest []string
	for len(args) > 0 {
		if err := set.Parse(args); err != nil {
			return nil, &blastdoor.Error{Code: blastdoor.ErrUsage, Msg: err.Error(), Want: "see `bot help " + name + "`", Err: errors.Unwrap(err)}
		}
		args = set.Args()
		if len(args) > 0 {
			rest, args = append(rest, args[0]), args[1:]
		}
	}
	return rest, nil
}

func noFlags(*flag.FlagSet) {}

// none refuses arguments where there should be none.
func none(name string, args []string) error {
	if len(args) > 0 {
		return &blastdoor.Error{Code: blastdoor.ErrUsage, Msg: fmt.Sprintf("%s takes no argument %q", name, args[0]), Want: "see `bot help " + name + "`"}
	}
	return nil
}
