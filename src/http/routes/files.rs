//! Uploaded files.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, LOCATION};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::domain::file::StoredFile;
use crate::domain::ids::{FileId, SessionId};
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::path::{FilePath, SessionPath};
use crate::http::extract::query::Params;
use crate::http::extract::upload::{FileForm, UploadBody};
use crate::http::server::forwarded::link;
use crate::http::state::Api;
use crate::service::files::{self, Upload};

/// An uploaded file.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct FileResource {
    /// `file`.
    r#type: &'static str,
    /// The id, to which messages refer.
    #[schema(value_type = String)]
    id: FileId,
    /// The session that the file is deleted with; null until a message refers to the file.
    #[schema(value_type = Option<String>, required)]
    session_id: Option<SessionId>,
    /// The name that the client gave; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The media type, by the content.
    media_type: String,
    /// The size in bytes.
    size: i64,
    /// The time of the upload.
    #[schema(value_type = String, format = DateTime)]
    #[serde(serialize_with = "crate::domain::rfc3339::time")]
    created_at: Timestamp,
}

impl From<StoredFile> for FileResource {
    fn from(file: StoredFile) -> Self {
        let StoredFile { id, session_id, name, media_type, size, created_at } = file;
        Self { r#type: "file", id, session_id, name, media_type, size, created_at }
    }
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct CreateFile {
    /// A name for people, 1 to 255 characters.
    #[param(min_length = 1, max_length = 255)]
    name: Option<String>,
    /// The session that the file is deleted with. When absent, the first session whose message refers to
    /// the file.
    #[param(value_type = Option<String>, pattern = "^ses_[0-9a-f]{32}$")]
    session_id: Option<SessionId>,
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct CreateSessionFile {
    /// A name for people, 1 to 255 characters.
    #[param(min_length = 1, max_length = 255)]
    name: Option<String>,
}

/// Uploads a file: a PNG, JPEG, GIF or WebP image, a PDF, or text in UTF-8. The body is the file, or a form
/// with the file in the field `file`, whose `filename` is then the name.
///
/// A message refers to it with the source `{"type": "file", "file_id": …}` of an image or document
/// block. The type of the file is determined by its content; a `Content-Type` other than
/// `application/octet-stream` must match it. A file to which no message refers is deleted after a day.
#[utoipa::path(
    post, path = "/files", operation_id = "create_file", tag = "files",
    params(CreateFile),
    request_body(content((String = "application/octet-stream"), (FileForm = "multipart/form-data")),
                 description = "The bytes of the file, or a form with the file."),
    responses(
        (status = 201, description = "The file.", body = FileResource,
         headers(("location" = String, description = "The path of the file."))),
        (status = 400, description = "`body_incomplete`, `invalid_query`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`validation_failed`: the type, the size or the content of the file is not allowed.", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`draining`, `database_unavailable`, `too_many_large_bodies`", body = Problem, content_type = "application/problem+json"),
        (status = 507, description = "`storage_quota_exceeded`: the tenant stores the maximum number of bytes; `quota` names the resource.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn create_file(
    State(api): State<Arc<Api>>,
    caller: Caller,
    query: Params<CreateFile>,
    body: UploadBody,
) -> Result<Response, ApiError> {
    let Params(CreateFile { name, session_id }) = query;
    create(&api, &caller, (session_id, name), body).await
}

/// Uploads a file of a session, like `POST /files`. The file is deleted with the session.
#[utoipa::path(
    post, path = "/sessions/{session_id}/files", operation_id = "create_session_file", tag = "files",
    params(("session_id" = String, Path, description = "The session."), CreateSessionFile),
    request_body(content((String = "application/octet-stream"), (FileForm = "multipart/form-data")),
                 description = "The bytes of the file, or a form with the file."),
    responses(
        (status = 201, description = "The file.", body = FileResource,
         headers(("location" = String, description = "The path of the file."))),
        (status = 400, description = "`body_incomplete`, `invalid_query`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`validation_failed`: the type, the size or the content of the file is not allowed.", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`draining`, `database_unavailable`, `too_many_large_bodies`", body = Problem, content_type = "application/problem+json"),
        (status = 507, description = "`storage_quota_exceeded`: the tenant stores the maximum number of bytes; `quota` names the resource.", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn create_session_file(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: SessionPath,
    query: Params<CreateSessionFile>,
    body: UploadBody,
) -> Result<Response, ApiError> {
    let (SessionPath(session_id), Params(CreateSessionFile { name })) = (path, query);
    create(&api, &caller, (Some(session_id), name), body).await
}

async fn create(
    api: &Api,
    caller: &Caller,
    (session_id, name): (Option<SessionId>, Option<String>),
    body: UploadBody,
) -> Result<Response, ApiError> {
    let file = upload(api, caller, (session_id, name), body).await?;
    let location = [(LOCATION, link(format_args!("/files/{}", file.id)))];
    Ok((StatusCode::CREATED, location, Json(FileResource::from(file))).into_response())
}

/// Stores the file of a body. A name in the query replaces that of a form.
pub(in crate::http) async fn upload(
    api: &Api,
    caller: &Caller,
    (session_id, name): (Option<SessionId>, Option<String>),
    body: UploadBody,
) -> Result<StoredFile, ApiError> {
    let UploadBody { content, media_type, filename, permits } = body;
    let name = name.or(filename);
    let upload = Upload { tenant: caller.tenant, session_id, name, media_type, content };
    let file = files::store_file(&api.service, upload).await?;
    drop(permits);
    Ok(file)
}

/// Reads a file without its content.
#[utoipa::path(
    get, path = "/files/{file_id}", operation_id = "get_file", tag = "files",
    params(("file_id" = String, Path, description = "The file.")),
    responses(
        (status = 200, description = "The file.", body = FileResource),
        (status = 404, description = "`file_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn get_file(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: FilePath,
) -> Result<Response, ApiError> {
    let FilePath(_, id) = path;
    let file = files::find_file(&api.service, caller.tenant, None, id).await?;
    Ok(Json(FileResource::from(file)).into_response())
}

/// Downloads a file.
#[utoipa::path(
    get, path = "/files/{file_id}/content", operation_id = "get_file_content", tag = "files",
    params(("file_id" = String, Path, description = "The file.")),
    responses(
        (status = 200, description = "The bytes of the file, with its media type.",
         content((String = "image/png"), (String = "image/jpeg"), (String = "image/gif"),
                 (String = "image/webp"), (String = "application/pdf"), (String = "text/plain")),
         headers(("content-disposition" = String, description = "A name for the file."))),
        (status = 404, description = "`file_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn get_file_content(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: FilePath,
) -> Result<Response, ApiError> {
    let FilePath(_, id) = path;
    content(&api, &caller, None, id).await
}

/// Downloads a file of a session, or of the session from which it was forked.
#[utoipa::path(
    get, path = "/sessions/{session_id}/files/{file_id}/content",
    operation_id = "get_session_file_content", tag = "files",
    params(("session_id" = String, Path, description = "The session."),
           ("file_id" = String, Path, description = "The file.")),
    responses(
        (status = 200, description = "The bytes of the file, with its media type.",
         content((String = "image/png"), (String = "image/jpeg"), (String = "image/gif"),
                 (String = "image/webp"), (String = "application/pdf"), (String = "text/plain")),
         headers(("content-disposition" = String, description = "A name for the file."))),
        (status = 404, description = "`session_not_found`, `file_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn get_session_file_content(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: FilePath,
) -> Result<Response, ApiError> {
    let FilePath(session_id, id) = path;
    content(&api, &caller, session_id, id).await
}

/// The bytes of a file, with its media type and a name.
pub(in crate::http) async fn content(
    api: &Api,
    caller: &Caller,
    session_id: Option<SessionId>,
    id: FileId,
) -> Result<Response, ApiError> {
    let (file, content) = files::read_file(&api.service, caller.tenant, session_id, id).await?;
    let extension = match file.media_type.as_str() {
        "image/png" => "png",
        "image/jpeg" => "jpg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        "application/pdf" => "pdf",
        _ => "txt",
    };
    // Not the name of the client: browsers decode names in different ways.
    let name = format!("attachment; filename=\"{id}.{extension}\"");
    let headers = [(CONTENT_TYPE, file.media_type), (CONTENT_DISPOSITION, name)];
    Ok((headers, content).into_response())
}

/// Deletes a file. Later requests to the model have a text in its place.
#[utoipa::path(
    delete, path = "/files/{file_id}", operation_id = "delete_file", tag = "files",
    params(("file_id" = String, Path, description = "The file.")),
    responses(
        (status = 204, description = "The file was deleted."),
        (status = 404, description = "`file_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`draining`, `database_unavailable`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn delete_file(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: FilePath,
) -> Result<StatusCode, ApiError> {
    let FilePath(_, id) = path;
    files::delete_file(&api.service, caller.tenant, id).await?;
    Ok(StatusCode::NO_CONTENT)
}
