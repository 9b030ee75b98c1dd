//! The row-level security of every table, and the privileges of views, functions and roles.

use sqlx::{Executor as _, PgPool};

use crate::support::database;

/// Tables whose rows belong to no tenant.
const WITHOUT_TENANT: &[&str] = &["_sqlx_migrations", "schema_compatibility", "write_probe"];

/// The tables without the policies that separate tenants.
pub(super) async fn unprotected_tables(pool: &PgPool) -> Vec<String> {
    let tables = r#"
        SELECT relname::text FROM pg_class c
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'm', 'f')
          AND NOT (relname = ANY ($1))
          AND NOT (relrowsecurity AND relforcerowsecurity AND ARRAY(
              SELECT row (policyname, permissive, roles, cmd, qual, with_check)::text
              FROM pg_policies WHERE schemaname = 'public' AND tablename = relname
              ORDER BY policyname
          ) = ARRAY[
              row ('of_service', 'PERMISSIVE', '{twostep_service}'::name[], 'ALL', 'true', NULL)::text,
              row ('of_tenant', 'PERMISSIVE', '{twostep_tenant}'::name[], 'ALL', format(
                  '%1$sCASE%1$s    WHEN '
                  '(%2$s = ( SELECT (NULLIF(current_setting(''twostep.tenant''::text, true), '
                  '''''::text))::uuid AS "nullif")) '
                  'THEN true%1$s    ELSE false%1$sEND',
                  chr(10), CASE relname WHEN 'tenants' THEN 'id' ELSE 'tenant_id' END), NULL)::text])
        ORDER BY 1"#;
    sqlx::query_scalar(tables).bind(WITHOUT_TENANT).fetch_all(pool).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_table_separates_tenants_and_a_new_one_has_to() {
    let database = database().await;
    let pool = database.pool(1);
    assert_eq!(unprotected_tables(&pool).await, Vec::<String>::new());
    pool.execute("CREATE TABLE newest (tenant_id uuid NOT NULL)").await.unwrap();
    assert_eq!(unprotected_tables(&pool).await, ["newest"]);
    pool.execute("SELECT keep_tenants_apart('newest')").await.unwrap();
    assert_eq!(unprotected_tables(&pool).await, Vec::<String>::new());
    pool.execute("ALTER TABLE newest NO FORCE ROW LEVEL SECURITY").await.unwrap();
    pool.execute("CREATE POLICY wide ON sessions TO twostep_tenant USING (true)").await.unwrap();
    assert_eq!(unprotected_tables(&pool).await, ["newest", "sessions"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn views_and_all_functions_but_four_have_the_privileges_of_the_caller() {
    let database = database().await;
    let pool = database.pool(1);
    let views = "SELECT relname::text, reloptions FROM pg_class
                 WHERE relnamespace = 'public'::regnamespace AND relkind = 'v'
                 ORDER BY 1";
    let views: Vec<(String, Vec<String>)> = sqlx::query_as(views).fetch_all(&pool).await.unwrap();
    let expected = ["history", "run_queue"]
        .map(|name| (name.to_owned(), vec!["security_invoker=true".to_owned()]));
    assert_eq!(views, expected);
    let functions =
        "SELECT proname::text, proconfig[1], has_function_privilege('public', oid, 'EXECUTE')
                     FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prosecdef
                     ORDER BY 1";
    let functions: Vec<(String, String, bool)> =
        sqlx::query_as(functions).fetch_all(&pool).await.unwrap();
    let expected = [
        "database_identity",
        "delete_rows_of_sessions",
        "sessions_with_terms",
        "sessions_with_words",
    ]
    .map(|name| (name.to_owned(), "search_path=public, pg_temp".to_owned(), false));
    assert_eq!(functions, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_roles_own_nothing_bypass_nothing_and_are_members_of_no_role() {
    let database = database().await;
    let pool = database.pool(1);
    let roles = "SELECT rolname::text, rolsuper OR rolbypassrls OR rolcanlogin OR rolcreaterole
                        OR rolcreatedb,
                        (SELECT count(*) FROM pg_auth_members WHERE member = r.oid),
                        (SELECT count(*) FROM pg_class WHERE relowner = r.oid)
                 FROM pg_roles r WHERE rolname LIKE 'twostep\\_%' ORDER BY 1";
    let roles: Vec<(String, bool, i64, i64)> =
        sqlx::query_as(roles).fetch_all(&pool).await.unwrap();
    let expected = ["twostep_service", "twostep_tenant"];
    assert_eq!(roles, expected.map(|name| (name.to_owned(), false, 0, 0)));
}
