//! Verification while transactions of others are committed.

use sqlx::Connection as _;

use super::*;
use crate::domain::verification::{Invariant, Verification};
use crate::store::verify;

#[tokio::test]
async fn a_run_that_is_answered_between_the_begin_and_the_snapshot_is_not_reported() {
    let bed = bed().await;
    bed.posted().await;
    let wait = "UPDATE runs SET status = 'requires_action', waiting_since = now(),
                    wake_at = now() + interval '1 hour'";
    sqlx::query(wait).execute(&bed.pool).await.unwrap();
    let mut conn = bed.pool.acquire().await.unwrap();
    assert!(reports_a_wait(verify::session(&mut conn, None, bed.session).await));

    // The snapshot is that of the first query.
    let mut snapshot = conn.begin_with(verify::SNAPSHOT).await.unwrap();
    sqlx::query("UPDATE runs SET wake_at = now()").execute(&bed.pool).await.unwrap();
    assert!(!reports_a_wait(verify::within(&mut snapshot, None, bed.session).await));
}

fn reports_a_wait(verification: Result<Option<Verification>, StoreError>) -> bool {
    let findings = verification.unwrap().unwrap().findings;
    findings.iter().any(|finding| finding.invariant == Invariant::WaitsEnd)
}
