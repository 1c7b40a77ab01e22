-- Times are unix nanoseconds; NULL is "no such time". JSON is text. A closed set
-- is a chain of comparisons: for IN with a list SQLite builds a table each time.

-- Whose database this is. One row, written when it is created.
CREATE TABLE deployment (
    one          INTEGER PRIMARY KEY CHECK (one = 1),
    origin       TEXT    NOT NULL CHECK (origin <> ''),
    verifier_key TEXT    NOT NULL CHECK (verifier_key <> ''),
    created_at   INTEGER NOT NULL
) STRICT;

-- The history: what everything else follows from. leaf is the event's number in
-- the tree over all runs; hashes are those of the tree's nodes that it completes,
-- level 0 first, 32 bytes each (they live here because a table of their own would
-- cost a page in every commit).
CREATE TABLE events (
    leaf       INTEGER PRIMARY KEY CHECK (leaf >= 0),
    run_id     TEXT    NOT NULL CHECK (run_id <> ''),
    seq        INTEGER NOT NULL CHECK (seq >= 1),
    at         INTEGER NOT NULL,
    kind       TEXT    NOT NULL CHECK (
        kind = 'run_requested' OR kind = 'step_proposed' OR kind = 'plan_made' OR kind = 'verdict_given'
        OR kind = 'approval_requested' OR kind = 'approval_granted' OR kind = 'approval_declined'
        OR kind = 'approval_refused' OR kind = 'plan_drifted' OR kind = 'reverify_denied'
        OR kind = 'apply_intended' OR kind = 'applied' OR kind = 'apply_failed' OR kind = 'apply_unknown'
        OR kind = 'apply_abandoned' OR kind = 'observed' OR kind = 'observe_failed' OR kind = 'check_passed'
        OR kind = 'check_failed' OR kind = 'check_inconclusive' OR kind = 'rollback_intended'
        OR kind = 'rolled_back' OR kind = 'rollback_failed' OR kind = 'escalated' OR kind = 'run_ended'),
    body       BLOB    NOT NULL CHECK (length(body) > 0),
    chain_hash BLOB    NOT NULL CHECK (length(chain_hash) = 32),
    hashes     BLOB    NOT NULL CHECK (length(hashes) >= 32 AND length(hashes) % 32 = 0),
    UNIQUE (run_id, seq)
) STRICT;

-- Signed heads of the tree.
CREATE TABLE heads (
    size      INTEGER PRIMARY KEY CHECK (size >= 0),
    root      BLOB    NOT NULL CHECK (length(root) = 32),
    note      TEXT    NOT NULL CHECK (note <> ''),
    signed_at INTEGER NOT NULL
) STRICT;

-- Bodies by digest: policies and runbooks as they were.
CREATE TABLE documents (
    digest TEXT NOT NULL UNIQUE CHECK (digest LIKE 'sha256:%' AND length(digest) = 71),
    body   BLOB NOT NULL CHECK (length(body) > 0)
) STRICT;

-- Projections. n is the order in which runs began.
CREATE TABLE runs (
    n          INTEGER PRIMARY KEY,
    id         TEXT    NOT NULL UNIQUE CHECK (id <> ''),
    source_id  TEXT    NOT NULL UNIQUE CHECK (source_id <> ''),
    runbook    TEXT    NOT NULL,
    requester  TEXT    NOT NULL,
    channel    TEXT    NOT NULL,
    status     TEXT    NOT NULL CHECK (
        status = 'running' OR status = 'waiting' OR status = 'completed' OR status = 'denied'
        OR status = 'failed' OR status = 'declined' OR status = 'expired' OR status = 'cancelled'
        OR status = 'rolled_back' OR status = 'in_doubt'),
    ended      INTEGER NOT NULL CHECK (ended IN (0, 1)),
    updated_at INTEGER,
    wake_at    INTEGER,
    len        INTEGER NOT NULL CHECK (len >= 1),
    head       BLOB    NOT NULL CHECK (length(head) = 32),
    CHECK (ended = (status NOT IN ('running', 'waiting')))
) STRICT;
CREATE INDEX runs_unfinished ON runs (ended) WHERE ended = 0;
CREATE INDEX runs_channel ON runs (channel);

