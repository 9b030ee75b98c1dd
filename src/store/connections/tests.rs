use futures::future::join_all;
use tokio_util::task::TaskTracker;

use super::*;
use crate::store::testing::{TestDatabase, database};
use crate::store::{PoolRole, pool};

async fn backend(conn: &mut PgConnection) -> i32 {
    sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(conn).await.unwrap()
}

#[tokio::test]
async fn a_returned_connection_is_used_again() {
    let database = database().await;
    let connections = Connections::from(database.pool(2));
    let mut conn = connections.acquire().await.unwrap();
    let first = backend(&mut conn).await;
    conn.give_back();
    let mut again = connections.acquire().await.unwrap();
    assert_eq!(backend(&mut again).await, first);
    let mut other = connections.acquire().await.unwrap();
    assert_ne!(backend(&mut other).await, first, "the first one is in use");
}

#[tokio::test]
async fn a_broken_connection_is_not_used_again() {
    let database = database().await;
    let connections = Connections::from(database.pool(1));
    let mut conn = connections.acquire().await.unwrap();
    let broken = backend(&mut conn).await;
    let ended = sqlx::query("SELECT pg_terminate_backend(pg_backend_pid())");
    assert!(ended.execute(&mut *conn).await.is_err());
    drop(conn);
    let mut fresh = connections.acquire().await.unwrap();
    assert_ne!(backend(&mut fresh).await, broken);
}

#[tokio::test]
async fn idle_connections_are_pinged_after_another_one_broke() {
    let database = database().await;
    let connections = Connections::from(database.pool(3));
    let mut in_use = Vec::new();
    for _ in 0..3 {
        in_use.push(connections.acquire().await.unwrap());
    }
    let mut broken = in_use.pop().unwrap();
    let mut witness = in_use.pop().unwrap();
    let mut idle = in_use.pop().unwrap();
    let backends = [backend(&mut broken).await, backend(&mut idle).await];
    idle.give_back();
    sqlx::query("SELECT pg_terminate_backend(pid, 5000) FROM unnest($1::int[]) AS pid")
        .bind(backends)
        .execute(&mut *witness)
        .await
        .unwrap();
    assert!(sqlx::query("SELECT 1").execute(&mut *broken).await.is_err());
    drop(broken);
    let mut fresh = connections.acquire().await.unwrap();
    assert!(!backends.contains(&backend(&mut fresh).await));
}

#[tokio::test]
async fn closing_does_not_wait_for_idle_connections() {
    let database = database().await;
    let connections = Connections::from(database.pool(2));
    connections.acquire().await.unwrap().give_back();
    connections.close().await;
    assert!(matches!(connections.acquire().await, Err(sqlx::Error::PoolClosed)));
}

