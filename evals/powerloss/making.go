package powerloss

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"blastdoor"
	"blastdoor/evals/powerloss/powerfs"
	"blastdoor/evals/powerloss/promise"
	"blastdoor/internal/app"
	"blastdoor/simenv"
	"blastdoor/store"
)

// making cuts the power during each operation of `bot init`, with the product's own
// binary. Afterwards, in every way that it may have survived, the deployment must be
// there, or can be made, and then opens.
func (t *trial) making(ctx context.Context) (tally, error) {
	var seen sync.Map // what survived and whether it was promised: most cuts leave what another has left
	return t.enumerate(ctx, func(ctx context.Context, l *lane, n int, u *tally) (bool, error) {
		l.lives++
		disk := powerfs.New(nil, powerfs.Options{LyingSync: l.lying, Journal: l.draws.IntN(2) == 0})
		disk.CutAt(n)
		made, cut, err := l.make(ctx, disk)
		if err != nil || !cut {
			return false, err
		}
		u.cuts = 1
		for _, policy := range l.policies {
			image := disk.Survivors(policy, l.draws)
			if _, known := seen.LoadOrStore(fmt.Sprint(withoutDrafts(image).Digest(), made), true); known {
				continue
			}
			if wrong := l.opens(ctx, image, made); wrong != nil {
				u.bad, u.wrong = 1, u.wrong+1
				u.examples = append(u.examples, fmt.Sprintf("init, cut during operation %d, %s, which left %s: %v", n, policy, image, wrong))
				u.examples = append(u.examples, l.save(image, promise.Book{})...)
			}
		}
		return true, nil
	})
}

// withoutDrafts forgets what is in drafts. A database is made under another name, with
// ".new" in it, and who makes it again removes drafts, or makes another, without
// reading them.
func withoutDrafts(image powerfs.Image) powerfs.Image {
	shape := powerfs.Image{}
	for name, content := range image {
		if before, _, isDraft := strings.Cut(name, ".new"); isDraft {
			name, content = before+".new", nil
		}
		shape[name] = content
	}
	return shape
}

// make makes a deployment, and reports whether that was acknowledged and whether the
// power failed.
func (l *lane) make(ctx context.Context, disk *powerfs.Disk) (made, cut bool, err error) {
	cut, _, err = l.forks.powered(ctx, disk, l.dir, func(ctx context.Context) error {
		cmd := exec.CommandContext(ctx, l.binary, "init")
		cmd.Env = append(os.Environ(), "BLASTDOOR_DATA="+l.dir)
		if err := l.forks.start(cmd); err != nil {
			return fmt.Errorf("starting the bot: %w", err)
		}
		made = cmd.Wait() == nil
		return nil
	})
	if err == nil && !made && !cut {
		err = errors.New("bot init ends in an error without any cut")
	}
	return made, cut, err
}

// opens says what keeps a deployment from being opened, or made again unless it was
// made. It looks at a copy on an ordinary disk.
func (l *lane) opens(ctx context.Context, image powerfs.Image, made bool) (err error) {
	dir, err := os.MkdirTemp("", "blastdoor-powerloss-copy-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := image.Save(dir); err != nil {
		return err
	}
	files := app.Files{Dir: dir}
	if !made {
		world, err := simenv.DefaultWorld()
		if err != nil {
			return err
		}
		again := app.Init(ctx, files, app.InitOptions{Origin: "blastdoor", World: world, Now: time.Now})
		if again != nil && !blastdoor.ErrConflict.Is(again) { // that it is there is as good
			return fmt.Errorf("making it again: %w", again)
		}
	}
	bot, err := app.Open(ctx, app.Config{Files: files, BotToken: "xoxb-none", AppToken: "xapp-none", Now: time.Now,
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return fmt.Errorf("opening it: %w", err)
	}
	if err := bot.Close(); err != nil {
		return fmt.Errorf("closing it: %w", err)
	}
	audit, err := app.Verify(ctx, files, store.AuditOptions{}, time.Now)
	if err == nil && !audit.OK() {
		err = fmt.Errorf("it does not verify: %v %v", audit.Findings, audit.Violations)
	}
	return err
}
