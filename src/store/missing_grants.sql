-- The grants of the migrations that the two roles lack, as statements: a restore without privileges
-- omits them. A new migration that grants something adds it here as well.
WITH needed (role, privileges, columns, tables) AS (
    VALUES
        ('twostep_service', '{SELECT,INSERT,UPDATE,DELETE}'::text[], '{}'::text[], '{
            tenants, sessions, runs, tool_calls, requests, seen_files, sent_changes, compactions,
            inherited, budgets, reservations, deleted_usage, api_keys, stream_tickets, webhooks,
            webhook_deliveries, courses, lessons, chunks, agents, quotas, stored_sizes,
            workspace_sizes, browser_tokens, deleted_sessions, message_feedback, files,
            environments}'::text[]),
        ('twostep_service', '{SELECT,INSERT}', '{}', '{messages, events, agent_versions}'),
        ('twostep_service', '{SELECT}', '{}', '{
            _sqlx_migrations, schema_compatibility, history, run_queue}'),
        ('twostep_service', '{SELECT,INSERT,TRUNCATE}', '{}', '{write_probe}'),
        ('twostep_tenant', '{SELECT,INSERT,UPDATE,DELETE}', '{}', '{
            sessions, runs, tool_calls, requests, seen_files, sent_changes, compactions, inherited,
            deleted_usage, stream_tickets, webhooks, webhook_deliveries, agents, stored_sizes,
            workspace_sizes, browser_tokens, deleted_sessions, message_feedback, files,
            environments}'),
        ('twostep_tenant', '{SELECT,INSERT}', '{}', '{messages, events, agent_versions}'),
        ('twostep_tenant', '{SELECT,DELETE}', '{}', '{reservations}'),
        ('twostep_tenant', '{SELECT}', '{}', '{
            tenants, budgets, history, courses, lessons, chunks, quotas}'),
        ('twostep_tenant', '{UPDATE}', '{id}', '{tenants}'),
        ('twostep_tenant', '{UPDATE}', '{day,tokens,cost}', '{budgets}')
), callable (role, functions) AS (
    VALUES
        ('twostep_service', '{database_identity()}'::text[]),
        ('twostep_tenant', '{
            database_identity(), sessions_with_words(text), sessions_with_terms(bigint[])}')
), lacking (role, privilege, kind, name) AS (
    SELECT role, privilege, '', format('%I', name)
    FROM needed, unnest(tables) AS name, unnest(privileges) AS privilege
    WHERE columns = '{}' AND NOT has_table_privilege(role, to_regclass(name), privilege)
    UNION ALL
    SELECT role, format('%s (%s)', privilege, array_to_string(columns, ', ')), '', format('%I', name)
    FROM needed, unnest(tables) AS name, unnest(privileges) AS privilege
    WHERE EXISTS (SELECT FROM unnest(columns) AS column_name
                  WHERE NOT has_column_privilege(role, to_regclass(name), column_name, privilege))
    UNION ALL
    SELECT role, 'EXECUTE', 'FUNCTION ', name
    FROM callable, unnest(functions) AS name
    WHERE NOT has_function_privilege(role, to_regprocedure(name), 'EXECUTE')
    UNION ALL
    SELECT role, 'USAGE', 'SCHEMA ', format('%I', current_schema())
    FROM callable
    WHERE NOT has_schema_privilege(role, current_schema(), 'USAGE')
), by_name AS (
    SELECT role, kind, name, string_agg(privilege, ', ' ORDER BY privilege) AS privileges
    FROM lacking
    GROUP BY role, kind, name
)
SELECT format('GRANT %s ON %s%s TO %I', privileges, kind, string_agg(name, ', ' ORDER BY name), role)
           AS "statement!"
FROM by_name
GROUP BY role, kind, privileges
ORDER BY 1
