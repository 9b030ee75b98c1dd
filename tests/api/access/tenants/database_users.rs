//! The database user of the service: the owner of the tables, not a superuser.

use std::path::PathBuf;

use futures::future::join_all;
use private_postgres::{Durability, Options, PrivatePostgres};
use serde_json::{Value, json};
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Executor as _, PgConnection};
use tempfile::TempDir;
use tokio::process::Command;
use twostep::app::bring_up_to_date;
use twostep::domain::ids::TenantId;

use super::policies::unprotected_tables;
use super::{fill, owners, tables};
use crate::support::{
    Setup, TestApp, TestDatabase, binary, data_dir, database, outcome, replies, says,
};

/// An unprivileged user with an empty database.
pub(super) struct Owner {
    pub(super) name: String,
    pub(super) database: TestDatabase,
}

impl Owner {
    pub(super) async fn new() -> Self {
        let database = database().await;
        let name = format!("owner of {}", database.options().get_database().unwrap());
        let create = format!("CREATE ROLE {name:?} LOGIN NOSUPERUSER NOCREATEROLE PASSWORD 'own'");
        execute(&database, create).await;
        let owner = Self { name, database };
        owner.empty_and_own(&owner.database).await;
        owner
    }

    /// Empties a database and makes this user the owner of its schema.
    pub(super) async fn empty_and_own(&self, database: &TestDatabase) {
        execute(database, "DROP SCHEMA public CASCADE".to_owned()).await;
        execute(database, format!("CREATE SCHEMA public AUTHORIZATION {:?}", self.name)).await;
    }

    pub(super) fn options(&self) -> PgConnectOptions {
        self.database.options().username(&self.name).password("own")
    }

    async fn connect(&self) -> PgConnection {
        self.options().connect().await.unwrap()
    }

    /// Grants the roles of the service to this user, as the administrator.
    pub(super) async fn grant_roles(&self) {
        let grant = format!("GRANT twostep_tenant, twostep_service TO {:?}", self.name);
        execute(&self.database, grant).await;
    }
}

impl Owner {
    /// Runs a client program of Postgres on a database of this user.
    pub(super) async fn run(
        &self,
        program: &str,
        database: &TestDatabase,
        args: &[&str],
    ) -> String {
        let folder = std::env::var_os("PG_BIN_DIR").map(PathBuf::from).unwrap_or_default();
        let options = database.options();
        let host = options.get_socket().map_or(options.get_host(), |path| path.to_str().unwrap());
        let mut command = Command::new(folder.join(program));
        command.args(["-h", host, "-p", &options.get_port().to_string(), "-U", &self.name]);
        command.args(["-d", options.get_database().unwrap()]).args(args).env("PGPASSWORD", "own");
        let (status, output, errors) = outcome(command).await;
        assert_eq!((status, &*errors), (Some(0), ""), "{program}");
        output
    }
}

