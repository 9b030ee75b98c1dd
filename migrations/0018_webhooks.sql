-- Where a tenant wants to be told of its runs.
CREATE TABLE webhooks (
    id         uuid PRIMARY KEY,
    tenant_id  uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    url        text NOT NULL CHECK (char_length(url) BETWEEN 1 AND 2000),
    -- A name for people.
    description text CHECK (char_length(description) <= 500),
    -- What it is told of.
    events     text[] NOT NULL CHECK (cardinality(events) > 0),
    -- Signs what is sent, so it is kept as it is, unlike the secrets of keys.
    secret     bytea NOT NULL CHECK (octet_length(secret) = 32),
    -- The secret before, which signs as well for a while after a change.
    old_secret       bytea CHECK (octet_length(old_secret) = 32),
    old_secret_until timestamptz,
    -- Why nothing is sent, where that is so; what happens meanwhile is not kept for it.
    disabled   text CHECK (disabled IN ('by_owner', 'gone')),
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    -- Deliveries refer to both, so that none can belong to another tenant than its webhook.
    UNIQUE (id, tenant_id),
    CHECK ((old_secret IS NULL) = (old_secret_until IS NULL))
);
CREATE INDEX webhooks_by_tenant ON webhooks (tenant_id, id);

-- The outbox: what is to be sent, or was. Rows are made in the transaction of the event that they
-- tell of, so that there is no event without and none that never happened.
CREATE TABLE webhook_deliveries (
    id         uuid PRIMARY KEY,
    webhook_id uuid NOT NULL,
    tenant_id  uuid NOT NULL,
    -- Null for a test.
    session_id uuid,
    event      text NOT NULL,
    -- What is sent, byte for byte: each attempt is the same, and so has the same signature.
    body       text NOT NULL,
    state      text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'failed')),
    -- Since the delivery was made, or asked for once more. It is also the fence: who has been slow
    -- to say how an attempt ended is not heard when another has begun.
    attempts   integer NOT NULL DEFAULT 0,
    -- While an attempt is under way, when another process makes the next one if this one dies.
    next_attempt_at timestamptz DEFAULT now(),
    -- How the last attempt ended: the status of the answer, or why there was none.
    last_status integer,
    last_error  text,
    created_at  timestamptz NOT NULL DEFAULT now(),
    ended_at    timestamptz,
    FOREIGN KEY (webhook_id, tenant_id) REFERENCES webhooks (id, tenant_id) ON DELETE CASCADE,
    FOREIGN KEY (session_id, tenant_id) REFERENCES sessions (id, tenant_id) ON DELETE CASCADE,
    CHECK ((state = 'pending') = (next_attempt_at IS NOT NULL)),
    CHECK ((state = 'pending') = (ended_at IS NULL))
);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (webhook_id, next_attempt_at)
    WHERE state = 'pending';
CREATE INDEX webhook_deliveries_by_webhook ON webhook_deliveries (webhook_id, id DESC);
CREATE INDEX webhook_deliveries_by_session ON webhook_deliveries (session_id);
CREATE INDEX webhook_deliveries_by_age ON webhook_deliveries (created_at);

-- A UUID v7, as Rust makes all others. What a trigger inserts cannot ask there.
CREATE FUNCTION new_id() RETURNS uuid LANGUAGE sql VOLATILE AS $$
    SELECT encode(
        set_bit(set_bit(
            overlay(uuid_send(gen_random_uuid()) PLACING
                substring(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3)
                FROM 1 FOR 6),
            52, 1), 53, 1),
        'hex')::uuid
$$;

-- Events are inserted in many places, all of which this one sees. It runs after the whole
-- statement, so that the run's row says already how the run is.
CREATE FUNCTION tell_webhooks() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    told text;
BEGIN
    IF NOT EXISTS (SELECT FROM webhooks WHERE tenant_id = NEW.tenant_id AND disabled IS NULL) THEN
        RETURN NULL;
    END IF;
    told := CASE NEW.type
        WHEN 'user.tool_confirmation' THEN 'approval.decided'
        -- What was made elsewhere has not happened here.
        ELSE 'run.' || (SELECT status FROM runs WHERE id = NEW.run_id AND NOT imported)
    END;
    INSERT INTO webhook_deliveries (id, webhook_id, tenant_id, session_id, event, body)
    SELECT new_id(), w.id, w.tenant_id, NEW.session_id, told,
           json_build_object(
               'type', told,
               'timestamp', to_char(NEW.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
               'data', json_build_object(
                   'session_id', 'ses_' || replace(NEW.session_id::text, '-', ''),
                   'run_id', 'run_' || replace(NEW.run_id::text, '-', ''),
                   'seq', NEW.seq,
                   'event', NEW.body))
    FROM webhooks w
    WHERE w.tenant_id = NEW.tenant_id AND w.disabled IS NULL AND told = ANY (w.events)
    -- One that is deleted at this moment is waited for, and then not told: the delivery of a webhook
    -- that is gone would fail the whole statement.
    FOR KEY SHARE OF w;
    RETURN NULL;
END
$$;

CREATE TRIGGER events_tell_webhooks AFTER INSERT ON events FOR EACH ROW
    WHEN (NEW.type IN ('session.status_idle', 'user.tool_confirmation'))
    EXECUTE FUNCTION tell_webhooks();
