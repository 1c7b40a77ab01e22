package powerloss

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// asShipped is the setting that makes a commit durable, as it stands in the
// sources of the log and of the simulated world.
const asShipped = "synchronous(FULL)"

// sources are the files that hold it, below the module.
func sources() []string { return []string{"store/sql.go", "simenv/file.go"} }

// builder builds children: as shipped, or with another setting in an overlay, so
// that no switch for it exists in the product.
type builder struct {
	root string // of the module
	dir  string // where binaries and overlays go
}

func newBuilder(ctx context.Context, dir string) (builder, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return builder{}, fmt.Errorf("asking the go command where the module is: %w", err)
	}
	mod := strings.TrimSpace(string(out))
	if mod == "" || mod == os.DevNull {
		return builder{}, errors.New("the power-loss eval builds its child from source: run it inside the module")
	}
	return builder{root: filepath.Dir(mod), dir: dir}, nil
}

// child returns the path of a child with the given setting of synchronous.
func (b builder) child(ctx context.Context, synchronous string) (string, error) {
	setting := "synchronous(" + synchronous + ")"
	binary := filepath.Join(b.dir, "child-"+strings.ToLower(synchronous))
	if setting == asShipped {
		return binary, b.build(ctx, binary, "./evals/powerloss/child")
	}
	overlay, err := b.overlay(setting)
	if err != nil {
		return "", err
	}
	return binary, b.build(ctx, binary, "-overlay", overlay, "./evals/powerloss/child")
}

// bot returns the path of the product's own binary.
func (b builder) bot(ctx context.Context) (string, error) {
	binary := filepath.Join(b.dir, "bot")
	return binary, b.build(ctx, binary, "./cmd/bot")
}

func (b builder) build(ctx context.Context, binary string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-o", binary}, args...)...)
	cmd.Dir = b.root
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", filepath.Base(binary), err, said)
	}
	return nil
}

// overlay writes altered copies of the sources and the file that names them, as
// `go help build` describes -overlay.
func (b builder) overlay(setting string) (string, error) {
	replace := map[string]string{}
	for _, name := range sources() {
		path := filepath.Join(b.root, filepath.FromSlash(name))
		text, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		if !bytes.Contains(text, []byte(asShipped)) {
			return "", fmt.Errorf("%s does not say %s any more: the control would alter nothing", name, asShipped)
		}
		altered := filepath.Join(b.dir, strings.ReplaceAll(setting+"-"+name, "/", "-"))
		if err := os.WriteFile(altered, bytes.ReplaceAll(text, []byte(asShipped), []byte(setting)), 0o600); err != nil {
			return "", err
		}
		replace[path] = altered
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(b.dir, setting+".json")
	return path, os.WriteFile(path, data, 0o600)
}
