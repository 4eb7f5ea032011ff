-- Ids are 16-byte UUIDs, times are microseconds since 1970.

CREATE TABLE sessions (
    id BLOB PRIMARY KEY NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    archived_at INTEGER,
    message_count INTEGER NOT NULL,
    progress BLOB NOT NULL
) WITHOUT ROWID;

CREATE INDEX sessions_by_change ON sessions (updated_at, id);

-- Apart from the session row, which every step rewrites.
CREATE TABLE settings (
    session BLOB PRIMARY KEY NOT NULL,
    settings BLOB NOT NULL
);

CREATE TABLE labels (
    session BLOB NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (session, name)
) WITHOUT ROWID;

CREATE INDEX labels_by_value ON labels (name, value, session);

CREATE TABLE messages (
    session BLOB NOT NULL,
    seq INTEGER NOT NULL,
    message BLOB NOT NULL,
    PRIMARY KEY (session, seq)
) WITHOUT ROWID;

CREATE TABLE calls (
    session BLOB NOT NULL,
    position INTEGER NOT NULL,
    id TEXT NOT NULL,
    call BLOB NOT NULL,
    result BLOB,
    PRIMARY KEY (session, position),
    UNIQUE (session, id)
) WITHOUT ROWID;

-- A row stays when its lease is released, with no owner, so that the fence never starts over.
CREATE TABLE leases (
    session BLOB PRIMARY KEY NOT NULL,
    fence INTEGER NOT NULL,
    owner BLOB,
    run BLOB NOT NULL,
    expires_at INTEGER NOT NULL,
    interrupt INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX leases_by_owner ON leases (owner) WHERE owner IS NOT NULL;

CREATE TABLE config (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    generation INTEGER NOT NULL,
    document BLOB NOT NULL
);

CREATE TABLE blobs (
    id TEXT PRIMARY KEY NOT NULL,
    media_type TEXT NOT NULL,
    data BLOB NOT NULL
);
