-- The revision at which a value was put, so that who knows an earlier one reads only what is new.
ALTER TABLE state ADD COLUMN changed INTEGER NOT NULL DEFAULT 0;
UPDATE state SET changed = place;
CREATE INDEX state_changed ON state (scope, changed);

-- The revision at which a key was last removed.
ALTER TABLE scopes ADD COLUMN removed INTEGER NOT NULL DEFAULT 0;
