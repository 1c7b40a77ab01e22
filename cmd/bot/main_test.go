package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// asBot makes a copy of the test binary be the program: tests kill it like one.
const asBot = "BLASTDOOR_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asBot) != "" {
		os.Exit(botMain())
	}
	testscript.Main(m, map[string]func(){"bot": func() { os.Exit(botMain()) }})
}

func botMain() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return program{args: os.Args[1:], environ: os.Environ(), stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, now: time.Now}.run(ctx)
}
