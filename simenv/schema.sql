-- One simulated world. `version` of the world moves with every change of anything
-- in it; `revision` of a service or host moves with every change that a write on
-- it is conditional on.

CREATE TABLE world (
  id         INTEGER PRIMARY KEY CHECK (id = 1),
  version    INTEGER NOT NULL CHECK (version >= 1)
) STRICT;

CREATE TABLE hosts (
  name        TEXT    PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 63 AND name NOT GLOB '*[^a-z0-9-]*'),
  schedulable INTEGER NOT NULL CHECK (schedulable IN (0, 1)),
  revision    INTEGER NOT NULL CHECK (revision >= 1)
) STRICT;

CREATE TABLE services (
  name             TEXT    PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 63 AND name NOT GLOB '*[^a-z0-9-]*'),
  host             TEXT    NOT NULL REFERENCES hosts (name),
  replicas         INTEGER NOT NULL CHECK (replicas BETWEEN 0 AND 50),
  protected        INTEGER NOT NULL CHECK (protected IN (0, 1)),
  version          TEXT    NOT NULL,
  previous_version TEXT    NOT NULL,
  restarts         INTEGER NOT NULL CHECK (restarts >= 0),
  rollouts         INTEGER NOT NULL CHECK (rollouts >= 0),
  revision         INTEGER NOT NULL CHECK (revision >= 1)
) STRICT;

CREATE TABLE dependencies (
  service    TEXT NOT NULL REFERENCES services (name),
  depends_on TEXT NOT NULL REFERENCES services (name),
  kind       TEXT NOT NULL CHECK (kind IN ('calls', 'publishes', 'consumes')),
  PRIMARY KEY (service, depends_on, kind),
  CHECK (service <> depends_on)
) STRICT, WITHOUT ROWID;

CREATE TABLE metrics (
  service TEXT NOT NULL REFERENCES services (name),
  name    TEXT NOT NULL,
  value   REAL NOT NULL,
  PRIMARY KEY (service, name)
) STRICT, WITHOUT ROWID;

-- The ledger. enforced_key is what makes a second write under one key impossible;
-- it differs from key only while the ignore_keys fault is set.
CREATE TABLE effects (
  seq          INTEGER PRIMARY KEY,
  enforced_key TEXT NOT NULL UNIQUE,
  key          TEXT NOT NULL CHECK (key <> ''),
  action       TEXT NOT NULL CHECK (action IN ('restart_service', 'rollout_restart', 'scale_service', 'drain_host')),
  params       TEXT NOT NULL CHECK (json_valid(params)),
  changes      TEXT NOT NULL CHECK (json_valid(changes)),
  at           TEXT NOT NULL,
  summary      TEXT NOT NULL
) STRICT;

CREATE TABLE faults (
  id     INTEGER PRIMARY KEY,
  method TEXT    NOT NULL CHECK (method IN ('', 'dry_run', 'apply', 'lookup', 'observe')),
  kind   TEXT    NOT NULL CHECK (kind IN ('fail_before', 'fail_after', 'hang_before', 'hang_after', 'unavailable',
                                          'lookup_unknown', 'ignore_keys')),
  times  INTEGER NOT NULL CHECK (times >= 0), -- 0: until cleared
  fired  INTEGER NOT NULL DEFAULT 0 CHECK (fired >= 0 AND (times = 0 OR fired <= times)),
  CHECK ((kind = 'ignore_keys') = (method = '')),
  CHECK (kind <> 'ignore_keys' OR times = 0),
  CHECK (kind <> 'lookup_unknown' OR method = 'lookup')
) STRICT;

CREATE TRIGGER effects_never_change BEFORE UPDATE ON effects
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER effects_never_go BEFORE DELETE ON effects
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

-- INSERT OR REPLACE would remove a row without the trigger above.
CREATE TRIGGER effects_never_give_way BEFORE INSERT ON effects
WHEN EXISTS (SELECT 1 FROM effects WHERE enforced_key = NEW.enforced_key OR seq = NEW.seq)
BEGIN SELECT RAISE(ABORT, 'the ledger holds this key already'); END;

CREATE TRIGGER world_moves_forward BEFORE UPDATE ON world WHEN NEW.version <= OLD.version
BEGIN SELECT RAISE(ABORT, 'the version of the world only grows'); END;

CREATE TRIGGER hosts_move_forward BEFORE UPDATE ON hosts WHEN NEW.revision < OLD.revision
BEGIN SELECT RAISE(ABORT, 'a revision only grows'); END;

CREATE TRIGGER services_move_forward BEFORE UPDATE ON services WHEN NEW.revision < OLD.revision
BEGIN SELECT RAISE(ABORT, 'a revision only grows'); END;
