-- The readiness check of a process writes here, in a transaction that it rolls back: an existing page
-- can be changed when the disk is full, a new file cannot grow. Therefore the check truncates the table,
-- which gives it a new file, and inserts a page. Nothing of it remains.
CREATE TABLE write_probe (
    page bytea NOT NULL
);
-- A page that is stored in the table itself, and as long as it is.
ALTER TABLE write_probe ALTER COLUMN page SET STORAGE PLAIN;
GRANT SELECT, INSERT, TRUNCATE ON write_probe TO twostep_service;
