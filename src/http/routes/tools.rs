//! The catalogue of tools.

use axum::Json;
use axum::extract::State;

use crate::http::Api;
use crate::http::resources::Page;
use crate::tools::CatalogEntry;

/// Lists the tools, in the order in which the model sees them.
#[utoipa::path(
    get, path = "/tools", operation_id = "list_tools", tag = "tools",
    responses((status = 200, description = "All tools.", body = Page<CatalogEntry>))
)]
pub(in crate::http) async fn list_tools(State(api): State<Api>) -> Json<Page<CatalogEntry>> {
    Json(Page { data: api.tools.catalog(), has_more: false, next_cursor: None })
}
