-- no-transaction
-- Sessions that were created before the trigger. The batches follow the ids, so an interrupted backfill
-- reads the finished part again, but does not write it again.
DO $$
DECLARE
    batch_end uuid := '00000000-0000-0000-0000-000000000000';
    ids uuid[];
BEGIN
    LOOP
        ids := ARRAY(SELECT id FROM sessions WHERE id > batch_end ORDER BY id LIMIT 1000);
        EXIT WHEN ids = '{}';
        UPDATE sessions SET user_name = settings ->> 'user'
        WHERE id = ANY (ids) AND user_name IS NULL AND settings ->> 'user' IS NOT NULL;
        COMMIT;
        batch_end := ids[cardinality(ids)];
    END LOOP;
END
$$;
