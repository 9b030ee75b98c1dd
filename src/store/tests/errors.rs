use super::*;

#[tokio::test]
async fn an_idle_transaction_ends_before_the_lock_timeout_of_others() {
    let database = database().await;
    let pool = crate::store::pool(&database.options(), crate::store::PoolRole::Api);
    let millis = |name: &'static str| {
        sqlx::query_scalar::<_, i32>("SELECT setting::int FROM pg_settings WHERE name = $1")
            .bind(name)
            .fetch_one(&pool)
    };
    let idles = millis("idle_in_transaction_session_timeout").await.unwrap();
    assert!(idles > 0 && idles < millis("lock_timeout").await.unwrap());
}

#[tokio::test]
async fn a_key_too_long_for_its_index_is_a_permanent_error() {
    let bed = bed().await;
    // Random text, which compression does not shorten.
    let noise: String = (0..400).map(|_| SessionId::new().to_string()).collect();
    let insert = "INSERT INTO seen_files (session_id, tenant_id, path, hash) \
        SELECT id, tenant_id, $2, ''::bytea FROM sessions WHERE id = $1";
    let insert = sqlx::query(insert).bind(bed.session.as_uuid()).bind(noise);
    let error = StoreError::from(insert.execute(&bed.pool).await.unwrap_err());
    assert!(error.is_permanent() && !error.may_pass(), "{error:?}");
}

#[tokio::test]
async fn a_session_terminated_for_an_idle_transaction_is_a_transient_error() {
    let database = database().await;
    let raise = "DO $$ BEGIN RAISE 'ended' USING ERRCODE = '25P03'; END $$";
    let ended = sqlx::raw_sql(raise).execute(&database.pool(1)).await.unwrap_err();
    let ended = StoreError::from(ended);
    assert_eq!((ended.may_pass(), ended.is_permanent()), (true, false), "{ended}");
}
