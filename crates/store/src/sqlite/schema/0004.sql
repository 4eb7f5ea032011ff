-- What was said and is no longer read by the model, to be searched.
CREATE TABLE memories (
    id INTEGER PRIMARY KEY,
    session BLOB NOT NULL,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    -- The session in letters, so that the index itself can tell sessions apart.
    scope TEXT NOT NULL,
    text TEXT NOT NULL,
    UNIQUE (session, seq)
);

CREATE VIRTUAL TABLE memories_index USING fts5(
    text, scope, content = 'memories', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2'
);

CREATE TRIGGER memories_added AFTER INSERT ON memories BEGIN
    INSERT INTO memories_index (rowid, text, scope) VALUES (new.id, new.text, new.scope);
END;

CREATE TRIGGER memories_removed AFTER DELETE ON memories BEGIN
    INSERT INTO memories_index (memories_index, rowid, text, scope) VALUES ('delete', old.id, old.text, old.scope);
END;
