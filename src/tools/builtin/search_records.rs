//! `search_records`: searches a table that the operator configures.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, PgConnection};
use tokio::sync::{OnceCell, Semaphore};

use crate::domain::tool::{ToolClass, ToolTiming};
use crate::store::ErrorClass;
use crate::store::records::{BadTable, FoundRecords, Table, describe, search};
use crate::tools::error::ToolError;
use crate::tools::output::Output;
use crate::tools::tool::ToolContext;
use crate::tools::typed::TypedTool;

/// The maximum number of concurrent searches. The database also serves other clients.
const SEARCHES: usize = 4;
/// The maximum size of the records in a result, in bytes.
const MAX_BYTES: usize = 64 * 1024;
/// The maximum number of words in a query. Each word adds a condition on every row.
const MAX_WORDS: usize = 16;

/// A table to search, with its database.
#[derive(Debug)]
pub struct Records {
    database: PgConnectOptions,
    table: String,
    columns: Option<Vec<String>>,
    described: OnceCell<Table>,
    permits: Semaphore,
}

impl Records {
    /// Creates a search of a table. Without `columns` it covers all columns that the role may read.
    pub fn new(database: PgConnectOptions, table: String, columns: Option<Vec<String>>) -> Self {
        let (described, permits) = (OnceCell::new(), Semaphore::new(SEARCHES));
        Self { database, table, columns, described, permits }
    }

    /// Verifies that the table can be searched. Without this check the first call reports the
    /// error.
    pub async fn check(&self) -> Result<(), BadTable> {
        let mut conn = self.database.connect().await?;
        self.table(&mut conn).await?;
        conn.close().await?;
        Ok(())
    }

    async fn table(&self, conn: &mut PgConnection) -> Result<&Table, BadTable> {
        let described = describe(conn, &self.table, self.columns.as_deref());
        self.described.get_or_try_init(|| described).await
    }

    /// Searches on a new connection. If the search is dropped, the connection closes, which ends
    /// the query.
    async fn find(&self, words: &[&str], limit: u8) -> Result<FoundRecords, BadTable> {
        let _permit = self.permits.acquire().await;
        let mut conn = self.database.connect().await?;
        let table = self.table(&mut conn).await?;
        let found = search(&mut conn, table, words, limit, MAX_BYTES).await?;
        conn.close().await?;
        Ok(found)
    }
}

#[derive(Debug)]
pub(super) struct SearchRecords(pub(super) Arc<Records>);

/// A search of records.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchRecordsInput {
    /// Words that a record must contain, all of them, in any of its columns. Upper and lower case
    /// are equal.
    query: String,
    /// The maximum number of records to return.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 100))]
    limit: u8,
}

fn ten() -> u8 {
    10
}

#[derive(Serialize)]
struct SearchRecordsOutput<'a> {
    records: Vec<&'a RawValue>,
    /// If set, more records match.
    more: bool,
}

impl TypedTool for SearchRecords {
    const NAME: &'static str = "search_records";
    const DESCRIPTION: &'static str = "Searches the customer database for records that contain all \
        words of the query, and returns them as JSON. Use it when an answer depends on these \
        records. It changes nothing.";
    const CLASS: ToolClass = ToolClass::Pure;
    const TIMING: ToolTiming = ToolTiming::Network;
    type Input = SearchRecordsInput;

    async fn run(
        &self,
        _context: &ToolContext,
        input: SearchRecordsInput,
    ) -> Result<Output, ToolError> {
        let words: Vec<&str> = input.query.split_whitespace().collect();
        if words.is_empty() || words.len() > MAX_WORDS {
            return Err(ToolError::Invalid(format!("the query must have 1 to {MAX_WORDS} words")));
        }
        if input.query.contains('\0') {
            return Err(ToolError::Invalid("the query has a NUL character".to_owned()));
        }
        let found = self.0.find(&words, input.limit).await.map_err(failed)?;
        let records = found.records.iter().map(|record| serde_json::from_str(record));
        let records = records.collect::<Result<_, _>>().map_err(|error| {
            tracing::error!(%error, "record was not valid JSON");
            ToolError::Failed("the records cannot be read".to_owned())
        })?;
        Output::json(&SearchRecordsOutput { records, more: found.more })
    }
}

/// Maps errors to tool errors. The cause is logged and not shown, because it may quote confidential
/// values.
#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err takes")]
fn failed(error: BadTable) -> ToolError {
    tracing::warn!(%error, "record search failed");
    let class =
        if let BadTable::Database(error) = &error { Some(ErrorClass::of(error)) } else { None };
    match &error {
        BadTable::Database(_) if class == Some(ErrorClass::StatementTimeout) => ToolError::Timeout(
            "the search took too long; use words that fewer records contain".to_owned(),
        ),
        BadTable::Database(_) if class.is_some_and(ErrorClass::may_pass) => {
            ToolError::Network("fetch failed: the records cannot be reached".to_owned())
        }
        BadTable::Database(_)
        | BadTable::Missing(_)
        | BadTable::Column { .. }
        | BadTable::Writable { .. } => {
            ToolError::Failed("the records cannot be searched".to_owned())
        }
    }
}
