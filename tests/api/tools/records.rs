//! `search_records`, which searches a table of the operator.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use sqlx::postgres::PgConnectOptions;
use sqlx::raw_sql;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};
use twostep::tools::builtin::{Options, Records};

use crate::support::machine::HUNG;
use crate::support::{
    Setup, TestApp, TestDatabase, binary, calls, database, outcome, replies, says,
};

const TABLES: &str = r#"
    CREATE SCHEMA shop;
    CREATE TABLE shop."Odd ""names""" (id int, "full name" text, note text);
    INSERT INTO shop."Odd ""names""" VALUES
        (1, 'Ada Lovelace', '100% sure'), (2, 'Grace Hopper', '100 times'), (3, 'Ada Yonath', NULL);
    CREATE VIEW shop.slow AS SELECT id, pg_sleep(60)::text AS nap FROM shop."Odd ""names""";
"#;
const PEOPLE: &str = r#"shop."Odd ""names""""#;

/// A role that may read everything and write nothing.
fn reader(database: &TestDatabase) -> PgConnectOptions {
    database.options().options([("role", "pg_read_all_data")])
}

async fn tables() -> TestDatabase {
    let database = database().await;
    raw_sql(TABLES).execute(&database.pool(1)).await.unwrap();
    database
}

async fn start(script: Value, table: &str, columns: Option<&[&str]>) -> TestApp {
    let database = tables().await;
    let columns = columns.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
    let records = Records::new(reader(&database), table.to_owned(), columns);
    let options = Options { records: Some(Arc::new(records)), ..Options::default() };
    let setup = Setup { options, ..Setup::default() };
    // Boxed, because it is large.
    Box::pin(TestApp::on(script, setup, database, TempDir::new().unwrap())).await
}

/// The results of these queries, one query per round.
async fn search_results(queries: &[Value], columns: Option<&[&str]>) -> Vec<Value> {
    let mut script: Vec<Value> =
        queries.iter().map(|query| calls("search_records", query.clone())).collect();
    script.push(says("Found."));
    let app = start(replies(&script), PEOPLE, columns).await;
    let session = app.session().await;
    assert_eq!(session.ask("Search").await["output_text"], "Found.");
    let history = session.history().await;
    let results = history.iter().skip(2).step_by(2);
    results.map(|item| item["message"]["content"][0]["content"].clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_matches_all_words_in_any_columns_and_special_characters_are_literal() {
    let ada = r#"{"id":1,"full name":"Ada Lovelace","note":"100% sure"}"#;
    let queries = ["lovelace ADA", "100%", "_da", r"\", "'; DROP TABLE x; --"];
    let queries = queries.map(|query| json!({ "query": query }));
    let nothing = json!(r#"{"records":[],"more":false}"#);
    let one = json!(format!(r#"{{"records":[{ada}],"more":false}}"#));
    assert_eq!(
        search_results(&queries, None).await,
        [&one, &one, &nothing, &nothing, &nothing].map(Value::clone)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_reaches_the_limit_says_that_there_are_more_records() {
    let queries = [json!({ "query": "ada", "limit": 1 })];
    let expected = r#"{"records":[{"full name":"Ada Lovelace"}],"more":true}"#;
    assert_eq!(search_results(&queries, Some(&["full name"])).await, [json!(expected)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_that_are_not_configured_are_neither_searched_nor_returned() {
    let queries = [json!({ "query": "sure" })];
    let expected = r#"{"records":[],"more":false}"#;
    assert_eq!(search_results(&queries, Some(&["id", "full name"])).await, [json!(expected)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_a_run_cancels_its_query_in_the_database() {
    let script = replies(&[calls("search_records", json!({ "query": "1" })), says("unused")]);
    let app = start(script, "shop.slow", None).await;
    let pool = app.database.pool(1);
    let wait_for_searches = async |expected: usize| {
        let deadline = Instant::now() + HUNG;
        let query = "SELECT pid FROM pg_stat_activity
                     WHERE datname = current_database() AND query LIKE '%FROM shop.slow%'
                       AND state = 'active' AND pid <> pg_backend_pid()
                     ORDER BY query_start";
        loop {
            let found: Vec<i32> = sqlx::query_scalar(query).fetch_all(&pool).await.unwrap();
            if found.len() == expected {
                return found;
            }
            assert!(Instant::now() < deadline, "{} searches run, not {expected}", found.len());
            sleep(Duration::from_millis(20)).await;
        }
    };
    let [first, second] = [app.session().await, app.session().await];
    let first_run = first.post(json!({ "content": "Search" })).await;
    let earlier = wait_for_searches(1).await;
    let run = second.post(json!({ "content": "Search too" })).await;
    wait_for_searches(2).await;
    second.cancel(&run).await;
    assert_eq!(second.settled(&run).await["status"], "cancelled");
    // The database would end both searches after the same time, and the earlier one first.
    assert_eq!(wait_for_searches(1).await, earlier);
    first.cancel(&first_run).await;
    first.settled(&first_run).await;
}

/// The error of a check that refuses this table.
async fn refusal(role: PgConnectOptions, table: &str, columns: Option<Vec<String>>) -> String {
    let records = Records::new(role, table.to_owned(), columns);
    records.check().await.unwrap_err().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writable_or_missing_table_and_an_unreadable_column_are_refused() {
    let database = tables().await;
    let writer = database.options();
    let role = writer.get_username().to_owned();
    let expected =
        format!("role {role} may write table {PEOPLE}; use a role that may only read it");
    assert_eq!(refusal(writer, PEOPLE, None).await, expected);
    let expected = "table shop.nowhere does not exist";
    assert_eq!(refusal(reader(&database), "shop.nowhere", None).await, expected);
    let columns = Some(vec!["id".to_owned(), "secret".to_owned()]);
    let expected = format!("table {PEOPLE} has no column secret that the role may read");
    assert_eq!(refusal(reader(&database), PEOPLE, columns).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_whose_role_may_write_the_table_does_not_start() {
    let database = tables().await;
    let arguments = ["serve", "--offline", "--bind", "127.0.0.1:0", "--records-table", PEOPLE];
    let mut command = binary(&arguments);
    command.env("DATABASE_URL", database.url()).env("TWOSTEP_RECORDS_URL", database.url());
    command.env("TWOSTEP_DATA_DIR", TempDir::new().unwrap().path());
    let (status, _, stderr) = outcome(command).await;
    assert_eq!(status, Some(1), "{stderr}");
    assert!(stderr.contains("the table of records cannot be searched: role "), "{stderr}");
}
