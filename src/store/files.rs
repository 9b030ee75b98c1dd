//! Uploaded files.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff_sqlx::Timestamp;
use sqlx::PgConnection;
use uuid::Uuid;

use super::StoreError;
use crate::domain::file::{FileContent, StoredFile, may_refer, references, with_files};
use crate::domain::ids::{FileId, SessionId, TenantId};

/// A file to be stored.
#[derive(Debug)]
pub struct NewFile<'a> {
    /// The id.
    pub id: FileId,
    /// The owner.
    pub tenant: TenantId,
    /// The session that the file is deleted with.
    pub session_id: Option<SessionId>,
    /// The name that the client gave.
    pub name: Option<&'a str>,
    /// The type of the content.
    pub media_type: &'a str,
    /// The content.
    pub content: &'a [u8],
}

struct Row {
    id: Uuid,
    session_id: Option<Uuid>,
    name: Option<String>,
    media_type: String,
    size: i64,
    created_at: Timestamp,
}

impl From<Row> for StoredFile {
    fn from(row: Row) -> Self {
        Self {
            id: row.id.into(),
            session_id: row.session_id.map(Into::into),
            name: row.name,
            media_type: row.media_type,
            size: row.size,
            created_at: row.created_at.to_jiff(),
        }
    }
}

/// Stores a file, and deletes files of the tenant to which no message has referred for a day. Returns
/// `None` if the tenant does not have the session.
pub async fn insert(
    conn: &mut PgConnection,
    new: &NewFile<'_>,
) -> Result<Option<StoredFile>, StoreError> {
    let row = sqlx::query_as!(
        Row,
        r#"WITH expired AS (
               DELETE FROM files
               WHERE tenant_id = $2 AND session_id IS NULL
                 AND created_at < now() - interval '1 day'
           )
           INSERT INTO files (id, tenant_id, session_id, name, media_type, size, content)
           SELECT $1::uuid, $2::uuid, $3::uuid, $4::text, $5::text, octet_length($6::bytea),
                  $6::bytea
           WHERE $3::uuid IS NULL
              OR EXISTS (SELECT FROM sessions WHERE id = $3 AND tenant_id = $2)
           RETURNING id, session_id, name, media_type, size,
                     created_at AS "created_at: Timestamp""#,
        new.id.as_uuid(),
        new.tenant.as_uuid(),
        new.session_id.map(SessionId::as_uuid),
        new.name,
        new.media_type,
        new.content,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(StoredFile::from))
}

/// Finds a file of a tenant.
pub async fn find(
    conn: &mut PgConnection,
    tenant: TenantId,
    id: FileId,
) -> Result<Option<StoredFile>, StoreError> {
    let row = sqlx::query_as!(
        Row,
        r#"SELECT id, session_id, name, media_type, size, created_at AS "created_at: Timestamp"
           FROM files WHERE id = $1 AND tenant_id = $2"#,
        id.as_uuid(),
        tenant.as_uuid(),
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(StoredFile::from))
}

/// Reads the content of a file.
pub async fn content(
    conn: &mut PgConnection,
    tenant: TenantId,
    id: FileId,
) -> Result<Option<Vec<u8>>, StoreError> {
    Ok(sqlx::query_scalar!(
        "SELECT content FROM files WHERE id = $1 AND tenant_id = $2",
        id.as_uuid(),
        tenant.as_uuid(),
    )
    .fetch_optional(conn)
    .await?)
}

/// Deletes a file. Returns false if the tenant does not have it.
pub async fn delete(
    conn: &mut PgConnection,
    tenant: TenantId,
    id: FileId,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "DELETE FROM files WHERE id = $1 AND tenant_id = $2",
        id.as_uuid(),
        tenant.as_uuid(),
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Lists those of the files that a session may refer to, with their media types: files without a
/// session, its own, and those of the sessions that it was forked from, directly or not, except files
/// that were uploaded after the fork.
pub async fn list_usable(
    conn: &mut PgConnection,
    tenant: TenantId,
    session_id: SessionId,
    ids: &[FileId],
) -> Result<HashMap<FileId, String>, StoreError> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.as_uuid()).collect();
    let rows = sqlx::query!(
        "WITH RECURSIVE lineage (id, forked_from, created_at, until) AS (
             SELECT id, forked_from, created_at, 'infinity'::timestamptz
             FROM sessions WHERE id = $2 AND tenant_id = $1
             UNION ALL
             SELECT s.id, s.forked_from, s.created_at, least(l.until, l.created_at)
             FROM lineage l JOIN sessions s ON s.id = l.forked_from
         )
         SELECT id, media_type FROM files f
         WHERE id = ANY ($3) AND tenant_id = $1
           AND (session_id IS NULL
                OR EXISTS (SELECT FROM lineage l
                           WHERE l.id = f.session_id AND f.created_at <= l.until))",
        tenant.as_uuid(),
        session_id.as_uuid(),
        &ids,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.id.into(), row.media_type)).collect())
}

/// Gives files without a session to the session of the first message that refers to them. They are
/// deleted with it. Returns the number of the files that the session may refer to.
pub async fn attach(
    conn: &mut PgConnection,
    tenant: TenantId,
    session_id: SessionId,
    ids: &[FileId],
) -> Result<usize, StoreError> {
    let given: Vec<Uuid> = ids.iter().map(|id| id.as_uuid()).collect();
    sqlx::query!(
        "UPDATE files SET session_id = $2
         WHERE id = ANY ($3) AND tenant_id = $1 AND session_id IS NULL",
        tenant.as_uuid(),
        session_id.as_uuid(),
        &given,
    )
    .execute(&mut *conn)
    .await?;
    Ok(list_usable(conn, tenant, session_id, ids).await?.len())
}

/// Puts the contents of files in place of the references of stored contents to them.
pub async fn resolve(
    conn: &mut PgConnection,
    contents: Vec<&mut String>,
) -> Result<(), StoreError> {
    for content in contents {
        if !may_refer(content) {
            continue;
        }
        let ids: Vec<Uuid> = references(content).into_iter().map(FileId::as_uuid).collect();
        let rows =
            sqlx::query!("SELECT id, media_type, content FROM files WHERE id = ANY ($1)", &ids)
                .fetch_all(&mut *conn)
                .await?;
        let files: HashMap<FileId, (String, Vec<u8>)> =
            rows.into_iter().map(|row| (row.id.into(), (row.media_type, row.content))).collect();
        *content = with_files(content, |id| {
            let (media_type, bytes) = files.get(&id)?;
            if media_type == "text/plain" {
                return Some(FileContent::Text(String::from_utf8_lossy(bytes).into_owned()));
            }
            let (media_type, data) = (media_type.clone(), STANDARD.encode(bytes));
            Some(FileContent::Base64 { media_type, data })
        });
    }
    Ok(())
}
