// Package store is the durable log of Blast Door in one SQLite file: the events
// of every run, what is projected from them, the inbox and the outbox.
//
// The events are the only source of truth. A commit writes events, projection
// rows, documents and deliveries in one transaction, durable before it returns.
// The events of a run form a hash chain (blastdoor.ChainHash); every event is
// also a leaf of one RFC 6962 tree over all runs, kept in the same transaction,
// so that a removed run or a cut tail shows. A small signed head of that tree (a
// C2SP checkpoint) can leave the host; only a head that left it can prove that
// somebody with the database and the key has rewritten both.
//
// One goroutine owns the only write connection. It takes what is queued and
// commits it together, so that runs that move at the same time share one sync.
// Readers have their own connections and never wait for it. One process owns a
// database at a time (a file lock, which network file systems may not honour);
// commands read beside it with OpenReadOnly.
//
// The package must not know of Slack, of how a run is decided or folded, or of
// any environment: of ours it imports the root package only.
package store
