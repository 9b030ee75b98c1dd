//! As whom the service works on the database.
//!
//! The wall between tenants (`migrations/0019_row_level_security.sql`) holds for roles that own
//! nothing. The user who logs in may own everything, so connections take one of these at once.

use sqlx::PgConnection;
use sqlx::error::DatabaseError;

/// Sees and writes the rows of one tenant at a time: the one that `twostep.tenant` names.
pub const TENANT: &str = "twostep_tenant";
/// Sees and writes the rows of all tenants.
pub const SERVICE: &str = "twostep_service";

/// The user who logs in may not do what the service needs.
#[derive(Debug, thiserror::Error)]
pub enum RoleError {
    /// A role is missing, or may not be taken.
    #[error(
        "the database user {user} cannot work as {TENANT} and {SERVICE}, which keep tenants apart; \
         an administrator has to run, as far as it is not done: CREATE ROLE {TENANT} NOLOGIN; \
         CREATE ROLE {SERVICE} NOLOGIN; GRANT {TENANT}, {SERVICE} TO {user};"
    )]
    Refused {
        /// Who logs in, as SQL writes it.
        user: String,
    },
    /// Somebody has given the role more than the wall allows.
    #[error(
        "the role {TENANT} is a superuser, has BYPASSRLS, or is a member of {SERVICE}, and so sees \
         the rows of all tenants: take that from it"
    )]
    SeesAll,
    /// The database is away, or refuses something else.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// Makes sure that the user who has logged in can be both, and has what both may do: functions that
/// look before the wall do so as their owner.
pub async fn check(conn: &mut PgConnection) -> Result<(), RoleError> {
    let row = sqlx::query!(
        r#"SELECT quote_ident(session_user) AS "user!",
                  count(*) FILTER (WHERE pg_has_role(session_user, oid, 'USAGE')) = 2 AS "inherits!",
                  coalesce(bool_or(rolname = $1 AND (rolsuper OR rolbypassrls
                                   OR pg_has_role(oid, to_regrole($2), 'MEMBER'))), false)
                      AS "sees_all!"
           FROM pg_roles WHERE rolname IN ($1, $2)"#,
        TENANT,
        SERVICE,
    )
    .fetch_one(&mut *conn)
    .await?;
    for name in [TENANT, SERVICE] {
        // For this statement only.
        let taken = sqlx::query_scalar!("SELECT set_config('role', $1, true)", name);
        match taken.fetch_one(&mut *conn).await {
            Ok(_) if row.inherits => {}
            Err(error) if !is_refused(&error) => return Err(error.into()),
            Ok(_) | Err(_) => return Err(RoleError::Refused { user: row.user }),
        }
    }
    if row.sees_all { Err(RoleError::SeesAll) } else { Ok(()) }
}

/// The schema in which the user who has logged in finds the tables, as SQL writes it. A schema of the
/// user's own name, which the usual search path begins with, no role would find.
pub async fn schema(conn: &mut PgConnection) -> Result<Option<String>, sqlx::Error> {
    sqlx::query_scalar!("SELECT quote_ident(current_schema())").fetch_one(conn).await
}

/// Works for all tenants from now on, until the connection is closed.
pub async fn serve_all(conn: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query_scalar!(
        "SELECT set_config('search_path', coalesce(quote_ident(current_schema()), ''), false)"
    )
    .fetch_one(&mut *conn)
    .await?;
    sqlx::query_scalar!("SELECT set_config('role', $1, false)", SERVICE).fetch_one(conn).await?;
    Ok(())
}

/// There is no such role, or it may not be taken.
fn is_refused(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(DatabaseError::code);
    matches!(code.as_deref(), Some("22023" | "42501"))
}
