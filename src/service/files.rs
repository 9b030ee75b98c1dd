//! Uploaded files: storing, reading and deleting them, and the references of messages to them.

use bytes::Bytes;
use sqlx::PgConnection;

use super::content::{FileUse, uploaded_media_type};
use super::deadline::in_time;
use super::error::Error;
use super::offload::offload;
use super::state::Service;
use crate::domain::file::StoredFile;
use crate::domain::ids::{FileId, SessionId, TenantId};
use crate::service::error::FieldError;
use crate::store::files::{self, NewFile, attach, list_usable};

/// The largest name of a file, in characters.
const MAX_NAME: usize = 255;

/// A file that a client uploads.
#[derive(Debug)]
pub(crate) struct Upload {
    pub(crate) tenant: TenantId,
    /// The session that the file is deleted with; none for the first session that refers to it.
    pub(crate) session_id: Option<SessionId>,
    pub(crate) name: Option<String>,
    /// The media type that the client names.
    pub(crate) media_type: Option<String>,
    pub(crate) content: Bytes,
}

/// Stores a file, if its content is of an allowed type and size.
pub(crate) async fn store_file(service: &Service, upload: Upload) -> Result<StoredFile, Error> {
    let Upload { tenant, session_id, name, media_type, content } = upload;
    if let Some(name) = &name {
        let is_name = (1..=MAX_NAME).contains(&name.chars().count());
        if !is_name || name.chars().any(char::is_control) {
            let message = format!("is not 1 to {MAX_NAME} characters without control characters");
            return Err(Error::Validation(vec![FieldError::in_query("name", message)]));
        }
    }
    let bytes = content.clone();
    let checked =
        offload(content.len(), move || uploaded_media_type(media_type.as_deref(), &bytes));
    let media_type = checked.await?.map_err(|problem| Error::field("", problem))?;
    let quota = service.quotas.stored_bytes(tenant).await?;
    let reserved = quota.reserve(content.len()).map_err(Error::QuotaExceeded)?;
    let id = FileId::new();
    let (name, content) = (name.as_deref(), &*content);
    let new = NewFile { id, tenant, session_id, name, media_type, content };
    let insert = async |conn: &mut PgConnection| files::insert(conn, &new).await;
    let stored = in_time(async { Ok::<_, Error>(service.pool.with(tenant, insert).await?) });
    let stored = stored.await?.ok_or_else(|| {
        Error::SessionNotFound(session_id.map(|id| id.to_string()).unwrap_or_default())
    })?;
    reserved.keep();
    Ok(stored)
}

/// Finds a file; in a session, if one is given.
pub(crate) async fn find_file(
    service: &Service,
    tenant: TenantId,
    session_id: Option<SessionId>,
    id: FileId,
) -> Result<StoredFile, Error> {
    let find = async |conn: &mut PgConnection| {
        let file = files::find(conn, tenant, id).await?;
        let Some(session_id) = session_id else { return Ok::<_, Error>(file) };
        let usable = list_usable(conn, tenant, session_id, &[id]).await?;
        // A file without a session belongs to no reader of sessions.
        Ok(file.filter(|file| file.session_id.is_some() && usable.contains_key(&id)))
    };
    let found = service.pool.with(tenant, find).await?;
    found.ok_or_else(|| Error::FileNotFound(id.to_string()))
}

/// Reads a file with its content.
pub(crate) async fn read_file(
    service: &Service,
    tenant: TenantId,
    session_id: Option<SessionId>,
    id: FileId,
) -> Result<(StoredFile, Vec<u8>), Error> {
    let file = find_file(service, tenant, session_id, id).await?;
    let read = async |conn: &mut PgConnection| files::content(conn, tenant, id).await;
    let content = service.pool.with(tenant, read).await?;
    Ok((file, content.ok_or_else(|| Error::FileNotFound(id.to_string()))?))
}

/// Deletes a file. Later requests to the model have a text in its place.
pub(crate) async fn delete_file(
    service: &Service,
    tenant: TenantId,
    id: FileId,
) -> Result<(), Error> {
    let delete = async |conn: &mut PgConnection| files::delete(conn, tenant, id).await;
    if service.pool.with(tenant, delete).await? {
        return Ok(());
    }
    Err(Error::FileNotFound(id.to_string()))
}

/// Checks that a session may refer to the files of a message, and that their types fit.
pub(super) async fn check_files(
    conn: &mut PgConnection,
    tenant: TenantId,
    session_id: SessionId,
    uses: &[FileUse],
) -> Result<(), Error> {
    if uses.is_empty() {
        return Ok(());
    }
    let ids: Vec<FileId> = uses.iter().map(|it| it.id).collect();
    let usable = list_usable(conn, tenant, session_id, &ids).await?;
    let problem = |it: &FileUse| {
        let pointer = format!("{}/file_id", it.pointer);
        let Some(media_type) = usable.get(&it.id) else {
            return Some(FieldError::new(pointer, "is not a file that the session may use"));
        };
        let is_image = media_type.starts_with("image/");
        (is_image != it.is_image).then(|| {
            let kind = if it.is_image { "an image" } else { "a document" };
            FieldError::new(pointer, format!("is {media_type}, which is not {kind}"))
        })
    };
    Error::if_any(uses.iter().filter_map(problem).collect())
}

/// Gives the files of a message to its session, in the transaction that accepts the message.
pub(super) async fn attach_files(
    conn: &mut PgConnection,
    tenant: TenantId,
    session_id: SessionId,
    uses: &[FileUse],
) -> Result<(), Error> {
    if uses.is_empty() {
        return Ok(());
    }
    let mut ids: Vec<FileId> = uses.iter().map(|it| it.id).collect();
    ids.sort();
    ids.dedup();
    if attach(conn, tenant, session_id, &ids).await? < ids.len() {
        return Err(Error::field("/content", "refers to a file that was deleted meanwhile"));
    }
    Ok(())
}