/// Runs a statement as the administrator.
pub(super) async fn execute(database: &TestDatabase, statement: String) {
    database.pool(1).execute(AssertSqlSafe(statement)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_cannot_create_the_roles_gets_the_statements_for_an_administrator() {
    let owner = Owner::new().await;
    let needed = format!(
        "an administrator has to run, as far as it is not done: CREATE ROLE twostep_tenant NOLOGIN; \
         CREATE ROLE twostep_service NOLOGIN; GRANT twostep_tenant, twostep_service TO {:?};",
        owner.name
    );
    let error = format!("{:#}", bring_up_to_date(owner.options()).await.unwrap_err());
    let why = "the migration 19 of the database schema failed: the database user ";
    assert!(error.starts_with(why) && error.ends_with(&needed), "{error}");
    owner.grant_roles().await;
    bring_up_to_date(owner.options()).await.unwrap();
    // The schema is up to date, but the user has lost a role.
    execute(&owner.database, format!("REVOKE twostep_tenant FROM {:?}", owner.name)).await;
    let error = format!("{:#}", bring_up_to_date(owner.options()).await.unwrap_err());
    assert!(error.starts_with("database user ") && error.ends_with(&needed), "{error}");
    owner.grant_roles().await;
    bring_up_to_date(owner.options()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_works_as_an_unprivileged_user() {
    let owner = Owner::new().await;
    owner.grant_roles().await;
    let setup = Setup { database: Some(owner.options()), ..Setup::default() };
    bring_up_to_date(owner.options()).await.unwrap();
    let script = replies(&[says("Hello.")]);
    let mut login = owner.connect().await;
    let app = TestApp::on(script, setup, owner.database, TempDir::new().unwrap()).await;
    let session = app.session_with(json!({ "title": "plain", "metadata": { "team": "x" } })).await;
    assert_eq!(session.ask("Good morning").await["output_text"], "Hello.");
    for query in ["", "q=plain", "q=morning", "metadata[team]=x"] {
        let path = format!("/v1/sessions?{query}");
        let page: Value = app.get(&path).send().await.unwrap().json().await.unwrap();
        assert_eq!(page["data"][0]["id"], session.id.as_str(), "{query}");
    }
    let fork = app.post(&session.path("/forks")).json(&json!({})).send().await.unwrap();
    assert_eq!(fork.status(), 201);
    let fork: Value = fork.json().await.unwrap();
    let url = app.url(&format!("/v1/sessions/{}", fork["id"].as_str().unwrap()));
    assert_eq!(app.client.delete(url).send().await.unwrap().status(), 204);
    let mine = owners(&mut login, "sessions", "tenant_id").await;
    assert_eq!(mine, Ok([TenantId::DEFAULT].into()));
}

/// The search path begins with the name of the role that a connection works as.
#[tokio::test(flavor = "multi_thread")]
async fn tables_in_a_schema_with_the_name_of_the_user_are_found_by_all_roles() {
    let owner = Owner::new().await;
    owner.grant_roles().await;
    execute(&owner.database, format!("CREATE SCHEMA AUTHORIZATION {:?}", owner.name)).await;
    let setup = Setup { database: Some(owner.options()), ..Setup::default() };
    let url = owner.options().to_url_lossy();
    let script = replies(&[says("Hello.")]);
    let app = TestApp::on(script, setup, owner.database, TempDir::new().unwrap()).await;
    assert_eq!(app.session().await.ask("Good morning").await["output_text"], "Hello.");
    let mut command = binary(&["keys", "create", "laptop"]);
    command.env("DATABASE_URL", url.as_str());
    let (status, _, errors) = outcome(command).await;
    assert_eq!(status, Some(0), "{errors}");
    // The final check does not find the tables in the schema of this user.
    app.stop_unchecked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_with_the_roles_for_another_database_cannot_connect_to_this_one() {
    let (owner, other) = (Owner::new().await, Owner::new().await);
    for user in [&owner, &other] {
        let options = user.database.options();
        let own = options.get_database().unwrap();
        execute(&user.database, format!("ALTER DATABASE {own:?} OWNER TO {:?}", user.name)).await;
        user.grant_roles().await;
        bring_up_to_date(user.options()).await.unwrap();
    }
    let options = owner.database.options().username(&other.name).password("own");
    let refused = options.connect().await.unwrap_err().to_string();
    assert!(refused.contains("permission denied for database"), "{refused}");
    drop(other.connect().await);
}

/// The number of rows of each table.
async fn counts(database: &TestDatabase) -> Vec<(String, i64)> {
    let pool = database.pool(1);
    let mut counts = Vec::new();
    for (table, _) in tables(database).await {
        let count = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        counts.push((table, sqlx::query_scalar(count).fetch_one(&pool).await.unwrap()));
    }
    counts
}

/// The previous version of the program works as the owner too, and needs the rows of all tenants.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_by_the_owner_has_the_rows_of_all_tenants_and_is_restored_with_the_policies() {
    let owner = Owner::new().await;
    owner.grant_roles().await;
    bring_up_to_date(owner.options()).await.unwrap();
    for _ in 0..2 {
        fill(&owner.database.pool(1), TenantId::new()).await;
    }
    let folder = TempDir::new().unwrap();
    let dump = folder.path().join("dump.sql");
    let dump = dump.to_str().unwrap();
    owner.run("pg_dump", &owner.database, &["--enable-row-security", "-f", dump]).await;
    let restored = database().await;
    owner.empty_and_own(&restored).await;
    owner.run("psql", &restored, &["-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", dump]).await;
    assert_eq!(counts(&restored).await, counts(&owner.database).await);
    assert_eq!(unprotected_tables(&restored.pool(1)).await, Vec::<String>::new());
    bring_up_to_date(restored.options().username(&owner.name).password("own")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_work_as_an_unprivileged_user() {
    let owner = Owner::new().await;
    owner.grant_roles().await;
    bring_up_to_date(owner.options()).await.unwrap();
    let run = async |args: &[&str]| {
        let mut command = binary(args);
        command.env("DATABASE_URL", owner.options().to_url_lossy().as_str());
        outcome(command).await
    };
    for args in [
        &["migrate"][..],
        &["keys", "create", "laptop", "--new-tenant", "acme"],
        &["keys", "list"],
        &["budget", "set", "total", "--tokens", "1000", "--tenant", "acme"],
        &["verify"],
    ] {
        let (status, _, errors) = run(args).await;
        assert_eq!(status, Some(0), "{args:?}: {errors}");
    }
}

/// A separate server, because the databases of a server share its roles.
struct NewServer {
    server: PrivatePostgres,
    admin: PgConnection,
    _folder: TempDir,
}

impl NewServer {
    async fn start() -> Self {
        let folder = data_dir();
        let options = Options {
            data_dir: folder.path().join("data"),
            bin_dir: std::env::var_os("PG_BIN_DIR").map(PathBuf::from),
            search_path: std::env::var_os("PATH"),
            durability: Durability::Throwaway,
        };
        let server = PrivatePostgres::start(&options).await.unwrap();
        let mut admin = server.connect_options().connect().await.unwrap();
        // A user who can create roles and has no other privilege.
        admin.execute("CREATE ROLE builder LOGIN NOSUPERUSER CREATEROLE").await.unwrap();
        Self { server, admin, _folder: folder }
    }

    /// A new database of the user `builder`.
    async fn database(&mut self, name: &str) -> PgConnectOptions {
        let create = AssertSqlSafe(format!("CREATE DATABASE {name} OWNER builder"));
        self.admin.execute(create).await.unwrap();
        self.server.connect_options().username("builder").database(name)
    }

    async fn stop(self) {
        drop(self.admin);
        self.server.stop().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn databases_of_a_new_server_can_be_migrated_at_the_same_time() {
    let mut server = NewServer::start().await;
    let mut databases = Vec::new();
    for name in ["one", "two", "three", "four", "five", "six"] {
        databases.push(server.database(name).await);
    }
    for done in join_all(databases.iter().cloned().map(bring_up_to_date)).await {
        done.unwrap();
    }
    let mut conn = databases[5].connect().await.unwrap();
    conn.execute("SET ROLE twostep_tenant").await.unwrap();
    assert_eq!(owners(&mut conn, "tenants", "id").await, Ok([].into()));
    drop(conn);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_does_not_start_when_a_role_bypasses_the_policies() {
    let mut server = NewServer::start().await;
    let database = server.database("one").await;
    bring_up_to_date(database.clone()).await.unwrap();
    for (breach, repair) in [
        ("ALTER ROLE twostep_tenant BYPASSRLS", "ALTER ROLE twostep_tenant NOBYPASSRLS"),
        ("ALTER ROLE twostep_tenant SUPERUSER", "ALTER ROLE twostep_tenant NOSUPERUSER"),
        ("GRANT twostep_service TO twostep_tenant", "REVOKE twostep_service FROM twostep_tenant"),
    ] {
        server.admin.execute(breach).await.unwrap();
        let error = bring_up_to_date(database.clone()).await.unwrap_err().to_string();
        assert!(error.starts_with("role twostep_tenant is a superuser, has "), "{error}");
        server.admin.execute(repair).await.unwrap();
        bring_up_to_date(database.clone()).await.unwrap();
    }
    server.stop().await;
}
