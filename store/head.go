package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"blastdoor"
)

// head is a signed head: a checkpoint (https://c2sp.org/tlog-checkpoint), that is
// origin, size and root hash, each on a line, in a signed note.
type head struct {
	Size int64
	Root tlog.Hash
	Note string
}

// checkpointText is the text that is signed.
func checkpointText(origin string, size int64, root tlog.Hash) string {
	return fmt.Sprintf("%s\n%d\n%s\n", origin, size, root)
}

// openHead verifies a note and returns what it says. Extension lines after the
// third are allowed by the format and mean nothing to us.
func openHead(text, origin string, verifier note.Verifier) (head, error) {
	n, err := note.Open([]byte(text), note.VerifierList(verifier))
	if err != nil {
		return head{}, fmt.Errorf("verifying the signature: %w", err)
	}
	lines := strings.SplitN(n.Text, "\n", 4)
	if len(lines) < 4 || lines[0] != origin {
		return head{}, fmt.Errorf("the note is not a head of %s", origin)
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil || size < 0 || strconv.FormatInt(size, 10) != lines[1] {
		return head{}, fmt.Errorf("the size %q is not a number", lines[1])
	}
	root, err := tlog.ParseHash(lines[2])
	if err != nil {
		return head{}, fmt.Errorf("the root %q is not a hash", lines[2])
	}
	return head{Size: size, Root: root, Note: text}, nil
}

// signHead stores a head of the tree as it is now, and returns its note. The tree
// that is signed already needs no second head.
func (s *session) signHead(origin string, signer note.Signer) (string, error) {
	var text string
	found, err := s.find(`SELECT note FROM heads WHERE size = ?`, []any{s.tree.size}, &text)
	if err != nil || found {
		return text, err
	}
	root, err := s.tree.root()
	if err != nil {
		return "", err
	}
	signed, err := note.Sign(&note.Note{Text: checkpointText(origin, s.tree.size, root)}, signer)
	if err != nil {
		return "", fmt.Errorf("signing a head: %w", err)
	}
	_, err = s.exec(`INSERT INTO heads (size, root, note, signed_at) VALUES (?, ?, ?, ?)`,
		s.tree.size, root[:], string(signed), s.now().UnixNano())
	if err != nil {
		return "", fmt.Errorf("storing a head: %w", err)
	}
	return string(signed), nil
}

// SignHead signs the tree as it is now, stores the head and returns the note, to
// be kept where this host cannot reach it.
func (s *Store) SignHead(ctx context.Context) (string, error) {
	var text string
	err := s.write(ctx, func(ses *session) (err error) {
		text, err = ses.signHead(s.origin, s.signer)
		return err
	})
	return text, err
}

// LatestHead returns the note of the newest signed head.
func (s *Store) LatestHead(ctx context.Context) (string, error) {
	var text string
	err := scanRow(ctx, s.read, `SELECT note FROM heads ORDER BY size DESC LIMIT 1`, nil, &text)
	if errors.Is(err, sql.ErrNoRows) {
		return "", noHead()
	}
	if err != nil {
		return "", fmt.Errorf("reading the newest head: %w", err)
	}
	return text, nil
}

// checkHead holds the newest signed head against the tree: its signature is by
// our key, and the tree has only grown since.
func checkHead(ctx context.Context, q querier, t *tree, origin string, verifier note.Verifier) error {
	var text string
	err := q.QueryRowContext(ctx, `SELECT note FROM heads ORDER BY size DESC LIMIT 1`).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return noHead()
	}
	if err != nil {
		return fmt.Errorf("reading the newest head: %w", err)
	}
	signed, err := openHead(text, origin, verifier)
	if err != nil {
		return &blastdoor.Error{Code: blastdoor.ErrIntegrity, Msg: "the newest signed head does not verify", Err: err}
	}
	if signed.Size > t.size {
		return blastdoor.Errorf(blastdoor.ErrIntegrity,
			"the newest signed head covers %d events, only %d are stored: the tail was cut, or this is an old copy", signed.Size, t.size)
	}
	root, err := t.root()
	if err != nil {
		return err
	}
	if err := growsFrom(ctx, q, t.size, root, signed); err != nil {
		return &blastdoor.Error{Code: blastdoor.ErrIntegrity,
			Msg: fmt.Sprintf("the events are not those that the signed head of %d covers", signed.Size), Err: err}
	}
	return nil
}

// growsFrom checks that a tree of the given size and root has the older head as a prefix.
func growsFrom(ctx context.Context, q querier, size int64, root tlog.Hash, older head) error {
	if older.Size == 0 { // RFC 6962 has no proof for the empty tree, which is a prefix of all
		empty, err := (&tree{}).root()
		if err == nil && older.Root != empty {
			err = errors.New("the head of the empty tree has another root")
		}
		return err
	}
	proof, err := tlog.ProveTree(size, older.Size, storedHashes(ctx, q))
	if err != nil {
		return fmt.Errorf("proving that %d events grew from %d: %w", size, older.Size, err)
	}
	return tlog.CheckTree(proof, size, root, older.Size, older.Root)
}

func noHead() error {
	return blastdoor.Errorf(blastdoor.ErrIntegrity, "there is no signed head, not even the first one")
}
