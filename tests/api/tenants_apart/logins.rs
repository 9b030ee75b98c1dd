//! The user who logs in: the owner of everything, and no superuser.

use std::path::PathBuf;

use serde_json::{Value, json};
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Executor as _, PgConnection};
use tempfile::TempDir;
use twostep::app::bring_up_to_date;
use twostep::domain::ids::TenantId;
use twostep::store::embedded::{Durability, EmbeddedPostgres, Options};

use super::{code, fill, owners};
use crate::support::{
    Setup, TestApp, TestDatabase, binary, data_dir, database, outcome, replies, says,
};

/// A plain user whose database is empty.
struct Owner {
    name: String,
    database: TestDatabase,
}

impl Owner {
    async fn new() -> Self {
        let database = database().await;
        let name = format!("owner of {}", database.options().get_database().unwrap());
        execute(&database, format!("CREATE ROLE {name:?} LOGIN NOSUPERUSER NOCREATEROLE")).await;
        execute(&database, "DROP SCHEMA public CASCADE".to_owned()).await;
        execute(&database, format!("CREATE SCHEMA public AUTHORIZATION {name:?}")).await;
        Self { name, database }
    }

    fn options(&self) -> PgConnectOptions {
        self.database.options().username(&self.name)
    }

    async fn connect(&self) -> PgConnection {
        self.options().connect().await.unwrap()
    }

    /// What an administrator does for it.
    async fn allow(&self) {
        let grant = format!("GRANT twostep_tenant, twostep_service TO {:?}", self.name);
        execute(&self.database, grant).await;
    }
}

/// Runs a statement as the administrator.
async fn execute(database: &TestDatabase, statement: String) {
    database.pool(1).execute(AssertSqlSafe(statement)).await.unwrap();
}

#[tokio::test]
async fn a_user_who_may_not_make_the_roles_is_told_what_an_administrator_has_to_do() {
    let owner = Owner::new().await;
    let needed = format!(
        "an administrator has to run, as far as it is not done: CREATE ROLE twostep_tenant NOLOGIN; \
         CREATE ROLE twostep_service NOLOGIN; GRANT twostep_tenant, twostep_service TO {:?};",
        owner.name
    );
    let error = format!("{:#}", bring_up_to_date(&owner.options()).await.unwrap_err());
    let why = "the database schema cannot be brought up to date: while executing migration 19: ";
    assert!(error.starts_with(why) && error.ends_with(&needed), "{error}");
    owner.allow().await;
    bring_up_to_date(&owner.options()).await.unwrap();
    // Somebody else has brought the schema up to date.
    execute(&owner.database, format!("REVOKE twostep_tenant FROM {:?}", owner.name)).await;
    let error = format!("{:#}", bring_up_to_date(&owner.options()).await.unwrap_err());
    assert!(error.starts_with("the database user ") && error.ends_with(&needed), "{error}");
    owner.allow().await;
    bring_up_to_date(&owner.options()).await.unwrap();
}

#[tokio::test]
async fn a_service_works_on_the_database_of_a_plain_user() {
    let owner = Owner::new().await;
    owner.allow().await;
    let setup = Setup { database: Some(owner.options()), ..Setup::default() };
    bring_up_to_date(&owner.options()).await.unwrap();
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
    app.finish().await;
}

/// A program of the version before works as the user who logs in; so does a backup.
#[tokio::test]
async fn the_user_who_logs_in_sees_all_and_a_dump_without_row_security_is_refused() {
    let owner = Owner::new().await;
    owner.allow().await;
    bring_up_to_date(&owner.options()).await.unwrap();
    let tenants = [TenantId::new(), TenantId::new()];
    for tenant in tenants {
        fill(&owner.database.pool(1), tenant).await;
    }
    let mut login = owner.connect().await;
    assert_eq!(owners(&mut login, "sessions", "tenant_id").await, Ok(tenants.into()));
    login.execute("SET row_security = off").await.unwrap();
    let refused = owners(&mut login, "sessions", "tenant_id").await;
    assert_eq!(refused, Err("42501".to_owned()));
}

#[tokio::test]
async fn commands_work_beside_a_service_as_a_plain_user() {
    let owner = Owner::new().await;
    owner.allow().await;
    bring_up_to_date(&owner.options()).await.unwrap();
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

/// Roles belong to all databases of a server, and many of them may be new at the same time.
#[tokio::test]
async fn databases_of_a_new_server_are_brought_up_to_date_at_the_same_time() {
    let folder = data_dir();
    let options = Options {
        data_dir: folder.path().join("data"),
        bin_dir: std::env::var_os("PG_BIN_DIR").map(PathBuf::from),
        search_path: std::env::var_os("PATH"),
        durability: Durability::Throwaway,
    };
    let server = EmbeddedPostgres::start(&options).await.unwrap();
    let mut admin = server.connect_options().connect().await.unwrap();
    // Who may make roles, and nothing else.
    admin.execute("CREATE ROLE builder LOGIN NOSUPERUSER CREATEROLE").await.unwrap();
    let databases: Vec<PgConnectOptions> = (0..6)
        .map(|n| server.connect_options().username("builder").database(&format!("new_{n}")))
        .collect();
    for options in &databases {
        let name = options.get_database().unwrap();
        let create = AssertSqlSafe(format!("CREATE DATABASE {name} OWNER builder"));
        admin.execute(create).await.unwrap();
    }
    let done = databases.iter().map(bring_up_to_date);
    for done in futures::future::join_all(done).await {
        done.unwrap();
    }
    let mut conn = databases[5].connect().await.unwrap();
    conn.execute("SET ROLE twostep_tenant").await.unwrap();
    let found = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM tenants").fetch_one(&mut conn);
    assert_eq!(found.await.map_err(code), Ok(0));
    drop((conn, admin));
    server.stop().await.unwrap();
}
