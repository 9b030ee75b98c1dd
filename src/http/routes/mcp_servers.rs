//! The MCP servers that provide tools, and whether they answer.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use crate::domain::circuit::Circuit;
use crate::domain::tool_server::ToolServerReport;
use crate::http::auth::Caller;
use crate::http::resources::Page;
use crate::http::state::Api;

/// An MCP server.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct McpServerResource {
    /// `mcp_server`.
    r#type: &'static str,
    /// The name, which the names of its tools contain: `mcp__NAME__TOOL`.
    name: String,
    status: McpServerStatus,
    /// The number of its tools, as it has last listed them.
    tools: usize,
}

/// Whether an MCP server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
enum McpServerStatus {
    /// It is connected.
    Connected,
    /// It is connected, but its last calls failed. It gets no calls for some seconds, then a single one.
    Failing,
    /// It is not connected. Its calls fail until it is connected again, which the service tries all the
    /// time.
    Disconnected,
}

/// Lists the MCP servers, with their status as the process that answers sees it.
#[utoipa::path(
    get, path = "/mcp-servers", operation_id = "list_mcp_servers", tag = "tools",
    responses((status = 200, description = "All servers.", body = Page<McpServerResource>))
)]
pub(in crate::http) async fn list_mcp_servers(
    State(api): State<Arc<Api>>,
    _caller: Caller,
) -> Json<Page<McpServerResource>> {
    let reports = api.health.tool_servers.reports();
    Json(Page::whole(reports.into_iter().map(McpServerResource::from).collect()))
}

impl From<ToolServerReport> for McpServerResource {
    fn from(report: ToolServerReport) -> Self {
        let status = match (report.is_connected, report.circuit) {
            (true, Circuit::Closed) => McpServerStatus::Connected,
            (true, Circuit::HalfOpen | Circuit::Open) => McpServerStatus::Failing,
            (false, _) => McpServerStatus::Disconnected,
        };
        Self { r#type: "mcp_server", name: report.name, status, tools: report.tools }
    }
}
