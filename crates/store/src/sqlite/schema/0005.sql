-- What an agent is to do. The position is the order in which a session's tasks were made.
CREATE TABLE tasks (
    session BLOB NOT NULL,
    position INTEGER NOT NULL,
    id TEXT NOT NULL,
    task BLOB NOT NULL,
    PRIMARY KEY (session, position),
    UNIQUE (session, id)
) WITHOUT ROWID;
