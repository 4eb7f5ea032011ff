-- What programs keep under a scope and a key. The place of a value is the revision at which its key was new.
CREATE TABLE state (
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    place INTEGER NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (scope, key)
);

-- A revision stays when the last value of its scope is gone, so that it never starts over.
CREATE TABLE scopes (
    scope TEXT PRIMARY KEY NOT NULL,
    revision INTEGER NOT NULL
) WITHOUT ROWID;
