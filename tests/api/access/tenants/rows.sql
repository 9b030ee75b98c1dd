-- One row of a tenant in every table, with arbitrary content.
DO $$
DECLARE
    t uuid := current_setting('test.tenant');
    s uuid := gen_random_uuid();
    fork uuid := gen_random_uuid();
    r uuid := gen_random_uuid();
    k uuid := gen_random_uuid();
    w uuid := gen_random_uuid();
    c uuid := gen_random_uuid();
BEGIN
    INSERT INTO tenants (id, name) VALUES (t, t::text);
    INSERT INTO api_keys (id, tenant_id, name, secret_hash, scope)
    VALUES (k, t, 'key', sha256(t::text::bytea), 'read');
    INSERT INTO budgets (tenant_id, period, max_tokens, day) VALUES (t, 'total', 1, current_date);
    INSERT INTO quotas (tenant_id, resource, max) VALUES (t, 'sessions', 1000);
    INSERT INTO deleted_usage VALUES (t, current_date, 'm', 1, 1, 1, 1, 1, 1, 1, 1, 1, 1);
    INSERT INTO webhooks (id, tenant_id, url, events, secret)
    VALUES (w, t, 'https://example.com', '{run.completed}', sha256(t::text::bytea));
    INSERT INTO sessions (id, tenant_id, title, metadata, model, settings)
    VALUES (s, t, 'common title', '{"team": "x"}', 'm', '{}');
    INSERT INTO sessions (id, tenant_id, model, settings, forked_from, forked_at, fork_fingerprint)
    VALUES (fork, t, 'm', '{}', s, 1, '');
    INSERT INTO inherited VALUES (fork, t, s, 0, 1);
    INSERT INTO stored_sizes VALUES (s, t, 1, 1, 1);
    INSERT INTO workspace_sizes (session_id, tenant_id, bytes) VALUES (s, t, 1);
    INSERT INTO runs (id, session_id, tenant_id, status, accepted_seq, message_id, input,
                      fingerprint, finished_at)
    VALUES (r, s, t, 'completed', 1, 'm', '[]', '', now()),
           (gen_random_uuid(), s, t, 'queued', 2, 'n', '[]', '', NULL);
    INSERT INTO messages (session_id, seq, tenant_id, run_id, attempt, role, message_id, content)
    VALUES (s, 1, t, r, 1, 'user', 'm', '[{}]');
    INSERT INTO tool_calls (session_id, message_seq, tool_use_id, tenant_id, run_id, position, name)
    VALUES (s, 1, 'c', t, r, 1, 'n');
    INSERT INTO events (session_id, seq, tenant_id, run_id, event_id, type, body)
    VALUES (s, 1, t, r, 'e', 'user.message', '{"content": [{"text": "common words"}]}'),
           -- Creates a delivery of the webhook.
           (s, 2, t, r, 'f', 'session.status_idle', '{}');
    INSERT INTO requests VALUES (s, r, 1, t, 1, 'm', 1, '{}', '', 1, NULL, '[]', NULL, NULL,
                                 1, 1, 1, 1, 1, 1, 1, 1, 1, 1);
    INSERT INTO reservations (run_id, tenant_id, tokens, cost) VALUES (r, t, 1, 1);
    INSERT INTO seen_files (session_id, tenant_id, path, hash) VALUES (s, t, 'p', '');
    INSERT INTO sent_changes (session_id, tenant_id, kind, message_seq)
    VALUES (s, t, 'thinking_dropped', 1);
    INSERT INTO compactions (session_id, tenant_id, up_to, content, tokens_before, tokens_after)
    VALUES (s, t, 1, '[]', 1, 1);
    INSERT INTO stream_tickets (secret_hash, session_id, tenant_id, expires_at)
    VALUES (sha256(s::text::bytea), s, t, now() + interval '1 hour');
    INSERT INTO browser_tokens (id, secret_hash, tenant_id, session_id, scopes, expires_at)
    VALUES (gen_random_uuid(), sha256(s::text::bytea), t, s, '{read}', now() + interval '1 hour');
    INSERT INTO files (id, tenant_id, session_id, media_type, size, content)
    VALUES (gen_random_uuid(), t, s, 'text/plain', 1, 'x');
    INSERT INTO message_feedback (session_id, tenant_id, message_id, rating)
    VALUES (s, t, 'm', 'up');
    INSERT INTO deleted_sessions (id, tenant_id) VALUES (gen_random_uuid(), t);
    INSERT INTO agents (tenant_id, name, version) VALUES (t, 'a', 1);
    INSERT INTO agent_versions (tenant_id, name, version, profile) VALUES (t, 'a', 1, '{}');
    INSERT INTO environments (id, tenant_id, name, metadata)
    VALUES (gen_random_uuid(), t, 'e', '{}');
    INSERT INTO courses (id, tenant_id, title) VALUES (c, t, 'course');
    INSERT INTO lessons (course_id, number, tenant_id, title) VALUES (c, 1, t, 'lesson');
    INSERT INTO chunks (course_id, n, tenant_id, lesson_number, text, words)
    VALUES (c, 1, t, 1, 'text', 'text');
END
$$
