//! Row-level security: the rows that statements without a condition on the tenant can read and
//! change.

mod database_users;
mod deletion;
mod few_connections;
mod missing_grants;
mod policies;
mod search;
mod shared_connections;

use std::collections::BTreeSet;

use sqlx::{AssertSqlSafe, Executor as _, PgConnection, PgPool};
use twostep::domain::ids::TenantId;
use twostep::store::{PoolRole, pool};
use uuid::Uuid;

use crate::support::{TestDatabase, database};

/// A database in which two tenants have a row in every table.
struct TwoTenants {
    database: TestDatabase,
    one: TenantId,
    other: TenantId,
}

impl TwoTenants {
    async fn new() -> Self {
        let database = database().await;
        let [one, other] = [TenantId::new(), TenantId::new()];
        for tenant in [one, other] {
            fill(&database.pool(1), tenant).await;
        }
        Self { database, one, other }
    }

    /// A connection of the pool for requests.
    async fn api(&self) -> PgConnection {
        pool(&self.database.options(), PoolRole::Api).acquire().await.unwrap().detach()
    }

    /// A connection of the pool for requests, with this tenant set.
    async fn api_for(&self, tenant: TenantId) -> PgConnection {
        let mut conn = self.api().await;
        let set = "SELECT set_config('twostep.tenant', $1, false)";
        sqlx::query(set).bind(tenant.as_uuid().to_string()).execute(&mut conn).await.unwrap();
        conn
    }
}

/// Gives a new tenant a row in every table.
async fn fill(pool: &PgPool, tenant: TenantId) {
    let mut conn = pool.acquire().await.unwrap();
    let set = "SELECT set_config('test.tenant', $1, false)";
    sqlx::query(set).bind(tenant.as_uuid().to_string()).execute(&mut *conn).await.unwrap();
    conn.execute(include_str!("rows.sql")).await.unwrap();
}

/// All tables and views, with the column that names the tenant of a row.
async fn tables(database: &TestDatabase) -> Vec<(String, &'static str)> {
    let tables = "SELECT relname::text FROM pg_class
                  WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'm')
                    AND relname NOT IN ('_sqlx_migrations', 'schema_compatibility', 'write_probe')
                  ORDER BY 1";
    let names: Vec<String> = sqlx::query_scalar(tables).fetch_all(&database.pool(1)).await.unwrap();
    let column = |name: &str| if name == "tenants" { "id" } else { "tenant_id" };
    names.into_iter().map(|name| (name.clone(), column(&name))).collect()
}

/// The tenants of the rows that a statement without a condition finds, or the code of its error.
async fn owners(conn: &mut PgConnection, table: &str, column: &str) -> Result<Owners, String> {
    let select = AssertSqlSafe(format!("SELECT DISTINCT {column} FROM {table}"));
    let owners: Vec<Uuid> = sqlx::query_scalar(select).fetch_all(conn).await.map_err(code)?;
    Ok(owners.into_iter().map(TenantId::from).collect())
}

type Owners = BTreeSet<TenantId>;

/// The SQLSTATE of an error.
#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err takes")]
fn code(error: sqlx::Error) -> String {
    error.as_database_error().unwrap().code().unwrap().into_owned()
}

