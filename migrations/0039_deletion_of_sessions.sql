-- A session is deleted with its rows by a trigger. The following migrations drop the foreign keys of
-- the tables that every turn writes: each inserted row had up to three checks, which read the rows of
-- the session, the run and the message and locked them. The inserting transaction has locked the row
-- of its session, which proves more: the session exists, and cannot be deleted before the commit.
-- `twostep verify` reports rows without a session.
--
-- The trigger runs as the owner of the tables, because neither role may delete messages or events, as
-- the cascades did. Row-level security also holds for the owner. If the owner could not see the rows,
-- they would remain, so the deletion fails then.
--
-- A new table with a column `session_id` has a foreign key with ON DELETE CASCADE, or a line here.
DO $$
BEGIN
    EXECUTE format($function$
        CREATE FUNCTION delete_rows_of_sessions() RETURNS trigger
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = %1$I, pg_temp
        -- The plan of a table depends neither on statistics nor on earlier deletions.
        SET plan_cache_mode = force_custom_plan SET enable_seqscan = off AS $body$
        DECLARE
            ids uuid[] := ARRAY(SELECT id FROM deleted);
        BEGIN
            IF cardinality(ids) = 0 THEN
                RETURN NULL;
            END IF;
            IF row_security_active('events') AND NOT pg_has_role('twostep_service', 'USAGE') THEN
                RAISE EXCEPTION USING
                    ERRCODE = 'insufficient_privilege',
                    MESSAGE = format(
                        'the owner of the tables, %%I, cannot delete the rows of a session; an '
                        'administrator has to run: GRANT twostep_tenant, twostep_service TO %%I;',
                        current_user, current_user);
            END IF;
            DELETE FROM tool_calls WHERE session_id = ANY (ids);
            DELETE FROM messages WHERE session_id = ANY (ids);
            DELETE FROM events WHERE session_id = ANY (ids);
            DELETE FROM requests WHERE session_id = ANY (ids);
            DELETE FROM seen_files WHERE session_id = ANY (ids);
            DELETE FROM runs WHERE session_id = ANY (ids);
            RETURN NULL;
        END
        $body$;
        $function$, current_schema());
END
$$;
REVOKE EXECUTE ON FUNCTION delete_rows_of_sessions FROM PUBLIC;

CREATE TRIGGER sessions_delete_rows AFTER DELETE ON sessions
    REFERENCING OLD TABLE AS deleted
    FOR EACH STATEMENT EXECUTE FUNCTION delete_rows_of_sessions();
