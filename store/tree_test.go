package store

import (
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/tlog"
)

// The right edge alone gives what the whole tree gives, at every size.
func TestTreeIsTheLibrarysTree(t *testing.T) {
	var edge tree
	var all []tlog.Hash
	whole := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, len(indexes))
		for i, index := range indexes {
			out[i] = all[index]
		}
		return out, nil
	})
	for n := range int64(300) {
		root, err := edge.root()
		require.NoError(t, err)
		want, err := tlog.TreeHash(n, whole)
		require.NoError(t, err)
		require.Equal(t, want, root, "size %d", n)

		leaf := LeafData([32]byte{byte(n)}, fmt.Sprintf("r%d", n%7), int(n))
		wantNew, err := tlog.StoredHashes(n, leaf, whole)
		require.NoError(t, err)
		gotNew, err := edge.add(leaf)
		require.NoError(t, err)
		require.Equal(t, wantNew, gotNew)
		all = append(all, gotNew...)
	}
	_, err := edge.ReadHashes([]int64{0})
	require.Error(t, err, "a hash that is not on the edge is not made up")
}

// The form of a leaf is for ever: a change would make every old head a lie.
func TestLeafForm(t *testing.T) {
	require.Equal(t, "07"+"00000000000000000000000000000000000000000000000000000000000000"+"0003"+"723432"+"0000000000000102",
		hex.EncodeToString(LeafData([32]byte{7}, "r42", 258)))
}
