package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"blastdoor"
	"blastdoor/internal/app"
	"blastdoor/runbooks"
	"blastdoor/simenv"
)

const validateHelp = `Checks each file, a policy when its name begins with "policy", else a runbook, and prints every
error with file, line, step and what would be right. Without a file it checks BLASTDOOR_RUNBOOKS,
or the shipped files. Exit status 0 only when all are valid.
` + configHelp

func (p program) validate(ctx context.Context, args []string) error {
	files, err := parse("validate", args, noFlags)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return p.validateLibrary(ctx)
	}
	bad := 0
	for _, file := range files {
		problems, err := validateFile(file)
		if err != nil {
			return err
		}
		for _, problem := range problems {
			fmt.Fprintln(p.stdout, problem)
		}
		if len(problems) > 0 {
			bad++
			continue
		}
		fmt.Fprintf(p.stdout, "%s: ok\n", file)
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d files are not valid", bad, len(files))
	}
	return nil
}

func validateFile(file string) ([]*blastdoor.Error, error) {
	data, err := readBounded(file)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(filepath.Base(file), "policy") {
		_, problems := runbooks.LoadPolicy(file, data)
		return problems, nil
	}
	_, problems := runbooks.LoadRunbook(file, data, simenv.Actions())
	return problems, nil
}

// readBounded reads more than a valid file may have, but not all of a huge one:
// the loader then refuses it for its size.
func readBounded(file string) (data []byte, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	data, err = io.ReadAll(io.LimitReader(f, 1<<20))
	return data, errors.Join(err, f.Close())
}

// validateLibrary checks all files of the deployment, and what they say of each other.
func (p program) validateLibrary(ctx context.Context) error {
	c, err := p.config(ctx)
	if err != nil {
		return err
	}
	library, err := app.Library(c.Runbooks, c.Policy)
	if err != nil {
		return err
	}
	problems, err := library.Check(ctx)
	if err != nil {
		return err
	}
	for _, problem := range problems {
		fmt.Fprintln(p.stdout, problem)
	}
	if len(problems) > 0 {
		return fmt.Errorf("the runbooks and the policy have %d problems", len(problems))
	}
	all, err := library.Runbooks(ctx)
	if err != nil {
		return err
	}
	policy, err := library.Policy(ctx)
	if err != nil {
		return err
	}
	for _, rb := range all {
		fmt.Fprintf(p.stdout, "%s: ok\n", rb.Name)
	}
	fmt.Fprintf(p.stdout, "policy %s: ok\n", policy.Name)
	return nil
}
