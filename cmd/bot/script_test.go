package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	_ "modernc.org/sqlite" // the scripts damage databases behind the program's back

	"blastdoor/runbooks"
)

// The flag is read when the tests run, after flag.Parse.
var update = flag.Bool("update", false, "rewrite what the scripts expect")

// TestScripts runs the program as its users meet it: the scripts of
// testdata/script, each in a directory of its own, with an environment that holds
// no setting of the program.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"copy-shipped": copyShipped,
			"write-huge":   writeHuge,
			"exit":         exitWith,
			"newest-run":   newestRun,
			"sql":          execSQL,
			"rewrite":      rewrite,
		},
	})
}

func usage(ts *testscript.TestScript, neg bool, ok bool, form string) {
	if neg || !ok {
		ts.Fatalf("usage: %s", form)
	}
}

// copyShipped copies the shipped runbooks and policies into a directory.
func copyShipped(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "copy-shipped DIR")
	ts.Check(os.CopyFS(ts.MkAbs(args[0]), runbooks.Shipped()))
}

// writeHuge writes a runbook of 10 MB, which would be well-formed.
func writeHuge(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "write-huge FILE")
	var b bytes.Buffer
	b.WriteString("name: huge\nsteps:\n")
	for b.Len() < 10<<20 {
		b.WriteString("  - {id: restart, action: restart_service, params: {service: web}}\n")
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b.Bytes(), 0o600))
}

// exitWith runs the program and holds it to one exit status: exec can only tell
// zero from the rest.
func exitWith(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) >= 2, "exit STATUS PROGRAM [ARG…]")
	err := ts.Exec(args[1], args[2:]...)
	status := "0"
	if exit, ok := err.(interface{ ExitCode() int }); ok {
		status = strconv.Itoa(exit.ExitCode())
	} else {
		ts.Check(err)
	}
	if status != args[0] {
		ts.Fatalf("exit status %s, not %s", status, args[0])
	}
}

// newestRun puts the id of the newest run, as status --json has told it, into RUN.
func newestRun(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "newest-run stdout")
	var status struct {
		Runs []struct{ ID string }
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &status))
	if len(status.Runs) == 0 {
		ts.Fatalf("there is no run")
	}
	ts.Setenv("RUN", status.Runs[0].ID)
}

// execSQL changes a database as somebody with a shell would: the triggers that
// guard its history are dropped first. Each statement must change something.
func execSQL(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) >= 2, "sql DATABASE STATEMENT…")
	db, err := sql.Open("sqlite", ts.MkAbs(args[0]))
	ts.Check(err)
	defer func() { ts.Check(db.Close()) }()
	for _, name := range triggers(ts, db) {
		_, err := db.Exec("DROP TRIGGER " + name)
		ts.Check(err)
	}
	for _, statement := range args[1:] {
		result, err := db.Exec(statement)
		ts.Check(err)
		n, err := result.RowsAffected()
		ts.Check(err)
		if n == 0 && !strings.HasPrefix(statement, "PRAGMA") {
			ts.Fatalf("%s changed nothing", statement)
		}
	}
}

func triggers(ts *testscript.TestScript, db *sql.DB) []string {
	rows, err := db.Query(`SELECT name FROM sqlite_schema WHERE type = 'trigger'`)
	ts.Check(err)
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		ts.Check(rows.Scan(&name))
		names = append(names, name)
	}
	ts.Check(rows.Err())
	return names
}

// rewrite replaces a text in a file, which must be there.
func rewrite(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 3, "rewrite FILE OLD NEW")
	before := ts.ReadFile(args[0])
	after := strings.ReplaceAll(before, args[1], args[2])
	if after == before {
		ts.Fatalf("%s does not hold %q", args[0], args[1])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(after), 0o600))
}
