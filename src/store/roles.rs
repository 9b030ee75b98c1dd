//! The database roles of the service.
//!
//! Row-level security (`migrations/0019_row_level_security.sql`) applies to roles that own nothing.
//! The user who logs in may own everything, so each connection switches to one of these roles at
//! once.

use sqlx::PgConnection;
use sqlx::error::DatabaseError;

/// Reads and writes the rows of one tenant at a time, which the setting `twostep.tenant` names.
pub const TENANT: &str = "twostep_tenant";
/// Reads and writes the rows of all tenants.
pub const SERVICE: &str = "twostep_service";

/// The login user lacks something that the service needs.
#[derive(Debug, thiserror::Error)]
pub enum RoleError {
    /// A role is missing, or the user may not switch to it.
    #[error(
        "database user {user} cannot switch to the roles {TENANT} and {SERVICE}, which isolate \
         tenants; an administrator has to run, as far as it is not done: CREATE ROLE {TENANT} \
         NOLOGIN; CREATE ROLE {SERVICE} NOLOGIN; GRANT {TENANT}, {SERVICE} TO {user};"
    )]
    Refused {
        /// The login user, quoted as in SQL.
        user: String,
    },
    /// The role [`TENANT`] has a privilege that bypasses row-level security.
    #[error(
        "role {TENANT} is a superuser, has BYPASSRLS or is a member of {SERVICE}, and so sees the \
         rows of all tenants; revoke that"
    )]
    SeesAll,
    /// The database is unavailable or refused another statement.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// Checks that the login user can switch to both roles and inherits their privileges: functions
/// that bypass row-level security run as their owner.
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

/// Returns the schema in which the login user finds the tables, quoted as in SQL. The roles would
/// not find a schema with the user's own name, with which the default search path begins.
pub async fn schema(conn: &mut PgConnection) -> Result<Option<String>, sqlx::Error> {
    sqlx::query_scalar!("SELECT quote_ident(current_schema())").fetch_one(conn).await
}

/// Switches the connection to [`SERVICE`] until it is closed.
pub async fn serve_all(conn: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query_scalar!(
        "SELECT set_config('search_path', coalesce(quote_ident(current_schema()), ''), false)"
    )
    .fetch_one(&mut *conn)
    .await?;
    sqlx::query_scalar!("SELECT set_config('role', $1, false)", SERVICE).fetch_one(conn).await?;
    Ok(())
}

/// The role does not exist, or the user may not switch to it.
fn is_refused(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(DatabaseError::code);
    matches!(code.as_deref(), Some("22023" | "42501"))
}
