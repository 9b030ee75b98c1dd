//! A write that fails when the disk of the database is full.

use sqlx::{Connection as _, PgConnection};

use super::error::{ErrorClass, StoreError};

/// Writes a page to a new file and rolls that back. Fails if the disk is full or the database is
/// read-only, although reads may still succeed. Writes nothing while another transaction uses the table:
/// another process that checks, or a backup.
pub async fn probe_write(conn: &mut PgConnection) -> Result<(), StoreError> {
    let mut transaction = conn.begin().await?;
    let locked = sqlx::query!("LOCK TABLE write_probe IN ACCESS EXCLUSIVE MODE NOWAIT")
        .execute(&mut *transaction)
        .await
        .map_err(StoreError::from);
    match locked {
        Ok(_) => write_page(&mut transaction).await?,
        Err(error) if error.class() == ErrorClass::LockTimeout => {}
        Err(error) => return Err(error),
    }
    transaction.rollback().await?;
    Ok(())
}

async fn write_page(conn: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query!("TRUNCATE write_probe").execute(&mut *conn).await?;
    sqlx::query!("INSERT INTO write_probe (page) VALUES (decode(repeat('00', 8000), 'hex'))")
        .execute(conn)
        .await?;
    Ok(())
}
