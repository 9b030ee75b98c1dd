-- Which programs can work with this schema. A process reads it at its start and at each readiness
-- check, so that a program also starts on a schema that a later version has migrated. A migration that
-- earlier programs cannot work with raises the number in its own file:
-- UPDATE schema_compatibility SET oldest_program = <its number>;
CREATE TABLE schema_compatibility (
    -- The table has one row.
    only_row       boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    -- A program works with this schema if its newest migration has at least this number.
    oldest_program bigint NOT NULL
);
INSERT INTO schema_compatibility (oldest_program) VALUES (28);
GRANT SELECT ON schema_compatibility TO twostep_service;
