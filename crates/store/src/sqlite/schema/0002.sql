-- A lease is a part of its session, whose row every step rewrites anyway. The fence stays when a lease is released,
-- so that it never starts over.
ALTER TABLE sessions ADD COLUMN fence INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN owner BLOB;
ALTER TABLE sessions ADD COLUMN run BLOB;
ALTER TABLE sessions ADD COLUMN expires_at INTEGER;
ALTER TABLE sessions ADD COLUMN interrupt INTEGER NOT NULL DEFAULT 0;

UPDATE sessions SET (fence, owner, run, expires_at, interrupt) =
    (SELECT l.fence, l.owner, l.run, l.expires_at, l.interrupt FROM leases l WHERE l.session = sessions.id)
    WHERE id IN (SELECT session FROM leases);

DROP TABLE leases;

-- Empty but for the moment between a request and its end, so that steps do not write to it.
CREATE INDEX sessions_to_interrupt ON sessions (owner) WHERE interrupt = 1;

-- Found in one tree instead of two.
ALTER TABLE settings RENAME TO former_settings;

CREATE TABLE settings (
    session BLOB PRIMARY KEY NOT NULL,
    settings BLOB NOT NULL
) WITHOUT ROWID;

INSERT INTO settings (session, settings) SELECT session, settings FROM former_settings;

DROP TABLE former_settings;
