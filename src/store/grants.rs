//! Privileges of the [`roles`](super::roles) on the tables. Migrations grant them once; a restore
//! without privileges omits them.

use sqlx::{AssertSqlSafe, PgConnection, raw_sql};

use super::roles::{SERVICE, TENANT};

/// A role lacks a privilege.
#[derive(Debug, thiserror::Error)]
#[error(
    "roles {TENANT} and {SERVICE} lack privileges that the service needs, as after a restore \
     without privileges; run `twostep migrate`, or as the owner of the tables: {}",
    statements.join(" ")
)]
pub struct Ungranted {
    /// The statements that grant the missing privileges.
    pub statements: Vec<String>,
}

/// Returns the statements that grant the missing privileges, if any are missing.
pub async fn find_missing(conn: &mut PgConnection) -> Result<Option<Ungranted>, sqlx::Error> {
    let statements: Vec<String> =
        sqlx::query_file_scalar!("src/store/missing_grants.sql").fetch_all(conn).await?;
    let statements: Vec<String> = statements.into_iter().map(|statement| statement + ";").collect();
    Ok(if statements.is_empty() { None } else { Some(Ungranted { statements }) })
}

/// Grants the missing privileges.
pub async fn grant(conn: &mut PgConnection, missing: &Ungranted) -> Result<(), sqlx::Error> {
    for statement in &missing.statements {
        // The statements come from the database itself, which has quoted the names.
        raw_sql(AssertSqlSafe(statement.as_str())).execute(&mut *conn).await?;
    }
    Ok(())
}
