package store

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"blastdoor"
)

// signingKey signs heads. It lives in a file of its own, so that a copy of the
// database does not carry it.
type signingKey struct {
	signer   note.Signer
	verifier note.Verifier
	public   string // what verifies its signatures, as note.NewVerifier reads it
}

// loadKey reads a key file: one line as note.GenerateKey makes it.
func loadKey(path string) (signingKey, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return signingKey{}, fmt.Errorf("reading the signing key: %w", err)
	}
	key, err := parseKey(strings.TrimSpace(string(data)))
	if err != nil {
		return signingKey{}, &blastdoor.Error{Code: blastdoor.ErrIntegrity, Where: path,
			Msg: "this is not a signing key", Want: "put back the file that bot init made", Err: err}
	}
	return key, nil
}

// parseKey derives the public key from "PRIVATE+KEY+name+hash+base64(algorithm, seed)".
func parseKey(secret string) (signingKey, error) {
	signer, err := note.NewSigner(secret)
	if err != nil {
		return signingKey{}, err
	}
	fields := strings.SplitN(secret, "+", 5) // base64 may hold a plus
	raw, err := base64.StdEncoding.DecodeString(fields[4])
	if err != nil {
		return signingKey{}, err
	}
	private := ed25519.NewKeyFromSeed(raw[1:]) // NewSigner has checked algorithm and length
	public, err := note.NewEd25519VerifierKey(signer.Name(), private.Public().(ed25519.PublicKey))
	if err != nil {
		return signingKey{}, err
	}
	verifier, err := note.NewVerifier(public)
	if err != nil {
		return signingKey{}, err
	}
	return signingKey{signer: signer, verifier: verifier, public: public}, nil
}

// createKey makes a key file that its owner alone can read. A file that is there
// already, put there by the operator, is left as it is.
func createKey(path, origin string) error {
	secret, _, err := note.GenerateKey(rand.Reader, origin)
	if err != nil {
		return fmt.Errorf("generating the signing key: %w", err)
	}
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	draft := path + ".new"
	file, err := os.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("creating the signing key: %w", err)
	}
	_, err = file.WriteString(secret + "\n")
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("writing the signing key: %w", err)
	}
	return os.Rename(draft, path)
}
