//! The rows of deleted sessions: every deletion of a session deletes its rows in every table.

use std::collections::BTreeSet;

use sqlx::{AssertSqlSafe, ConnectOptions as _, Executor as _, PgConnection, PgPool};
use twostep::app::bring_up_to_date;
use twostep::domain::ids::TenantId;
use twostep::store::connections::TenantConnections;
use twostep::store::{PoolRole, pool};

use super::database_users::{Owner, execute};
use super::{NOT_ALLOWED, TwoTenants, code, fill, owners, tables};

/// The deletion as in this version. The service deletes forks and their sources together.
const DELETE: &str = "DELETE FROM inherited; DELETE FROM sessions";
/// The deletion as in the versions before the migration 39.
const DELETE_AS_BEFORE: &str = "DELETE FROM inherited; DELETE FROM runs; DELETE FROM requests;
                                DELETE FROM sessions";

/// The tables with a column that names a session. A new table appears here by itself.
async fn tables_of_sessions(pool: &PgPool) -> Vec<String> {
    let tables = "SELECT c.table_name::text FROM information_schema.columns c
                  JOIN information_schema.tables t USING (table_schema, table_name)
                  WHERE c.table_schema = 'public' AND c.column_name = 'session_id'
                    AND t.table_type = 'BASE TABLE'
                  ORDER BY 1";
    sqlx::query_scalar(tables).fetch_all(pool).await.unwrap()
}

/// The tables with a column that names a session in which the tenant has rows.
async fn tables_with_rows(pool: &PgPool, tenant: TenantId) -> Vec<String> {
    let mut conn = pool.acquire().await.unwrap();
    let mut found = Vec::new();
    for table in tables_of_sessions(pool).await {
        if owners(&mut conn, &table, "tenant_id").await.unwrap().contains(&tenant) {
            found.push(table);
        }
    }
    found
}

/// Switches a connection to the role for requests of a tenant.
async fn serve(conn: &mut PgConnection, tenant: TenantId) {
    let set = "SELECT set_config('twostep.tenant', $1, false), set_config('role', 'twostep_tenant', false)";
    sqlx::query(set).bind(tenant.as_uuid().to_string()).execute(conn).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_can_delete_its_sessions_with_all_their_rows() {
    for statements in [DELETE, DELETE_AS_BEFORE] {
        let shared = TwoTenants::new().await;
        let connections = TenantConnections::from(pool(&shared.database.options(), PoolRole::Api));
        let mut conn = connections.acquire_as(shared.one).await.unwrap();
        conn.execute(statements).await.unwrap();
        let mut all = shared.database.pool(1).acquire().await.unwrap();
        let mut remaining = Vec::new();
        for (table, column) in tables(&shared.database).await {
            let there = owners(&mut all, &table, column).await.unwrap();
            assert!(there.contains(&shared.other), "{table}");
            if there.contains(&shared.one) {
                remaining.push(table);
            }
        }
        let expected = [
            "agent_versions",
            "agents",
            "api_keys",
            "budgets",
            "chunks",
            "courses",
            "deleted_sessions",
            "deleted_usage",
            "environments",
            "lessons",
            "quotas",
            "tenants",
            "webhooks",
        ];
        assert_eq!(remaining, expected, "{statements}");
    }
}

/// Row-level security also holds for the owner of the tables, as whom the rows are deleted.
#[tokio::test(flavor = "multi_thread")]
async fn all_rows_of_a_session_are_deleted_where_the_owner_of_the_tables_is_unprivileged() {
    let owner = Owner::new().await;
    owner.grant_roles().await;
    bring_up_to_date(owner.options()).await.unwrap();
    let pool = owner.database.pool(2);
    let [one, other] = [TenantId::new(), TenantId::new()];
    for tenant in [one, other] {
        fill(&pool, tenant).await;
    }
    let all = tables_of_sessions(&pool).await;
    assert_eq!(tables_with_rows(&pool, one).await, all);
    let mut conn = owner.options().connect().await.unwrap();
    serve(&mut conn, one).await;
    conn.execute(DELETE).await.unwrap();
    assert_eq!(tables_with_rows(&pool, one).await, Vec::<String>::new());
    assert_eq!(tables_with_rows(&pool, other).await, all);
}

/// An owner who does not see the rows would leave them behind. The service logs in as another user.
#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_fails_where_the_owner_of_the_tables_cannot_see_the_rows() {
    let (owner, service) = (Owner::new().await, Owner::new().await);
    owner.grant_roles().await;
    service.grant_roles().await;
    bring_up_to_date(owner.options()).await.unwrap();
    let (database, pool) = (&owner.database, owner.database.pool(2));
    execute(
        database,
        format!(
            "GRANT CONNECT ON DATABASE {:?} TO {:?}",
            database.options().get_database().unwrap(),
            service.name
        ),
    )
    .await;
    let tenant = TenantId::new();
    fill(&pool, tenant).await;
    let before = tables_with_rows(&pool, tenant).await;
    execute(database, format!("REVOKE twostep_service FROM {:?}", owner.name)).await;
    let options = database.options().username(&service.name).password("own");
    let mut conn = options.connect().await.unwrap();
    serve(&mut conn, tenant).await;
    let error = conn.execute("DELETE FROM sessions WHERE forked_from IS NOT NULL").await;
    let error = error.unwrap_err();
    assert!(error.to_string().contains("cannot delete the rows of a session"), "{error}");
    assert_eq!(code(error), NOT_ALLOWED);
    assert_eq!(tables_with_rows(&pool, tenant).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_without_sessions_can_be_deleted() {
    let shared = TwoTenants::new().await;
    let pool = shared.database.pool(1);
    let (one, other) = (shared.one, shared.other);
    for statement in [
        format!("DELETE FROM inherited WHERE tenant_id = '{}'", one.as_uuid()),
        format!("DELETE FROM sessions WHERE tenant_id = '{}'", one.as_uuid()),
        format!("DELETE FROM tenants WHERE id = '{}'", one.as_uuid()),
    ] {
        pool.execute(AssertSqlSafe(statement)).await.unwrap();
    }
    let mut conn = pool.acquire().await.unwrap();
    for (table, column) in tables(&shared.database).await {
        let there: BTreeSet<TenantId> = owners(&mut conn, &table, column).await.unwrap();
        assert!(there.contains(&other) && !there.contains(&one), "{table}");
    }
}
