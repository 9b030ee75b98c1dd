-- Claims due deliveries for $6 seconds and counts the attempts that follow. The webhooks in $1 have
-- as many attempts under way as $2 says; $3 is the maximum of a webhook, $4 of a tenant, and $5 the
-- maximum of all in addition to those under way.
WITH busy AS (
    SELECT w.id, w.tenant_id, b.count
    FROM unnest($1::uuid[], $2::bigint[]) AS b (id, count) JOIN webhooks w USING (id)
), ranked AS (
    SELECT picked.id,
           (SELECT coalesce(sum(count), 0)::bigint FROM busy WHERE tenant_id = w.tenant_id)
           + row_number() OVER (
               PARTITION BY w.tenant_id
               ORDER BY coalesce(busy.count, 0) + picked.place, picked.next_attempt_at
           ) AS place
    FROM webhooks w
    LEFT JOIN busy ON busy.id = w.id
    CROSS JOIN LATERAL (
        SELECT taken.id, taken.next_attempt_at,
               row_number() OVER (ORDER BY taken.next_attempt_at) AS place
        FROM (
            SELECT d.id, d.next_attempt_at FROM webhook_deliveries d
            WHERE d.webhook_id = w.id AND d.state = 'pending'
              AND d.next_attempt_at <= now()
            ORDER BY d.next_attempt_at
            LIMIT greatest($3 - coalesce(busy.count, 0), 0)
            FOR UPDATE SKIP LOCKED
        ) AS taken
    ) AS picked
    WHERE w.disabled IS NULL
), due AS (
    SELECT id FROM ranked WHERE place <= $4 ORDER BY place LIMIT $5
)
UPDATE webhook_deliveries d
SET attempts = d.attempts + 1, next_attempt_at = now() + make_interval(secs => $6)
FROM due, webhooks w
WHERE d.id = due.id AND w.id = d.webhook_id
RETURNING d.id, d.webhook_id, d.attempts, d.next_attempt_at AS "taken_until!: Timestamp", d.body, w.url, w.secret,
          CASE WHEN w.old_secret_until > now() THEN w.old_secret END AS old_secret
