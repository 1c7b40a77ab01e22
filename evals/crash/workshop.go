package crash

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"blastdoor/internal/app"
	"blastdoor/simenv"
)

//go:embed testdata/*.yaml
var testdata embed.FS

// workshop holds what all cases share: the binaries, the runbook, and a deployment
// to start from. Everything is in memory where the machine allows it: a kill loses
// nothing that was written, so a disk would only make the eval slow.
type workshop struct {
	dir string
}

func newWorkshop(ctx context.Context) (*workshop, error) {
	base := "/dev/shm"
	if info, err := os.Stat(base); err != nil || !info.IsDir() {
		base = ""
	}
	dir, err := os.MkdirTemp(base, "blastdoor-crash-")
	if err != nil {
		return nil, fmt.Errorf("making a directory for the crash matrix: %w", err)
	}
	w := &workshop{dir: dir}
	if err := w.furnish(ctx); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

func (w *workshop) close() error       { return os.RemoveAll(w.dir) }
func (w *workshop) runbooks() string   { return filepath.Join(w.dir, "runbooks", "testdata") }
func (w *workshop) deployment() string { return filepath.Join(w.dir, "deployment") }

func (w *workshop) furnish(ctx context.Context) error {
	if err := os.CopyFS(filepath.Join(w.dir, "runbooks"), testdata); err != nil {
		return fmt.Errorf("writing the runbook: %w", err)
	}
	world, err := simenv.DefaultWorld()
	if err != nil {
		return err
	}
	return app.Init(ctx, app.Files{Dir: w.deployment()}, app.InitOptions{Origin: "crash", World: world, Now: time.Now})
}

// build builds the bot with some tags and returns the path of the binary.
func (w *workshop) build(ctx context.Context, tags string) (string, error) {
	path := filepath.Join(w.dir, "bot-"+tags)
	out, err := exec.CommandContext(ctx, "go", "build", "-tags", tags, "-o", path, "blastdoor/cmd/bot").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building the bot with the tags %q: %w\n%s", tags, err, out)
	}
	return path, nil
}

// traces counts which of the marks of the crash points are in a binary: the names of
// their settings, and their code.
func traces(binary string) (int, error) {
	program, err := os.ReadFile(binary)
	if err != nil {
		return 0, err
	}
	found := 0
	for _, mark := range []string{"BLASTDOOR_TEST_CRASH", "crasher", "crashingJournal", "before_effect"} {
		if bytes.Contains(program, []byte(mark)) {
			found++
		}
	}
	return found, nil
}
