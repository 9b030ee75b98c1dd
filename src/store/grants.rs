//! What the roles of [`super::roles`] may do with the tables. Migrations grant it, once; a restore
//! without privileges leaves it out.

use sqlx::{AssertSqlSafe, PgConnection, raw_sql};

use super::roles::{SERVICE, TENANT};

/// A role may not do what the service needs.
#[derive(Debug, thiserror::Error)]
#[error(
    "{TENANT} and {SERVICE} may not do all that the service needs, as after a restore without \
     privileges; `twostep migrate` grants it, or the owner of the tables runs: {}",
    statements.join(" ")
)]
pub struct Ungranted {
    /// What grants it.
    pub statements: Vec<String>,
}

/// The statements that grant what is missing, if anything is.
pub async fn find_missing(conn: &mut PgConnection) -> Result<Option<Ungranted>, sqlx::Error> {
    let statements: Vec<String> =
        sqlx::query_file_scalar!("src/store/missing_grants.sql").fetch_all(conn).await?;
    let statements: Vec<String> = statements.into_iter().map(|statement| statement + ";").collect();
    Ok(if statements.is_empty() { None } else { Some(Ungranted { statements }) })
}

/// Grants what is missing.
pub async fn grant(conn: &mut PgConnection, missing: &Ungranted) -> Result<(), sqlx::Error> {
    for statement in &missing.statements {
        // The database itself has written it, and quoted the names.
        raw_sql(AssertSqlSafe(statement.as_str())).execute(&mut *conn).await?;
    }
    Ok(())
}
