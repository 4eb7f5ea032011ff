-- The order of the last changes; a clock may go backwards.
ALTER TABLE sessions ADD COLUMN changed INTEGER NOT NULL DEFAULT 0;

UPDATE sessions SET changed = ordered.position FROM
    (SELECT id, row_number() OVER (ORDER BY updated_at, id) AS position FROM sessions) AS ordered
    WHERE ordered.id = sessions.id;

DROP INDEX sessions_by_change;
CREATE INDEX sessions_by_change ON sessions (changed);

-- Tokens of a session on a day, counted from 1970 in UTC, and their cost in millionths of a dollar.
CREATE TABLE usage (
    session BLOB NOT NULL,
    day INTEGER NOT NULL,
    input INTEGER NOT NULL,
    output INTEGER NOT NULL,
    cache_creation INTEGER,
    cache_read INTEGER,
    cost INTEGER NOT NULL,
    PRIMARY KEY (session, day)
) WITHOUT ROWID;

-- Earlier usage counts toward the day of the session's last change.
INSERT INTO usage (session, day, input, output, cache_creation, cache_read, cost)
    SELECT id, updated_at / 86400000000,
        coalesce(json_extract(progress, '$.usage.input_tokens'), 0),
        coalesce(json_extract(progress, '$.usage.output_tokens'), 0),
        json_extract(progress, '$.usage.cache_creation_tokens'),
        json_extract(progress, '$.usage.cache_read_tokens'),
        CAST(round(coalesce(json_extract(progress, '$.cost'), 0) * 1000000) AS INTEGER)
    FROM (SELECT id, updated_at, CAST(progress AS TEXT) AS progress FROM sessions)
    WHERE CASE WHEN json_valid(progress) THEN json_type(progress, '$.usage') END = 'object';