CREATE TABLE approvals (
    id          TEXT PRIMARY KEY CHECK (id <> ''),
    run_id      TEXT NOT NULL REFERENCES runs (id),
    step_id     TEXT NOT NULL,
    plan_hash   TEXT NOT NULL CHECK (plan_hash <> ''),
    status      TEXT NOT NULL CHECK (
        status = 'pending' OR status = 'granted' OR status = 'consumed' OR status = 'declined'
        OR status = 'expired' OR status = 'void'),
    expires_at  INTEGER NOT NULL,
    consumed_at INTEGER,
    CHECK ((status = 'consumed') = (consumed_at IS NOT NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX approvals_run ON approvals (run_id);

-- A live intent of a run, and the names it locks: one intent per target.
CREATE TABLE flights (
    run_id   TEXT PRIMARY KEY REFERENCES runs (id),
    step_id  TEXT NOT NULL,
    affected TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE locks (
    target TEXT PRIMARY KEY CHECK (target <> ''),
    run_id TEXT NOT NULL REFERENCES flights (run_id) ON DELETE CASCADE,
    place  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX locks_run ON locks (run_id);

-- Envelopes, stored before they are acknowledged. The payload is apart, so that
-- settling rewrites a small row.
CREATE TABLE inbox (
    n           INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL UNIQUE CHECK (id <> ''),
    kind        TEXT    NOT NULL,
    received_at INTEGER NOT NULL,
    settled_at  INTEGER
) STRICT;
CREATE INDEX inbox_unsettled ON inbox (settled_at) WHERE settled_at IS NULL;
CREATE TABLE inbox_payloads (
    n       INTEGER PRIMARY KEY REFERENCES inbox (n) ON DELETE CASCADE,
    payload BLOB    NOT NULL CHECK (length(payload) > 0)
) STRICT;

-- Messages that must reach people. The body is apart for the same reason.
CREATE TABLE deliveries (
    n            INTEGER PRIMARY KEY,
    id           TEXT    NOT NULL UNIQUE CHECK (id <> ''),
    run_id       TEXT    NOT NULL,
    kind         TEXT    NOT NULL CHECK (
        kind = 'run_card' OR kind = 'dry_run_card' OR kind = 'radius_list' OR kind = 'notice'
        OR kind = 'reply' OR kind = 'outcome_note'),
    step_id      TEXT    NOT NULL,
    plan_no      INTEGER NOT NULL,
    channel      TEXT    NOT NULL,
    user_id      TEXT    NOT NULL,
    thread       TEXT    NOT NULL,
    notice       TEXT,
    response_url TEXT    NOT NULL,
    created_at   INTEGER,
    urgent       INTEGER NOT NULL CHECK (urgent IN (0, 1)),
    want         INTEGER NOT NULL CHECK (want >= 0),
    sent         INTEGER NOT NULL DEFAULT 0 CHECK (sent >= 0),
    ts           TEXT             CHECK (ts <> ''),
    attempt_at   INTEGER,
    attempts     INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    not_before   INTEGER,
    reason       TEXT    NOT NULL DEFAULT '', -- of the last retry
    dead         TEXT             CHECK (dead <> ''), -- why it was given up
    pending      INTEGER NOT NULL DEFAULT 1, -- a column, so that a refresh of a pending row leaves its index alone
    CHECK (pending = (dead IS NULL AND (ts IS NULL OR sent < want))),
    CHECK (attempt_at IS NULL OR attempts > 0),
    CHECK (ts IS NOT NULL OR sent = 0)
) STRICT;
CREATE INDEX deliveries_pending ON deliveries (urgent DESC) WHERE pending = 1;
CREATE INDEX deliveries_thread ON deliveries (thread) WHERE thread <> '';
CREATE UNIQUE INDEX deliveries_message ON deliveries (channel, ts) WHERE ts IS NOT NULL AND user_id = '';
CREATE TABLE delivery_bodies (
    id   TEXT NOT NULL UNIQUE REFERENCES deliveries (id),
    body BLOB NOT NULL CHECK (length(body) > 0)
) STRICT;

-- History only grows.
CREATE TRIGGER deployment_fixed BEFORE UPDATE ON deployment
BEGIN SELECT RAISE(ABORT, 'the deployment is fixed'); END;
CREATE TRIGGER deployment_kept BEFORE DELETE ON deployment
BEGIN SELECT RAISE(ABORT, 'the deployment is fixed'); END;

CREATE TRIGGER events_in_order BEFORE INSERT ON events
WHEN NEW.leaf <> (SELECT coalesce(max(leaf) + 1, 0) FROM events)
BEGIN SELECT RAISE(ABORT, 'an event follows the one before it'); END;
CREATE TRIGGER events_fixed BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'an event is never changed'); END;
CREATE TRIGGER events_kept BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'an event is never deleted'); END;

CREATE TRIGGER heads_in_order BEFORE INSERT ON heads
WHEN NEW.size <= (SELECT max(size) FROM heads)
BEGIN SELECT RAISE(ABORT, 'a head is larger than the one before it'); END;
CREATE TRIGGER heads_fixed BEFORE UPDATE ON heads
BEGIN SELECT RAISE(ABORT, 'a head is never changed'); END;
CREATE TRIGGER heads_kept BEFORE DELETE ON heads
BEGIN SELECT RAISE(ABORT, 'a head is never deleted'); END;

CREATE TRIGGER documents_fixed BEFORE UPDATE ON documents
BEGIN SELECT RAISE(ABORT, 'a document is never changed'); END;
CREATE TRIGGER documents_kept BEFORE DELETE ON documents
BEGIN SELECT RAISE(ABORT, 'a document is never deleted'); END;

-- A run only grows and never comes back from its end.
CREATE TRIGGER runs_grow BEFORE UPDATE ON runs
WHEN NEW.len < OLD.len OR NEW.ended < OLD.ended OR NEW.id <> OLD.id OR NEW.source_id <> OLD.source_id
BEGIN SELECT RAISE(ABORT, 'a run only grows'); END;
CREATE TRIGGER runs_kept BEFORE DELETE ON runs
BEGIN SELECT RAISE(ABORT, 'a run is never deleted'); END;

-- An approval belongs to one plan for ever, is spent once, and once it is over
-- never comes back to life.
CREATE TRIGGER approvals_bound BEFORE UPDATE ON approvals
WHEN NEW.id <> OLD.id OR NEW.run_id <> OLD.run_id OR NEW.step_id <> OLD.step_id
  OR NEW.plan_hash <> OLD.plan_hash OR NEW.expires_at <> OLD.expires_at
BEGIN SELECT RAISE(ABORT, 'an approval belongs to one plan'); END;
CREATE TRIGGER approvals_spent_once BEFORE UPDATE ON approvals
WHEN OLD.status = 'consumed'
BEGIN SELECT RAISE(ABORT, 'a consumed approval is never changed'); END;
CREATE TRIGGER approvals_over BEFORE UPDATE ON approvals
WHEN OLD.status IN ('declined', 'expired', 'void') AND NEW.status IN ('pending', 'granted', 'consumed')
BEGIN SELECT RAISE(ABORT, 'an approval that is over stays over'); END;
CREATE TRIGGER approvals_kept BEFORE DELETE ON approvals
BEGIN SELECT RAISE(ABORT, 'an approval is never deleted'); END;

-- An envelope is answered once and forgotten only after that.
CREATE TRIGGER inbox_settled_once BEFORE UPDATE ON inbox
WHEN OLD.settled_at IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'a settled envelope is never changed'); END;
CREATE TRIGGER inbox_kept BEFORE DELETE ON inbox
WHEN OLD.settled_at IS NULL
BEGIN SELECT RAISE(ABORT, 'an unsettled envelope is never deleted'); END;

-- A message never has to show less than was promised, and is never lost.
CREATE TRIGGER deliveries_want_more BEFORE UPDATE ON deliveries
WHEN NEW.want < OLD.want OR NEW.id <> OLD.id
BEGIN SELECT RAISE(ABORT, 'a delivery never wants less'); END;
CREATE TRIGGER deliveries_kept BEFORE DELETE ON deliveries
BEGIN SELECT RAISE(ABORT, 'a delivery is never deleted'); END;
