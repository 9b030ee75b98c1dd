//! Uploaded files, as OpenAI's clients see them.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;

use crate::domain::file::StoredFile;
use crate::domain::ids::FileId;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, OpenAiError};
use crate::http::extract::path::FilePath;
use crate::http::extract::upload::{FileForm, UploadBody};
use crate::http::routes::files::{content, upload};
use crate::http::state::Api;
use crate::service::files;

/// A file.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct OpenAiFile {
    #[schema(value_type = String)]
    id: FileId,
    /// `file`.
    object: &'static str,
    /// The size in bytes.
    bytes: i64,
    /// The time of the upload, in seconds since 1970.
    created_at: i64,
    /// The name, or the id of a file without a name.
    filename: String,
    /// `user_data`, whichever purpose the upload had.
    purpose: &'static str,
    /// `processed`.
    status: &'static str,
}

/// A deleted file.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct OpenAiDeletedFile {
    #[schema(value_type = String)]
    id: FileId,
    /// `file`.
    object: &'static str,
    /// `true`.
    deleted: bool,
}

impl From<StoredFile> for OpenAiFile {
    fn from(file: StoredFile) -> Self {
        Self {
            id: file.id,
            object: "file",
            bytes: file.size,
            created_at: file.created_at.as_second(),
            filename: file.name.unwrap_or_else(|| file.id.to_string()),
            purpose: "user_data",
            status: "processed",
        }
    }
}

/// Uploads a file, like `POST /v1/files`.
#[utoipa::path(
    post, path = "/openai/v1/files", operation_id = "create_openai_file", tag = "openai",
    request_body(content((FileForm = "multipart/form-data")), description = "A form with the file."),
    responses(
        (status = 200, description = "The file.", body = OpenAiFile),
        (status = 400, description = "`body_incomplete`, `invalid_query`", body = OpenAiError),
        (status = 408, description = "`request_timeout`", body = OpenAiError),
        (status = 413, description = "`body_too_large`", body = OpenAiError),
        (status = 415, description = "`unsupported_media_type`", body = OpenAiError),
        (status = 422, description = "`validation_failed`: the type, the size or the content of the file is not allowed.", body = OpenAiError),
        (status = 503, description = "`draining`, `database_unavailable`, `too_many_large_bodies`", body = OpenAiError),
        (status = 507, description = "`storage_quota_exceeded`", body = OpenAiError),
    )
)]
pub(in crate::http) async fn create_openai_file(
    State(api): State<Arc<Api>>,
    caller: Caller,
    body: UploadBody,
) -> Result<Json<OpenAiFile>, ApiError> {
    Ok(Json(upload(&api, &caller, (None, None), body).await?.into()))
}

/// Reads a file without its content.
#[utoipa::path(
    get, path = "/openai/v1/files/{file_id}", operation_id = "get_openai_file", tag = "openai",
    params(("file_id" = String, Path, description = "The file.")),
    responses(
        (status = 200, description = "The file.", body = OpenAiFile),
        (status = 404, description = "`file_not_found`", body = OpenAiError),
    )
)]
pub(in crate::http) async fn get_openai_file(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: FilePath,
) -> Result<Json<OpenAiFile>, ApiError> {
    let FilePath(_, id) = path;
    Ok(Json(files::find_file(&api.service, caller.tenant, None, id).await?.into()))
}

/// Downloads a file.
#[utoipa::path(
    get, path = "/openai/v1/files/{file_id}/content", operation_id = "get_openai_file_content", tag = "openai",
    params(("file_id" = String, Path, description = "The file.")),
    responses(
        (status = 200, description = "The bytes of the file, with its media type.",
         content((String = "image/png"), (String = "image/jpeg"), (String = "image/gif"),
                 (String = "image/webp"), (String = "application/pdf"), (String = "text/plain"))),
        (status = 404, description = "`file_not_found`", body = OpenAiError),
    )
)]
pub(in crate::http) async fn get_openai_file_content(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: FilePath,
) -> Result<Response, ApiError> {
    let FilePath(_, id) = path;
    content(&api, &caller, None, id).await
}

/// Deletes a file.
#[utoipa::path(
    delete, path = "/openai/v1/files/{file_id}", operation_id = "delete_openai_file", tag = "openai",
    params(("file_id" = String, Path, description = "The file.")),
    responses(
        (status = 200, description = "The file was deleted.", body = OpenAiDeletedFile),
        (status = 404, description = "`file_not_found`", body = OpenAiError),
        (status = 503, description = "`draining`, `database_unavailable`", body = OpenAiError),
    )
)]
pub(in crate::http) async fn delete_openai_file(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: FilePath,
) -> Result<Json<OpenAiDeletedFile>, ApiError> {
    let FilePath(_, id) = path;
    files::delete_file(&api.service, caller.tenant, id).await?;
    Ok(Json(OpenAiDeletedFile { id, object: "file", deleted: true }))
}
