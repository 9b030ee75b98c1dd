-- Deliveries for feedback. Its event belongs to no run; the delivery names the run of the reply.
CREATE OR REPLACE FUNCTION tell_webhooks() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    event_type text;
    run  uuid := NEW.run_id;
BEGIN
    IF NOT EXISTS (SELECT FROM webhooks WHERE tenant_id = NEW.tenant_id AND disabled IS NULL) THEN
        RETURN NULL;
    END IF;
    event_type := CASE NEW.type
        WHEN 'user.tool_confirmation' THEN 'approval.decided'
        WHEN 'user.feedback' THEN 'message.feedback'
        -- An imported run has not happened here.
        ELSE 'run.' || (SELECT status FROM runs WHERE id = NEW.run_id AND NOT imported)
    END;
    IF NEW.type = 'user.feedback' THEN
        run := (SELECT h.run_id FROM history h
                WHERE h.session_id = NEW.session_id AND h.message_id = NEW.body ->> 'message_id'
                ORDER BY h.seq DESC LIMIT 1);
    END IF;
    INSERT INTO webhook_deliveries (id, webhook_id, tenant_id, session_id, event, body)
    SELECT new_id(), w.id, w.tenant_id, NEW.session_id, event_type,
           json_build_object(
               'type', event_type,
               'timestamp', to_char(NEW.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
               'data', json_build_object(
                   'session_id', 'ses_' || replace(NEW.session_id::text, '-', ''),
                   'run_id', 'run_' || replace(run::text, '-', ''),
                   'seq', NEW.seq,
                   'event', NEW.body))
    FROM webhooks w
    WHERE w.tenant_id = NEW.tenant_id AND w.disabled IS NULL AND event_type = ANY (w.events)
    -- A webhook that is being deleted is waited for and then left out: the delivery of a deleted
    -- webhook would fail the whole statement.
    FOR KEY SHARE OF w;
    RETURN NULL;
END
$$;

CREATE TRIGGER events_tell_webhooks_of_feedback AFTER INSERT ON events FOR EACH ROW
    WHEN (NEW.type = 'user.feedback')
    EXECUTE FUNCTION tell_webhooks();
