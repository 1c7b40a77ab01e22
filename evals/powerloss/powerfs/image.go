package powerfs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Image is what is on the medium while the power is off: contents by name. An
// image is not changed once it is made.
type Image map[string][]byte

// String describes an image by names and sizes.
func (i Image) String() string {
	var files []string
	for _, name := range slices.Sorted(maps.Keys(i)) {
		files = append(files, fmt.Sprintf("%s (%d bytes)", name, len(i[name])))
	}
	return strings.Join(files, ", ")
}

// Digest tells images apart.
func (i Image) Digest() string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(i)) {
		fmt.Fprintf(sum, "%q %d\n", name, len(i[name]))
		sum.Write(i[name])
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Save writes the files into a directory, which is made where there is none.
func (i Image) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, content := range i {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Load reads the files of a directory.
func Load(dir string) (Image, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	image := Image{}
	for _, entry := range entries {
		if image[entry.Name()], err = os.ReadFile(filepath.Join(dir, entry.Name())); err != nil {
			return nil, err
		}
	}
	return image, nil
}