/// The SQLSTATE of a statement that the user has no privilege for.
const NOT_ALLOWED: &str = "42501";

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_without_a_condition_finds_only_rows_of_its_tenant() {
    let shared = TwoTenants::new().await;
    let (one, other) = (shared.one, shared.other);
    let mut all = shared.database.pool(1).acquire().await.unwrap();
    let mut conn = shared.api_for(one).await;
    for (table, column) in tables(&shared.database).await {
        let there = owners(&mut all, &table, column).await.unwrap();
        assert!(there.is_superset(&[one, other].into()), "{table}: a tenant has no rows");
        let expected = match &*table {
            "api_keys" | "run_queue" => Err(NOT_ALLOWED.to_owned()),
            _ => Ok([one].into()),
        };
        assert_eq!(owners(&mut conn, &table, column).await, expected, "{table}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_without_a_tenant_finds_no_rows() {
    let shared = TwoTenants::new().await;
    let mut conn = shared.api().await;
    // At first, and after a transaction that has set a tenant for itself.
    for _ in 0..2 {
        for (table, column) in tables(&shared.database).await {
            if !["api_keys", "run_queue"].contains(&&*table) {
                let found = owners(&mut conn, &table, column).await;
                assert_eq!(found, Ok(Owners::new()), "{table}");
            }
        }
        let set = "SELECT set_config('twostep.tenant', $1, true)";
        let tenant = shared.one.as_uuid().to_string();
        sqlx::query(set).bind(tenant).execute(&mut conn).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_for_all_tenants_find_the_rows_of_all() {
    let shared = TwoTenants::new().await;
    let expected: Owners = [shared.one, shared.other].into();
    for role in [PoolRole::Admission, PoolRole::Worker, PoolRole::Heartbeat, PoolRole::Bus] {
        let mut conn = pool(&shared.database.options(), role).acquire().await.unwrap();
        for (table, column) in tables(&shared.database).await {
            let found = owners(&mut conn, &table, column).await.unwrap();
            assert!(found.is_superset(&expected), "{role:?}: {table}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_row_is_written_for_another_tenant() {
    let shared = TwoTenants::new().await;
    let other = shared.other.as_uuid();
    let mut conn = shared.api_for(shared.one).await;
    for statement in [
        "INSERT INTO sessions (id, tenant_id, model, settings)
         VALUES (gen_random_uuid(), $1, 'm', '{}')",
        "INSERT INTO webhooks (id, tenant_id, url, events, secret)
         VALUES (gen_random_uuid(), $1, 'u', '{e}', sha256(''))",
        "UPDATE sessions SET tenant_id = $1",
        "UPDATE webhooks SET tenant_id = $1",
        "INSERT INTO agents (tenant_id, name, version) VALUES ($1, 'b', 1)",
        "INSERT INTO agent_versions (tenant_id, name, version, profile)
         VALUES ($1, 'a', 2, '{}')",
        "UPDATE runs SET tenant_id = $1",
    ] {
        let done = sqlx::query(statement).bind(other).execute(&mut conn).await;
        let message = done.unwrap_err().as_database_error().unwrap().message().to_owned();
        assert!(message.starts_with("new row violates row-level security policy"), "{message}");
    }
    for statement in [
        "UPDATE sessions SET title = 'taken' WHERE tenant_id = $1",
        "UPDATE budgets SET tokens = 0 WHERE tenant_id = $1",
        "DELETE FROM sessions WHERE tenant_id = $1",
        "DELETE FROM webhooks WHERE tenant_id = $1",
        "DELETE FROM agents WHERE tenant_id = $1",
    ] {
        let done = sqlx::query(statement).bind(other).execute(&mut conn).await.unwrap();
        assert_eq!(done.rows_affected(), 0, "{statement}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_for_requests_have_only_the_privileges_they_need() {
    let shared = TwoTenants::new().await;
    let mut conn = shared.api_for(shared.one).await;
    for statement in [
        "INSERT INTO tenants (id, name) VALUES (gen_random_uuid(), 'mine')",
        "UPDATE tenants SET name = 'mine'",
        "UPDATE budgets SET max_tokens = 1000000",
        "UPDATE quotas SET max = 1000000",
        "DELETE FROM quotas",
        "DELETE FROM budgets",
        "SELECT secret_hash FROM api_keys",
        "DELETE FROM messages",
        "UPDATE events SET body = '{}'",
        "DELETE FROM courses",
        "UPDATE agent_versions SET profile = '{}'",
        "DELETE FROM agent_versions",
        "TRUNCATE webhooks",
        "ALTER TABLE sessions DISABLE ROW LEVEL SECURITY",
        "DROP POLICY of_tenant ON sessions",
        "CREATE TABLE mine (id int)",
    ] {
        let refused = conn.execute(statement).await.map_err(code);
        assert_eq!(refused.map(|_| ()), Err(NOT_ALLOWED.to_owned()), "{statement}");
    }
}
