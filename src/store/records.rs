//! A table of the operator's own, in any database, which is searched and never written.

use futures::TryStreamExt as _;
use sqlx::{AssertSqlSafe, PgConnection, raw_sql};

/// A table that can be searched.
#[derive(Debug, Clone)]
pub struct Table {
    /// The statement, written by the database itself from its catalogue.
    statement: String,
}

/// A table that must not be searched, or cannot be.
#[derive(Debug, thiserror::Error)]
pub enum BadTable {
    /// No such table.
    #[error("there is no table {0}")]
    Missing(String),
    /// No such column, or not for this role.
    #[error("{table} has no column {column} that the role may read")]
    Column {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// A role that only searches must not be able to do more.
    #[error("the role {role} may write {table}: name one that may only read it")]
    Writable {
        /// The table.
        table: String,
        /// The role.
        role: String,
    },
    /// The database refused, or is away.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// Finds a table and its columns in the catalogue: all columns that the role may read, or those
/// that are named. A role that may write the table is refused.
pub async fn describe(
    conn: &mut PgConnection,
    table: &str,
    only: Option<&[String]>,
) -> Result<Table, BadTable> {
    check_role(conn, table).await?;
    let found = sqlx::query!(
        r#"SELECT array_agg(attname::text) AS columns,
                  format('SELECT to_json(found)::text FROM (SELECT %s FROM %I.%I AS t
                          WHERE concat_ws(chr(10), %s) ILIKE ALL ($1) LIMIT $2) AS found',
                         string_agg(format('t.%I', attname), ', ' ORDER BY attnum),
                         nspname, relname,
                         string_agg(format('t.%I::text', attname), ', ' ORDER BY attnum))
                  AS "statement!"
           FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
           JOIN pg_attribute ON attrelid = pg_class.oid
           WHERE pg_class.oid = to_regclass($1) AND attnum > 0 AND NOT attisdropped
             AND ($2::text[] IS NULL OR attname::text = ANY ($2))
             AND has_column_privilege(pg_class.oid, attnum, 'SELECT')
           GROUP BY nspname, relname"#,
        table,
        only,
    )
    .fetch_optional(conn)
    .await?;
    let none = || (Vec::new(), String::new());
    let (columns, statement) =
        found.map_or_else(none, |found| (found.columns.unwrap_or_default(), found.statement));
    let missing = only.unwrap_or_default().iter().find(|column| !columns.contains(column));
    let none = || columns.is_empty().then(|| "at all".to_owned());
    match missing.cloned().or_else(none) {
        Some(column) => Err(BadTable::Column { table: table.to_owned(), column }),
        None => Ok(Table { statement }),
    }
}

async fn check_role(conn: &mut PgConnection, table: &str) -> Result<(), BadTable> {
    let found = sqlx::query!(
        r#"SELECT current_user::text AS "role!",
                  (pg_has_role(relowner, 'MEMBER')
                   OR has_table_privilege(oid, 'INSERT, UPDATE, DELETE, TRUNCATE')
                   OR has_any_column_privilege(oid, 'INSERT, UPDATE')) AS "may_write!"
           FROM pg_class
           WHERE oid = to_regclass($1) AND relkind IN ('r', 'p', 'v', 'm', 'f')"#,
        table,
    )
    .fetch_optional(conn)
    .await?;
    match found {
        None => Err(BadTable::Missing(table.to_owned())),
        Some(found) if found.may_write => {
            Err(BadTable::Writable { table: table.to_owned(), role: found.role })
        }
        Some(_) => Ok(()),
    }
}

/// What a search has found.
#[derive(Debug, Default)]
pub struct Found {
    /// The rows, each as JSON.
    pub records: Vec<String>,
    /// Whether there are others that fit.
    pub more: bool,
}

/// Rows whose columns have all of the words, whatever their case: at most so many, and at most so
/// many bytes. To give a search up, it is enough to drop the connection.
pub async fn search(
    conn: &mut PgConnection,
    table: &Table,
    words: &[&str],
    limit: u8,
    max_bytes: usize,
) -> Result<Found, sqlx::Error> {
    // A server that nobody listens to notices only where it looks.
    let begin = "BEGIN READ ONLY;
                 SET LOCAL statement_timeout = '10s';
                 SET LOCAL client_connection_check_interval = '200ms'";
    raw_sql(begin).execute(&mut *conn).await?;
    let patterns: Vec<String> = words.iter().map(|word| pattern(word)).collect();
    let mut found = Found::default();
    let mut bytes = 0;
    {
        let statement = AssertSqlSafe(table.statement.as_str());
        let query = sqlx::query_scalar::<_, String>(statement);
        // One row more tells whether there are more.
        let mut rows = query.bind(patterns).bind(i64::from(limit) + 1).fetch(&mut *conn);
        while let Some(row) = rows.try_next().await? {
            bytes += row.len();
            found.more = bytes > max_bytes || found.records.len() == usize::from(limit);
            if found.more {
                break;
            }
            found.records.push(row);
        }
    }
    raw_sql("ROLLBACK").execute(conn).await?;
    Ok(found)
}

/// A pattern that fits whatever contains the word, in which every character means itself.
fn pattern(word: &str) -> String {
    let mut pattern = String::from("%");
    for c in word.chars() {
        if matches!(c, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern.push('%');
    pattern
}
