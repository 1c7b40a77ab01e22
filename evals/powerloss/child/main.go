// Command child is the process whose power fails: a log, a simulated world and the
// engine's runner between them, without Slack. It looks at what it finds after the
// start, brings unfinished runs to their end, and works until the disk under it
// dies, and says on its standard output what it has acknowledged before it goes
// on. It must not know that the disk is no real one.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"blastdoor/evals/powerloss/promise"
	"blastdoor/simenv"
	"blastdoor/store"
)

func main() {
	gone := func() { os.Exit(2) }
	if err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, gone); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
}

// order is what the other side wants.
type order struct {
	dir     string
	mode    string
	life    string // distinguishes what this process asks for from what others did
	clients int
}

// run obeys an order. It calls gone when the other side has gone away.
func run(ctx context.Context, args []string, in io.Reader, out io.Writer, gone func()) error {
	var o order
	set := flag.NewFlagSet("child", flag.ContinueOnError)
	set.StringVar(&o.dir, "dir", "", "directory of the deployment")
	set.StringVar(&o.mode, "mode", "", "init, look (start only), one (one run) or work (until the end)")
	set.StringVar(&o.life, "life", "0", "number of this process")
	set.IntVar(&o.clients, "clients", 1, "how many people ask for runs at the same time")
	if err := set.Parse(args); err != nil {
		return err
	}
	w := promise.NewWriter(out)
	err := o.obey(ctx, bufio.NewReader(in), w, gone)
	if err != nil {
		return errors.Join(err, w.Write(promise.Report{Err: err.Error()}))
	}
	return w.Write(promise.Report{Done: true})
}

func (o order) log() string   { return filepath.Join(o.dir, "log.db") }
func (o order) world() string { return filepath.Join(o.dir, "world.db") }

func (o order) obey(ctx context.Context, in *bufio.Reader, w *promise.Writer, gone func()) error {
	if o.mode == "init" {
		return o.init(ctx)
	}
	var book promise.Book
	line, err := in.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("reading what was promised: %w", err)
	}
	if err := json.Unmarshal(line, &book); err != nil {
		return fmt.Errorf("reading what was promised: %w", err)
	}
	// Everything after the first line is one word to begin, and then the end of the
	// input, when the other side is gone.
	begin := make(chan struct{})
	go func() {
		if _, err := in.ReadBytes('\n'); err == nil {
			close(begin)
			_, _ = in.ReadBytes('\n')
		}
		gone()
	}()
	return o.live(ctx, &book, begin, w)
}

func (o order) init(ctx context.Context) error {
	if err := simenv.Create(ctx, o.world(), services()); err != nil {
		return err
	}
	log, err := store.Create(ctx, o.log(), store.Options{Origin: origin})
	if err != nil {
		return err
	}
	return log.Close()
}

// live is one life of the process: start, look, finish what is unfinished, work,
// and stop in order, over and over.
func (o order) live(ctx context.Context, book *promise.Book, begin <-chan struct{}, w *promise.Writer) error {
	for round := 0; ; round++ {
		b, err := openBot(ctx, o, w)
		if err != nil {
			return err
		}
		if round == 0 {
			found, err := b.look(ctx, book)
			if err != nil || len(found) > 0 {
				return errors.Join(err, w.Write(promise.Report{Booted: true, Found: found}), b.close())
			}
			if err := w.Write(promise.Report{Booted: true}); err != nil {
				return err
			}
		}
		if err := b.recover(ctx, fmt.Sprintf("%s-%d", o.life, round)); err != nil {
			return errors.Join(err, b.close())
		}
		if round == 0 {
			if err := b.ready(ctx); err != nil {
				return errors.Join(err, b.close())
			}
			<-begin
		}
		if o.mode == "look" {
			return b.close()
		}
		if err := errors.Join(b.serve(ctx, o.clients), b.close()); err != nil || o.mode == "one" {
			return err
		}
	}
}
