//! Uploaded files, as Anthropic's clients see them.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use jiff::Timestamp;
use serde::Serialize;

use super::sessions::Deleted;
use crate::domain::file::StoredFile;
use crate::domain::ids::FileId;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::path::FilePath;
use crate::http::extract::upload::{FileForm, UploadBody};
use crate::http::routes::files::{content, upload};
use crate::http::state::Api;
use crate::service::files;

/// A file.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct ManagedFile {
    #[schema(value_type = String)]
    id: FileId,
    /// `file`.
    r#type: &'static str,
    /// The name, or the id of a file without a name.
    filename: String,
    /// The media type, by the content.
    mime_type: String,
    /// The size in bytes.
    size_bytes: i64,
    /// The time of the upload.
    #[schema(value_type = String, format = DateTime)]
    #[serde(serialize_with = "crate::domain::rfc3339::time")]
    created_at: Timestamp,
    /// `true`.
    downloadable: bool,
}

impl From<StoredFile> for ManagedFile {
    fn from(file: StoredFile) -> Self {
        Self {
            id: file.id,
            r#type: "file",
            filename: file.name.unwrap_or_else(|| file.id.to_string()),
            mime_type: file.media_type,
            size_bytes: file.size,
            created_at: file.created_at,
            downloadable: true,
        }
    }
}

/// Uploads a file, like `POST /v1/files`.
#[utoipa::path(
    post, path = "/anthropic/v1/files", operation_id = "create_managed_file", tag = "managed_agents",
    params(("beta" = Option<serde_json::Value>, Query, description = "Has no effect.")),
    request_body(content((FileForm = "multipart/form-data")), description = "A form with the file."),
    responses(
        (status = 200, description = "The file.", body = ManagedFile),
        (status = 400, description = "`validation_failed`: the type, the size or the content of the file is not allowed; `body_incomplete`", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`draining`, `database_unavailable`, `too_many_large_bodies`", body = Problem, content_type = "application/problem+json"),
        (status = 507, description = "`storage_quota_exceeded`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn create_managed_file(
    State(api): State<Arc<Api>>,
    caller: Caller,
    body: UploadBody,
) -> Result<Json<ManagedFile>, ApiError> {
    Ok(Json(upload(&api, &caller, (None, None), body).await?.into()))
}

/// Reads a file without its content.
#[utoipa::path(
    get, path = "/anthropic/v1/files/{file_id}", operation_id = "get_managed_file", tag = "managed_agents",
    params(
        ("file_id" = String, Path, description = "The file."),
        ("beta" = Option<serde_json::Value>, Query, description = "Has no effect."),
    ),
    responses(
        (status = 200, description = "The file.", body = ManagedFile),
        (status = 404, description = "`file_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn get_managed_file(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: FilePath,
) -> Result<Json<ManagedFile>, ApiError> {
    let FilePath(_, id) = path;
    Ok(Json(files::find_file(&api.service, caller.tenant, None, id).await?.into()))
}

/// Downloads a file.
#[utoipa::path(
    get, path = "/anthropic/v1/files/{file_id}/content", operation_id = "get_managed_file_content", tag = "managed_agents",
    params(
        ("file_id" = String, Path, description = "The file."),
        ("beta" = Option<serde_json::Value>, Query, description = "Has no effect."),
    ),
    responses(
        (status = 200, description = "The bytes of the file, with its media type.",
         content((String = "image/png"), (String = "image/jpeg"), (String = "image/gif"),
                 (String = "image/webp"), (String = "application/pdf"), (String = "text/plain"))),
        (status = 404, description = "`file_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn get_managed_file_content(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: FilePath,
) -> Result<Response, ApiError> {
    let FilePath(_, id) = path;
    content(&api, &caller, None, id).await
}

/// Deletes a file.
#[utoipa::path(
    delete, path = "/anthropic/v1/files/{file_id}", operation_id = "delete_managed_file", tag = "managed_agents",
    params(
        ("file_id" = String, Path, description = "The file."),
        ("beta" = Option<serde_json::Value>, Query, description = "Has no effect."),
    ),
    responses(
        (status = 200, description = "The file was deleted.", body = Deleted),
        (status = 404, description = "`file_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`draining`, `database_unavailable`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn delete_managed_file(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: FilePath,
) -> Result<Json<Deleted>, ApiError> {
    let FilePath(_, id) = path;
    files::delete_file(&api.service, caller.tenant, id).await?;
    Ok(Json(Deleted { r#type: "file_deleted", id: id.to_string() }))
}
