//! Usage of deleted sessions: sums by day and model, which are kept.

use sqlx::PgConnection;
use uuid::Uuid;

use super::StoreError;

/// Sums that are not stored yet, as JSON.
#[derive(Debug)]
pub(super) struct Sums(String);

/// Deletes the requests of sessions and returns their sums.
pub(super) async fn take(conn: &mut PgConnection, sessions: &[Uuid]) -> Result<Sums, StoreError> {
    let sums = sqlx::query_scalar!(
        r#"WITH gone AS (
               DELETE FROM requests WHERE session_id = ANY ($1) RETURNING *
           ), sums AS (
               SELECT tenant_id, (created_at AT TIME ZONE 'UTC')::date AS day, model,
                      count(stop_reason) AS requests, sum(input_tokens) AS input_tokens,
                      sum(cache_creation_input_tokens) AS cache_creation_input_tokens,
                      sum(cache_read_input_tokens) AS cache_read_input_tokens,
                      sum(output_tokens) AS output_tokens,
                      sum(cache_creation_1h_input_tokens) AS cache_creation_1h_input_tokens,
                      sum(thinking_tokens) AS thinking_tokens,
                      sum(web_search_requests) AS web_search_requests,
                      sum(web_fetch_requests) AS web_fetch_requests, sum(cost) AS cost
               FROM gone
               GROUP BY tenant_id, day, model
           )
           SELECT coalesce(json_agg(sums), '[]')::text AS "sums!" FROM sums"#,
        sessions,
    )
    .fetch_one(conn)
    .await?;
    Ok(Sums(sums))
}

/// Adds sums to those of their owners. Concurrent deletions of the same owner wait from here on, so
/// this is the last statement before the commit. All deletions lock the rows in the same order.
pub(super) async fn add(conn: &mut PgConnection, sums: &Sums) -> Result<(), StoreError> {
    sqlx::query!(
        "INSERT INTO deleted_usage AS d
             (tenant_id, day, model, requests, input_tokens, cache_creation_input_tokens,
              cache_read_input_tokens, output_tokens, cache_creation_1h_input_tokens,
              thinking_tokens, web_search_requests, web_fetch_requests, cost)
         SELECT tenant_id, day, model, requests, input_tokens, cache_creation_input_tokens,
                cache_read_input_tokens, output_tokens, cache_creation_1h_input_tokens,
                thinking_tokens, web_search_requests, web_fetch_requests, cost
         FROM json_populate_recordset(NULL::deleted_usage, ($1::text)::json)
         ORDER BY tenant_id, day, model
         ON CONFLICT (tenant_id, day, model) DO UPDATE SET
             requests = d.requests + excluded.requests,
             input_tokens = d.input_tokens + excluded.input_tokens,
             cache_creation_input_tokens =
                 d.cache_creation_input_tokens + excluded.cache_creation_input_tokens,
             cache_read_input_tokens = d.cache_read_input_tokens + excluded.cache_read_input_tokens,
             output_tokens = d.output_tokens + excluded.output_tokens,
             cache_creation_1h_input_tokens =
                 d.cache_creation_1h_input_tokens + excluded.cache_creation_1h_input_tokens,
             thinking_tokens = d.thinking_tokens + excluded.thinking_tokens,
             web_search_requests = d.web_search_requests + excluded.web_search_requests,
             web_fetch_requests = d.web_fetch_requests + excluded.web_fetch_requests,
             cost = coalesce(d.cost + excluded.cost, d.cost, excluded.cost)",
        sums.0,
    )
    .execute(conn)
    .await?;
    Ok(())
}
