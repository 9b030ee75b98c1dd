//! What must hold of a service at rest, however it was started.

use super::TestDatabase;

/// Where the database breaks an invariant.
pub(crate) async fn broken_invariants(database: &TestDatabase) -> Vec<(String, String)> {
    let pool = database.pool(1);
    sqlx::query_as(include_str!("../../support/invariants.sql")).fetch_all(&pool).await.unwrap()
}

/// The repairs that a service has counted, by kind, out of the text of its metrics.
pub(crate) fn repairs(metrics: &str) -> Vec<(String, u64)> {
    let repairs = metrics.lines().filter_map(|line| {
        let line = line.strip_prefix(r#"twostep_history_repairs_total{kind=""#)?;
        let (kind, times) = line.split_once(r#""} "#)?;
        Some((kind.to_owned(), times.parse().unwrap()))
    });
    let mut repairs: Vec<(String, u64)> = repairs.collect();
    assert!(!repairs.is_empty(), "{metrics}");
    repairs.retain(|(_, times)| *times > 0);
    repairs.sort();
    repairs
}
