-- The second wall between tenants. The first one is that each statement names its tenant; here a
-- statement that forgets to finds nothing of anybody else, and can write nothing for them. The
-- service takes one of two roles, neither of which owns a table or is exempt: the login user may be
-- both. Roles belong to the cluster, so another database may have made them, or be at it.
DO $$
DECLARE
    named text;
    -- From 16 on who makes a role may not take it unless it says so; 15 does not know the words.
    wish text := CASE WHEN current_setting('server_version_num')::int >= 160000
                      THEN ' WITH INHERIT TRUE, SET TRUE' ELSE '' END;
BEGIN
    FOREACH named IN ARRAY ARRAY['twostep_tenant', 'twostep_service'] LOOP
        BEGIN
            IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = named) THEN
                EXECUTE format('CREATE ROLE %I NOLOGIN', named);
            END IF;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            NULL; -- It is there, which was all.
        END;
        BEGIN
            IF NOT pg_has_role(current_user, named, 'USAGE')
               OR wish = '' AND NOT pg_has_role(current_user, named, 'MEMBER')
               OR wish <> '' AND NOT pg_has_role(current_user, named, 'SET') THEN
                EXECUTE format('GRANT %I TO CURRENT_USER', named) || wish;
            END IF;
        EXCEPTION WHEN unique_violation THEN
            NULL;
        END;
    END LOOP;
EXCEPTION WHEN insufficient_privilege THEN
    RAISE EXCEPTION USING
        ERRCODE = 'insufficient_privilege',
        MESSAGE = format(
            'the database user %I cannot make or take the roles that keep tenants apart; an '
            'administrator has to run, as far as it is not done: CREATE ROLE twostep_tenant NOLOGIN; '
            'CREATE ROLE twostep_service NOLOGIN; GRANT twostep_tenant, twostep_service TO %I;',
            current_user, current_user);
END
$$;

-- Members of the roles may be users of other databases of this server, and have no business here.
-- Who has worked on the tables so far goes on. A database that is somebody else's stays as it is.
DO $$
DECLARE
    named name;
BEGIN
    FOR named IN SELECT rolname FROM pg_roles
                 WHERE rolcanlogin AND NOT rolsuper AND has_table_privilege(oid, 'sessions', 'INSERT')
    LOOP
        EXECUTE format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), named);
        IF NOT pg_has_role(named, 'twostep_service', 'USAGE') THEN
            EXECUTE format('GRANT twostep_tenant, twostep_service TO %I', named);
        END IF;
    END LOOP;
    EXECUTE format('REVOKE CONNECT ON DATABASE %I FROM PUBLIC', current_database());
EXCEPTION WHEN insufficient_privilege THEN
    NULL;
END
$$;

-- Has the rows of a table seen, and written, by their tenant only; and by the service itself, which
-- works for all. For tables yet to come as well; who may do what with one is granted beside it.
CREATE FUNCTION keep_tenants_apart(rows_of regclass, tenant text DEFAULT 'tenant_id') RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', rows_of);
    -- In a query of its own it is found out once, not for each row. Without a tenant there is none.
    -- The planner takes CASE for something that every second row has. By its statistics of tenants it
    -- is one row of very many, and to find the next event of a session all of them would be sorted.
    EXECUTE format(
        'CREATE POLICY of_tenant ON %s TO twostep_tenant
         USING (CASE WHEN %I = (SELECT nullif(current_setting(''twostep.tenant'', true), '''')::uuid)
                     THEN true ELSE false END)',
        rows_of, tenant);
    EXECUTE format('CREATE POLICY of_service ON %s TO twostep_service USING (true)', rows_of);
END
$$;

-- In the order in which the service locks them, because it may be at work.
SELECT keep_tenants_apart('tenants', 'id');
SELECT keep_tenants_apart(named) FROM unnest('{
    sessions, runs, messages, tool_calls, events, requests, seen_files, sent_changes, compactions,
    inherited, budgets, reservations, deleted_usage, api_keys, stream_tickets, webhooks,
    webhook_deliveries}'::regclass[]) AS named;
-- A view looks as its owner unless told otherwise.
ALTER VIEW history SET (security_invoker = true);

DO $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO twostep_tenant, twostep_service', current_schema());
END
$$;
GRANT SELECT ON _sqlx_migrations TO twostep_service;
GRANT SELECT, INSERT, UPDATE, DELETE ON
    tenants, sessions, runs, tool_calls, requests, seen_files, sent_changes, compactions, inherited,
    budgets, reservations, deleted_usage, api_keys, stream_tickets, webhooks, webhook_deliveries
    TO twostep_service;
-- Requests of a tenant make neither tenants, keys nor budgets, and know nothing of keys. They lock
-- their tenant's row, for which one has to be allowed to change something of it; and they add up
-- what was spent.
GRANT SELECT, UPDATE (id) ON tenants TO twostep_tenant;
GRANT SELECT, UPDATE (day, tokens, cost) ON budgets TO twostep_tenant;
GRANT SELECT, DELETE ON reservations TO twostep_tenant;
GRANT SELECT, INSERT, UPDATE, DELETE ON
    sessions, runs, tool_calls, requests, seen_files, sent_changes, compactions, inherited,
    deleted_usage, stream_tickets, webhooks, webhook_deliveries
    TO twostep_tenant;
-- What has happened is added to, and goes with its session only.
GRANT SELECT, INSERT ON messages, events TO twostep_service, twostep_tenant;
GRANT SELECT ON history TO twostep_service, twostep_tenant;

-- Indexes of words and of metadata serve no query behind the wall: it could learn of rows of others,
-- by an error for instance, before they are kept from it. So these two look before the wall, for the
-- tenant who is set and nobody else, with nothing that could fail on a row.
DO $$
BEGIN
    EXECUTE format($function$
        CREATE FUNCTION sessions_with_words(words text) RETURNS SETOF uuid
        LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = %1$I, pg_temp
        SET plan_cache_mode = force_custom_plan AS $body$
        BEGIN
            RETURN QUERY
            SELECT id FROM sessions
            WHERE tenant_id = nullif(current_setting('twostep.tenant', true), '')::uuid
              AND title_words @@ plainto_tsquery('simple', words)
            UNION
            SELECT session_id FROM events
            WHERE tenant_id = nullif(current_setting('twostep.tenant', true), '')::uuid
              AND type = 'user.message' AND typed_words(body) @@ plainto_tsquery('simple', words);
        END
        $body$;
        -- None if they are many: then they are found soon enough by looking at one after the other.
        CREATE FUNCTION sessions_with_terms(terms bigint[]) RETURNS uuid[]
        LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = %1$I, pg_temp
        SET plan_cache_mode = force_custom_plan AS $body$
        DECLARE
            ids uuid[] := ARRAY(
                SELECT id FROM sessions
                WHERE tenant_id = nullif(current_setting('twostep.tenant', true), '')::uuid
                  AND metadata_terms @> terms
                LIMIT 1001);
        BEGIN
            RETURN CASE WHEN cardinality(ids) <= 1000 THEN ids END;
        END
        $body$;
        $function$, current_schema());
END
$$;
REVOKE EXECUTE ON FUNCTION sessions_with_words, sessions_with_terms FROM PUBLIC;
GRANT EXECUTE ON FUNCTION sessions_with_words, sessions_with_terms TO twostep_tenant;