#[tokio::test]
async fn connections_that_have_been_idle_for_long_are_closed_except_one() {
    let database = database().await;
    let connections = Connections::from(database.pool(3));
    let mut in_use = Vec::new();
    for _ in 0..3 {
        in_use.push(connections.acquire().await.unwrap());
    }
    let mut observer = in_use.pop().unwrap();
    in_use.into_iter().for_each(PooledConnection::give_back);
    let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()";
    connections.close_idle_since(Duration::from_mins(1));
    assert_eq!(sqlx::query_scalar::<_, i64>(open).fetch_one(&mut *observer).await.unwrap(), 3);
    connections.close_idle_since(Duration::ZERO);
    let deadline = Instant::now() + Duration::from_mins(1);
    while sqlx::query_scalar::<_, i64>(open).fetch_one(&mut *observer).await.unwrap() != 2 {
        assert!(Instant::now() < deadline, "the connection is not closed");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_caller_takes_a_returned_connection_while_the_server_grants_no_other() {
    let database = database().await;
    let name = database.options().get_database().unwrap().to_owned();
    let admin = database.pool(1);
    let user = format!("user of {name}");
    sqlx::raw_sql(sqlx::AssertSqlSafe(format!(
        "CREATE ROLE {user:?} LOGIN NOSUPERUSER CONNECTION LIMIT 1; \
         GRANT CONNECT ON DATABASE {name} TO {user:?}"
    )))
    .execute(&admin)
    .await
    .unwrap();
    let options = sqlx::postgres::PgPoolOptions::new().max_connections(2);
    let options = options.acquire_timeout(Duration::from_mins(1));
    let connections =
        Connections::from(options.connect_lazy_with(database.options().username(&user)));
    let mut first = connections.acquire().await.unwrap();
    let only = backend(&mut first).await;
    let waiting = TaskTracker::new().spawn({
        let connections = connections.clone();
        async move { backend(&mut connections.acquire().await.unwrap()).await }
    });
    first.give_back();
    assert_eq!(waiting.await.unwrap(), only);
}

/// Connections with the role that sees one tenant, at most `size`.
fn tenant_connections(database: &TestDatabase, size: u32) -> TenantConnections {
    let api = pool(&database.options(), PoolRole::Api);
    let options = api.options().clone().max_connections(size);
    options.connect_lazy_with((*api.connect_options()).clone()).into()
}

/// The role of a connection, and its tenant.
async fn role_and_tenant(conn: &mut PgConnection) -> (String, String) {
    sqlx::query_as("SELECT current_user::text, current_setting('twostep.tenant')")
        .fetch_one(conn)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_connection_sees_the_rows_of_the_tenant_it_was_acquired_for() {
    let database = database().await;
    let connections = tenant_connections(&database, 1);
    let [one, other] = [TenantId::new(), TenantId::new()];
    for tenant in [one, other, other, one] {
        let mut conn = connections.acquire_as(tenant).await.unwrap();
        let expected = ("twostep_tenant".to_owned(), tenant.as_uuid().to_string());
        assert_eq!(role_and_tenant(&mut conn).await, expected);
        conn.give_back();
    }
}

#[tokio::test]
async fn a_tenant_gets_the_connection_that_it_used_last() {
    let database = database().await;
    let connections = tenant_connections(&database, 3);
    let tenants = [TenantId::new(), TenantId::new(), TenantId::new()];
    let mut in_use = Vec::new();
    let mut backends = Vec::new();
    for tenant in tenants {
        let mut conn = connections.acquire_as(tenant).await.unwrap();
        backends.push(backend(&mut conn).await);
        in_use.push(conn);
    }
    in_use.into_iter().for_each(PooledConnection::give_back);
    for (tenant, expected) in tenants.into_iter().zip(backends) {
        let mut conn = connections.acquire_as(tenant).await.unwrap();
        assert_eq!(backend(&mut conn).await, expected);
        conn.give_back();
    }
}

#[tokio::test]
async fn a_new_tenant_gets_the_connection_that_was_idle_longest() {
    let database = database().await;
    let connections = tenant_connections(&database, 2);
    let [seldom, often] = [TenantId::new(), TenantId::new()];
    let mut left = connections.acquire_as(seldom).await.unwrap();
    let used = connections.acquire_as(often).await.unwrap();
    let expected = backend(&mut left).await;
    left.give_back();
    used.give_back();
    let mut conn = connections.acquire_as(TenantId::new()).await.unwrap();
    assert_eq!(backend(&mut conn).await, expected);
}

#[tokio::test]
async fn a_broken_connection_is_detected_when_its_tenant_is_set() {
    let database = database().await;
    let connections = tenant_connections(&database, 1);
    let mut conn = connections.acquire_as(TenantId::new()).await.unwrap();
    let broken = backend(&mut conn).await;
    conn.give_back();
    sqlx::query("SELECT pg_terminate_backend($1, 5000)")
        .bind(broken)
        .execute(&database.pool(1))
        .await
        .unwrap();
    let other = TenantId::new();
    let mut conn = connections.acquire_as(other).await.unwrap();
    assert_ne!(backend(&mut conn).await, broken);
    assert_eq!(role_and_tenant(&mut conn).await.1, other.as_uuid().to_string());
}

#[tokio::test]
async fn two_thousand_uses_of_four_connections_never_see_another_tenant() {
    let database = database().await;
    let connections = tenant_connections(&database, 4);
    let tenants = [TenantId::new(), TenantId::new(), TenantId::new()];
    join_all((0..20).map(async |task: usize| {
        for turn in 0..100 {
            let tenant = tenants[(task + turn) % tenants.len()];
            let mut conn = connections.acquire_as(tenant).await.unwrap();
            assert_eq!(role_and_tenant(&mut conn).await.1, tenant.as_uuid().to_string());
            conn.give_back();
        }
    }))
    .await;
}

#[tokio::test]
async fn a_connection_is_used_again_after_work_that_succeeds_or_refuses_cleanly() {
    let database = database().await;
    let connections = Connections::from(database.pool(1));
    let of = async |conn: &mut PgConnection| Ok::<_, sqlx::Error>(backend(conn).await);
    let first = connections.with(of).await.unwrap();
    let refused = connections
        .with(async |conn| {
            let transaction = conn.begin().await?;
            transaction.rollback().await?;
            Ok::<_, sqlx::Error>(Err::<(), _>("refused"))
        })
        .await
        .unwrap();
    assert_eq!(refused, Err("refused"));
    assert_eq!(connections.with(of).await.unwrap(), first);
}

#[tokio::test]
async fn a_connection_is_closed_after_work_that_fails() {
    let database = database().await;
    let connections = Connections::from(database.pool(1));
    let mut first = None;
    let failed: Result<(), _> = connections
        .with(async |conn| {
            first = Some(backend(conn).await);
            Err(sqlx::Error::RowNotFound)
        })
        .await;
    assert!(matches!(failed, Err(sqlx::Error::RowNotFound)));
    let next = connections.with(async |conn| Ok::<_, sqlx::Error>(backend(conn).await)).await;
    assert_ne!(next.ok(), first);
}

#[tokio::test]
async fn work_for_a_tenant_sees_its_rows_in_a_future_that_can_be_spawned() {
    let database = database().await;
    let connections = tenant_connections(&database, 1);
    let tenant = TenantId::new();
    // A request handler's future must be `Send`, also when the work borrows from its caller.
    let spawned = TaskTracker::new().spawn({
        let (connections, setting) = (connections.clone(), "twostep.tenant".to_owned());
        async move {
            let name = setting.as_str();
            connections
                .with(tenant, async |conn| {
                    let value = sqlx::query_scalar::<_, String>("SELECT current_setting($1)");
                    value.bind(name).fetch_one(conn).await
                })
                .await
        }
    });
    assert_eq!(spawned.await.unwrap().unwrap(), tenant.as_uuid().to_string());
}
