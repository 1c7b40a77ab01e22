package store

import (
	"context"
	"encoding/binary"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"blastdoor"
)

// LeafData is what the tree over all runs holds of an event (a version-1 leaf):
//
//	chain hash, 32 bytes
//	length of the run id in bytes, 2 bytes, big endian
//	run id
//	sequence number, 8 bytes, big endian
//
// The chain hash covers the event's bytes and everything before it in its run, so
// a leaf commits to all of that.
func LeafData(chain [32]byte, runID string, seq int) []byte {
	data := make([]byte, 0, 32+2+len(runID)+8)
	data = append(data, chain[:]...)
	data = binary.BigEndian.AppendUint16(data, uint16(len(runID)))
	data = append(data, runID...)
	return binary.BigEndian.AppendUint64(data, uint64(seq))
}

// maxRunID is what the length field of a leaf can say.
const maxRunID = 1<<16 - 1

// tree is the right edge of the tree: the root of each perfect subtree that the
// current size is made of, by level. That is all an append reads. It is a value,
// so that a copy taken before an attempt restores it.
type tree struct {
	size int64
	edge [63]tlog.Hash
}

// ReadHashes implements tlog.HashReader for the hashes of the right edge.
func (t *tree) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		level, n := tlog.SplitStoredHashIndex(index)
		if t.size>>level&1 == 0 || n != t.size>>level-1 {
			return nil, fmt.Errorf("hash %d at level %d is not on the edge of a tree of %d", n, level, t.size)
		}
		out[i] = t.edge[level]
	}
	return out, nil
}

// add appends a leaf and returns the hashes to store, the first of them at
// tlog.StoredHashIndex(0, size before).
func (t *tree) add(leaf []byte) ([]tlog.Hash, error) {
	hashes, err := tlog.StoredHashes(t.size, leaf, t)
	if err != nil {
		return nil, fmt.Errorf("adding leaf %d to the tree: %w", t.size, err)
	}
	top := len(hashes) - 1
	t.edge[top] = hashes[top]
	t.size++
	return hashes, nil
}

// root returns the tree's root hash.
func (t *tree) root() (tlog.Hash, error) {
	root, err := tlog.TreeHash(t.size, t)
	if err != nil {
		return tlog.Hash{}, fmt.Errorf("computing the root of a tree of %d: %w", t.size, err)
	}
	return root, nil
}

// storedHashes reads hashes of the whole tree from the database. The node at a
// level is completed by the last leaf under it, and stored in that leaf's row.
func storedHashes(ctx context.Context, q querier) tlog.HashReader {
	return tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, len(indexes))
		for i, index := range indexes {
			level, n := tlog.SplitStoredHashIndex(index)
			leaf := (n+1)<<level - 1
			var hashes []byte
			err := q.QueryRowContext(ctx, `SELECT hashes FROM events WHERE leaf = ?`, leaf).Scan(&hashes)
			if err != nil {
				return nil, fmt.Errorf("reading the tree hashes of leaf %d: %w", leaf, err)
			}
			if len(hashes) < (level+1)*tlog.HashSize {
				return nil, blastdoor.Errorf(blastdoor.ErrIntegrity, "leaf %d completes no node at level %d", leaf, level)
			}
			copy(out[i][:], hashes[level*tlog.HashSize:])
		}
		return out, nil
	})
}

// joinHashes is the form in which a leaf's row holds the nodes that it completes.
func joinHashes(hashes []tlog.Hash) []byte {
	joined := make([]byte, 0, len(hashes)*tlog.HashSize)
	for i := range hashes {
		joined = append(joined, hashes[i][:]...)
	}
	return joined
}

// readTree reads the right edge of the tree as it is stored.
func readTree(ctx context.Context, q querier) (tree, error) {
	var t tree
	err := q.QueryRowContext(ctx, `SELECT coalesce(max(leaf) + 1, 0) FROM events`).Scan(&t.size)
	if err != nil {
		return tree{}, fmt.Errorf("reading the size of the tree: %w", err)
	}
	hashes := storedHashes(ctx, q)
	for level := range t.edge {
		if t.size>>level&1 == 0 {
			continue
		}
		hash, err := hashes.ReadHashes([]int64{tlog.StoredHashIndex(level, t.size>>level-1)})
		if err != nil {
			return tree{}, err
		}
		t.edge[level] = hash[0]
	}
	return t, nil
}

// checkCounts holds the number of events against the number of the last one: a
// deleted event or run shows without hashing anything. Projections are not looked
// at, so that damaged ones can be rebuilt.
func checkCounts(ctx context.Context, q querier) error {
	var events, leaves int64
	err := q.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM events), (SELECT coalesce(max(leaf) + 1, 0) FROM events)`).Scan(&events, &leaves)
	if err != nil {
		return fmt.Errorf("counting events: %w", err)
	}
	if events != leaves {
		return blastdoor.Errorf(blastdoor.ErrIntegrity, "%d events are stored, but the last one is number %d", events, leaves)
	}
	return nil
}
