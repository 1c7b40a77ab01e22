package app

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"blastdoor"
	"blastdoor/simenv"
	"blastdoor/store"
)

// Files are where a deployment keeps its state, all in one directory.
type Files struct{ Dir string }

// Store is the path of the log.
func (f Files) Store() string { return filepath.Join(f.Dir, "blastdoor.db") }

// World is the path of the simulated infrastructure.
func (f Files) World() string { return filepath.Join(f.Dir, "world.db") }

// MACKey is the path of the key that marks the bot's own messages.
func (f Files) MACKey() string { return filepath.Join(f.Dir, "messages.key") }

// InitOptions say how a deployment begins.
type InitOptions struct {
	Origin string       // name of the deployment in signed heads
	World  simenv.World // the simulated infrastructure
	Now    func() time.Time
}

// Init creates a deployment: the directory, the log with its signing key, the
// key for messages, and the simulated infrastructure. It refuses to touch a
// deployment that exists. The log is made last, so that an interrupted Init can
// be repeated.
func Init(ctx context.Context, files Files, o InitOptions) error {
	if _, err := os.Stat(files.Store()); err == nil {
		return &blastdoor.Error{Code: blastdoor.ErrConflict, Where: files.Store(), Msg: "there is a database already",
			Want: "start the bot with `bot serve`, or choose another directory in BLASTDOOR_DATA"}
	}
	if err := os.MkdirAll(files.Dir, 0o700); err != nil {
		return fmt.Errorf("creating %s: %w", files.Dir, err)
	}
	if err := createMACKey(files.MACKey()); err != nil {
		return err
	}
	if _, err := os.Stat(files.World()); errors.Is(err, fs.ErrNotExist) {
		if err := simenv.Create(ctx, files.World(), o.World); err != nil {
			return fmt.Errorf("creating the simulated infrastructure: %w", err)
		}
	}
	s, err := store.Create(ctx, files.Store(), store.Options{Origin: o.Origin, Now: o.Now})
	if err != nil {
		return fmt.Errorf("creating the log: %w", err)
	}
	return s.Close()
}

func createMACKey(path string) error {
	var key [32]byte
	if _, err := rand.Read(key[:]); err != nil {
		return fmt.Errorf("making the key for messages: %w", err)
	}
	// Written whole under another name: a key that a crash has left half-written
	// would be taken for the deployment's.
	if _, err := os.Lstat(path); err == nil {
		return nil // left by an Init that was interrupted
	}
	draft := path + ".new"
	f, err := os.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("making the key for messages: %w", err)
	}
	_, err = fmt.Fprintln(f, hex.EncodeToString(key[:]))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("making the key for messages: %w", err)
	}
	return os.Rename(draft, path)
}

func readMACKey(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the key for messages: %w", err)
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(data)))
	if err != nil || len(key) != 32 {
		return nil, blastdoor.Errorf(blastdoor.ErrIntegrity, "%s does not hold 32 bytes in hexadecimal", path)
	}
	return key, nil
}
