//! The catalog of tools.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use crate::http::resources::Page;
use crate::http::state::Api;
use crate::tools::CatalogEntry;

/// A tool of the catalog.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct ToolResource {
    #[serde(flatten)]
    entry: CatalogEntry,
    /// True if sessions that name no tools have it.
    default: bool,
}

/// Lists the tools, in the order in which the model sees them.
#[utoipa::path(
    get, path = "/tools", operation_id = "list_tools", tag = "tools",
    responses((status = 200, description = "All tools.", body = Page<ToolResource>))
)]
pub(in crate::http) async fn list_tools(State(api): State<Arc<Api>>) -> Json<Page<ToolResource>> {
    let usual = api.service.defaults.tools.as_ref();
    let resource = |entry: CatalogEntry| {
        let default = usual.is_none_or(|names| names.contains(&entry.name));
        ToolResource { entry, default }
    };
    let data = api.service.tools.catalog().into_iter().map(resource).collect();
    Json(Page::whole(data))
}
