//! Databases without the grants of the migrations, and servers that hide their identifier.

use serde_json::{Value, json};
use sqlx::{Executor as _, PgPool};
use tempfile::TempDir;
use tokio::time::{Duration, Instant, sleep};
use twostep::app::bring_up_to_date;
use twostep::store::folders::database_id;
use twostep::store::{PoolRole, pool};

use super::database_users::{Owner, execute};
use crate::support::{Setup, TestApp, binary, database, outcome, replies, says};

/// The privileges of the two roles.
async fn grants(pool: &PgPool) -> Vec<String> {
    let grants = "
        SELECT format('%s: %s to %s', name, privilege_type, rolname) FROM (
            SELECT relname::text AS name, (aclexplode(relacl)).* FROM pg_class
            WHERE relnamespace = 'public'::regnamespace
            UNION ALL
            SELECT attrelid::regclass || '.' || attname, (aclexplode(attacl)).* FROM pg_attribute
            UNION ALL
            SELECT oid::regprocedure::text, (aclexplode(proacl)).* FROM pg_proc
            WHERE pronamespace = 'public'::regnamespace
            UNION ALL
            SELECT nspname, (aclexplode(nspacl)).* FROM pg_namespace WHERE nspname = 'public'
        ) AS granted JOIN pg_roles ON pg_roles.oid = grantee
        WHERE rolname LIKE 'twostep\\_%' ORDER BY 1";
    sqlx::query_scalar(grants).fetch_all(pool).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_names_the_grants_that_a_restore_left_out_and_migrate_adds_them() {
    let owner = Owner::new().await;
    owner.grant_roles().await;
    bring_up_to_date(owner.options()).await.unwrap();
    let folder = TempDir::new().unwrap();
    let dump = folder.path().join("dump.sql");
    let dump = dump.to_str().unwrap();
    let args = ["--enable-row-security", "--no-privileges", "-f", dump];
    owner.run("pg_dump", &owner.database, &args).await;
    let restored = database().await;
    owner.empty_and_own(&restored).await;
    owner.run("psql", &restored, &["-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", dump]).await;
    // A restored function can be executed by every user.
    let close = "REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA public FROM PUBLIC";
    execute(&restored, close.to_owned()).await;
    assert_eq!(grants(&restored.pool(1)).await, Vec::<String>::new());

    let restored_options = restored.options().username(&owner.name).password("own");
    let refused = bring_up_to_date(restored_options.clone()).await.unwrap_err().to_string();
    let why = "roles twostep_tenant and twostep_service lack privileges that the service needs, as \
               after a restore without privileges; run `twostep migrate`, or as the owner of the \
               tables: GRANT ";
    assert!(refused.starts_with(why), "{refused}");
    let one = "GRANT INSERT, SELECT ON agent_versions, events, messages TO twostep_tenant;";
    assert!(refused.contains(one), "{refused}");

    let migrate = async || {
        let mut command = binary(&["migrate"]);
        command.env("DATABASE_URL", sqlx::ConnectOptions::to_url_lossy(&restored_options).as_str());
        let (status, stdout, errors) = outcome(command).await;
        assert_eq!(status, Some(0), "{errors}");
        stdout
    };
    assert!(migrate().await.contains(&format!("granted: {one}\n")));
    assert_eq!(grants(&restored.pool(1)).await, grants(&owner.database.pool(1)).await);
    assert!(!migrate().await.contains("missing"));
    bring_up_to_date(restored_options).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_names_a_revoked_grant() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let pool = app.database.pool(1);
    let schema = async |is: Value| {
        let deadline = Instant::now() + Duration::from_mins(1);
        loop {
            let found = app.get("/readyz").send().await.unwrap();
            let found: Value = found.json().await.unwrap();
            if found["checks"]["schema"] == is {
                return found["is_ready"].clone();
            }
            assert!(Instant::now() < deadline, "{found}");
            sleep(Duration::from_millis(50)).await;
        }
    };
    let ok = || json!({ "status": "ok", "detail": "matches this version" });
    for (revoke, grant) in [
        (
            "REVOKE UPDATE (cost) ON budgets FROM twostep_tenant",
            "UPDATE (day, tokens, cost) ON budgets TO twostep_tenant",
        ),
        (
            "REVOKE SELECT ON _sqlx_migrations FROM twostep_service",
            "SELECT ON _sqlx_migrations TO twostep_service",
        ),
    ] {
        pool.execute(revoke).await.unwrap();
        let detail = format!("missing grants, `twostep migrate` adds them: GRANT {grant};");
        assert_eq!(schema(json!({ "status": "failed", "detail": detail })).await, false);
        pool.execute(sqlx::AssertSqlSafe(format!("GRANT {grant}"))).await.unwrap();
        assert_eq!(schema(ok()).await, true);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_has_an_id_even_if_the_server_hides_its_identifier() {
    let owner = Owner::new().await;
    owner.grant_roles().await;
    let ask = "EXECUTE ON FUNCTION pg_control_system()";
    execute(&owner.database, format!("REVOKE {ask} FROM PUBLIC")).await;
    let options = bring_up_to_date(owner.options()).await.unwrap();
    let ids = async || {
        let mut ids = Vec::new();
        for role in [PoolRole::Api, PoolRole::Worker] {
            let mut conn = pool(&options, role).acquire().await.unwrap();
            ids.push(database_id(&mut conn).await.unwrap());
        }
        assert_eq!(ids[0], ids[1]);
        ids.remove(0)
    };
    let facts = "SELECT oid::text, (SELECT system_identifier::text FROM pg_control_system())
                 FROM pg_database WHERE datname = current_database()";
    let (oid, server): (String, String) =
        sqlx::query_as(facts).fetch_one(&owner.database.pool(1)).await.unwrap();
    let unnamed = ids().await;
    let (made, end) = unnamed.split_once('/').unwrap();
    assert!(made.parse::<uuid::Uuid>().is_ok() && end == oid, "{unnamed}");
    execute(&owner.database, format!("GRANT {ask} TO PUBLIC")).await;
    assert_eq!(ids().await, format!("{server}/{oid}"));

    execute(&owner.database, format!("REVOKE {ask} FROM PUBLIC")).await;
    let setup = Setup { database: Some(options), own_folders: true, ..Setup::default() };
    let script = replies(&[says("Hello.")]);
    let app = TestApp::on(script, setup, owner.database, TempDir::new().unwrap()).await;
    let session = app.session().await;
    session.ask("Good morning").await;
    let deleted = app.client.delete(app.url(&session.path(""))).send().await.unwrap();
    assert_eq!(deleted.status(), 204);
}
