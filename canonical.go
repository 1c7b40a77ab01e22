package blastdoor

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// CanonicalJSON encodes v in the one form that is hashed: object keys sorted by
// UTF-16 code units, no insignificant space, no HTML escaping, and numbers as
// encoding/json writes them (RFC 8785, for the values that occur here: strings,
// booleans, whole numbers below 2^53 and float64).
func CanonicalJSON(v any) ([]byte, error) {
	var plain bytes.Buffer
	enc := json.NewEncoder(&plain)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encoding canonical JSON: %w", err)
	}
	dec := json.NewDecoder(&plain)
	dec.UseNumber()
	var tree any
	if err := dec.Decode(&tree); err != nil {
		return nil, fmt.Errorf("reading back canonical JSON: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("reading back canonical JSON: data after the value")
	}
	var out bytes.Buffer
	if err := writeCanonical(&out, tree); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func writeCanonical(out *bytes.Buffer, v any) error {
	switch v := v.(type) {
	case map[string]any:
		return writeCanonicalObject(out, v)
	case []any:
		out.WriteByte('[')
		for i, item := range v {
			if i > 0 {
				out.WriteByte(',')
			}
			if err := writeCanonical(out, item); err != nil {
				return err
			}
		}
		out.WriteByte(']')
		return nil
	default:
		return writeScalar(out, v)
	}
}

func writeCanonicalObject(out *bytes.Buffer, object map[string]any) error {
	keys := make([]string, 0, len(object))
	for key := range object {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, compareUTF16)
	out.WriteByte('{')
	for i, key := range keys {
		if i > 0 {
			out.WriteByte(',')
		}
		if err := writeScalar(out, key); err != nil {
			return err
		}
		out.WriteByte(':')
		if err := writeCanonical(out, object[key]); err != nil {
			return err
		}
	}
	out.WriteByte('}')
	return nil
}

func writeScalar(out *bytes.Buffer, v any) error {
	switch v := v.(type) {
	case nil:
		out.WriteString("null")
		return nil
	case bool:
		out.WriteString(strconv.FormatBool(v))
		return nil
	case json.Number:
		out.WriteString(v.String())
		return nil
	case string:
		if plainText(v) {
			out.WriteByte('"')
			out.WriteString(v)
			out.WriteByte('"')
			return nil
		}
	}
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encoding canonical JSON: %w", err)
	}
	out.Truncate(out.Len() - 1) // Encode ends with a newline
	return nil
}

// plainText reports whether a string stands in JSON as it is: most do, and making
// an encoder for each of them was a sixth of the cost of a commit.
func plainText(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func compareUTF16(a, b string) int {
	if plainText(a) && plainText(b) {
		return strings.Compare(a, b)
	}
	return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
}

// Digest returns "sha256:" and the hexadecimal SHA-256 of the canonical JSON of v.
func Digest(v any) (string, error) {
	data, err := CanonicalJSON(v)
	if err != nil {
		return "", err
	}
	return DigestBytes(data), nil
}

// DigestBytes returns "sha256:" and the hexadecimal SHA-256 of data.
func DigestBytes(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}
