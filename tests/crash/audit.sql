-- Audit tables of the test: which node does what. Every node connects with its own role, so that
-- triggers can record which node writes. The functions are SECURITY DEFINER, because nodes write with
-- a role that has no rights on these tables.
CREATE SCHEMA crash;

-- The claims of runs: node and time.
CREATE TABLE crash.claims (
    run_id uuid, attempt integer, node text, at timestamptz DEFAULT clock_timestamp(),
    -- The run was suspended before, so no node held it.
    has_waited boolean NOT NULL,
    -- Several nodes died during the run, so it was claimed after a pause.
    is_suspect boolean NOT NULL,
    PRIMARY KEY (run_id, attempt)
);
CREATE FUNCTION crash.note_claim() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO crash.claims (run_id, attempt, node, has_waited, is_suspect)
    VALUES (NEW.id, NEW.attempt, session_user, TG_OP = 'UPDATE' AND OLD.status = 'requires_action',
            NEW.takeovers >= 3);
    RETURN NULL;
END
$$;
CREATE TRIGGER crash_claimed AFTER INSERT ON runs
    FOR EACH ROW WHEN (NEW.attempt > 0) EXECUTE FUNCTION crash.note_claim();
CREATE TRIGGER crash_claimed_again AFTER UPDATE ON runs
    FOR EACH ROW WHEN (NEW.attempt > OLD.attempt) EXECUTE FUNCTION crash.note_claim();

-- When a run started or continued, as readers of its events see it.
CREATE TABLE crash.starts (
    run_id uuid, attempt integer, node text, at timestamptz DEFAULT clock_timestamp()
);
-- Writes for a run by a node that did not hold it.
CREATE TABLE crash.zombies (
    run_id uuid, node text, what text, at timestamptz DEFAULT clock_timestamp()
);
CREATE FUNCTION crash.note_event() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    holder text := (SELECT node FROM crash.claims WHERE run_id = NEW.run_id
                    ORDER BY attempt DESC LIMIT 1);
BEGIN
    IF holder <> session_user THEN
        INSERT INTO crash.zombies (run_id, node, what) VALUES (NEW.run_id, session_user, NEW.type);
    END IF;
    IF NEW.type = 'session.status_running' THEN
        INSERT INTO crash.starts (run_id, attempt, node)
        VALUES (NEW.run_id, (NEW.body ->> 'attempt')::integer, session_user);
    END IF;
    RETURN NULL;
END
$$;
-- Every node may record actions of clients.
CREATE TRIGGER crash_event_written AFTER INSERT ON events
    FOR EACH ROW WHEN (NEW.run_id IS NOT NULL AND NEW.type NOT LIKE 'user.%')
    EXECUTE FUNCTION crash.note_event();

CREATE FUNCTION crash.note_message() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF NEW.attempt <> (SELECT attempt FROM runs WHERE id = NEW.run_id) THEN
        INSERT INTO crash.zombies (run_id, node, what)
        VALUES (NEW.run_id, session_user, 'a message of attempt ' || NEW.attempt);
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER crash_message_written AFTER INSERT ON messages
    FOR EACH ROW EXECUTE FUNCTION crash.note_message();

-- Waits as long as the test holds the lock.
CREATE FUNCTION crash.hold() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(4711);
    RETURN NULL;
END
$$;
