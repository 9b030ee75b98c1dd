//! The routes and the OpenAPI document that is generated from their handlers.

mod document;
pub(in crate::http) mod page;
mod refusals;

use std::sync::Arc;

use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::domain::streamed::Event;
use crate::http::adapters::{ag_ui, ai_sdk, managed_agents, openai};
use crate::http::auth::{declare_open, secure};
use crate::http::error::ManagedAgentsError;
use crate::http::openapi::document::complete;
use crate::http::routes::{
    agents, approvals, browser_tokens, docs, events, explain, feedback, files, health, info,
    mcp_servers, messages, models, post_events, post_message, probe, requests, retry, runs,
    sessions, todos, tool_results, tools, usage, verify, webhooks,
};
use crate::http::server::readiness::Health;
use crate::http::state::Api;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "twostep",
        description = "A tool-using agent behind one HTTP endpoint. Post a message to a session: \
            a worker sends the conversation to the model, runs the tools that the model calls and \
            returns their results, until the model answers. Every path is also served without \
            `/v1`. Clients must ignore unknown members and event types: new ones may be added at \
            any time. A service started with `--auth open` requires no API key.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0"),
    ),
    servers((url = "/", description = "This service; under a base path, this path.")),
    components(schemas(Event, ManagedAgentsError)),
    tags(
        (name = "sessions", description = "Conversations with their settings and workspace."),
        (name = "messages", description = "The messages of a session, in the format of the Messages API."),
        (name = "files", description = "Uploaded images, PDF and texts, to which messages refer."),
        (name = "runs", description = "The work that a message starts."),
        (name = "usage", description = "Tokens and cost of model requests."),
        (name = "approvals", description = "Tool calls that wait for a decision or a result."),
        (name = "events", description = "The numbered events of a session, as pages and as streams."),
        (name = "service", description = "Information about this service."),
        (name = "agents", description = "Named, versioned settings for new sessions."),
        (name = "tools", description = "The tools that sessions can use."),
        (name = "models", description = "The models and their capabilities."),
        (name = "webhooks", description = "HTTP requests that notify a receiver about runs."),
        (name = "browser tokens", description = "Short-lived credentials for the browsers of end users."),
        (name = "ai_sdk", description = "The protocol of the AI SDK, for `useChat` and assistant-ui."),
        (name = "managed_agents", description = "The protocol of Claude Managed Agents, for the SDKs of Anthropic."),
        (name = "ag_ui", description = "The AG-UI protocol, for `@ag-ui/client` and CopilotKit."),
        (name = "openai", description = "The protocols of OpenAI's Chat Completions and Responses, for OpenAI SDKs and chat pages."),
        (name = "operations", description = "Health, metrics and documentation for operators."),
    )
)]
struct Document;

/// The routes that are served with and without the version prefix.
pub(in crate::http) fn routes() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::new()
        .routes(routes!(sessions::create_session, sessions::list_sessions))
        .routes(routes!(sessions::stream_sessions))
        .routes(routes!(sessions::create_list_ticket))
        .routes(routes!(sessions::get_session, sessions::update_session, sessions::delete_session))
        .routes(routes!(sessions::create_fork, sessions::list_forks))
        .routes(routes!(sessions::import_session))
        .routes(routes!(sessions::export_session))
        .routes(routes!(verify::verify_session))
        .routes(routes!(todos::get_todos))
        .routes(routes!(post_message::create_message, messages::list_messages))
        .routes(routes!(files::create_file))
        .routes(routes!(files::get_file, files::delete_file))
        .routes(routes!(files::get_file_content))
        .routes(routes!(files::create_session_file))
        .routes(routes!(files::get_session_file_content))
        .routes(routes!(feedback::put_feedback, feedback::delete_feedback))
        .routes(routes!(post_events::create_events, events::list_events))
        .routes(routes!(events::stream_events))
        .routes(routes!(sessions::create_ticket))
        .routes(routes!(runs::list_runs))
        .routes(routes!(runs::get_run))
        .routes(routes!(explain::explain_run))
        .routes(routes!(runs::stream_run))
        .routes(routes!(runs::cancel_run))
        .routes(routes!(retry::retry_run))
        .routes(routes!(runs::cancel_session))
        .routes(routes!(requests::list_requests))
        .routes(routes!(requests::get_request))
        .routes(routes!(usage::get_session_usage))
        .routes(routes!(usage::get_usage))
        .routes(routes!(approvals::list_approvals))
        .routes(routes!(approvals::decide_approval))
        .routes(routes!(tool_results::create_tool_results))
        .routes(routes!(info::get_info))
        .routes(routes!(tools::list_tools))
        .routes(routes!(mcp_servers::list_mcp_servers))
        .routes(routes!(models::list_models))
        .routes(routes!(agents::list_agents))
        .routes(routes!(agents::get_agent, agents::put_agent, agents::delete_agent))
        .routes(routes!(webhooks::create_webhook, webhooks::list_webhooks))
        .routes(routes!(webhooks::get_webhook, webhooks::update_webhook, webhooks::delete_webhook))
        .routes(routes!(webhooks::rotate_webhook_secret))
        .routes(routes!(webhooks::deliveries::test_webhook))
        .routes(routes!(webhooks::deliveries::list_deliveries))
        .routes(routes!(webhooks::deliveries::replay_delivery))
        .routes(routes!(webhooks::deliveries::replay_deliveries))
        .routes(routes!(
            browser_tokens::create_browser_token,
            browser_tokens::revoke_browser_tokens
        ))
        .routes(routes!(browser_tokens::revoke_browser_token))
        .routes(routes!(browser_tokens::renew_browser_token))
        .routes(routes!(probe::stream_probe))
        .routes(routes!(probe::list_probes))
}

/// The routes of other protocols, which have no version prefix.
pub(in crate::http) fn adapters() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::new()
        .routes(routes!(ai_sdk::create_chat_turn))
        .routes(routes!(ai_sdk::resume_chat))
        .routes(routes!(ai_sdk::stop_chat))
        .routes(routes!(ai_sdk::list_chat_messages))
        .routes(routes!(managed_agents::create_managed_agent, managed_agents::list_managed_agents))
        .routes(routes!(managed_agents::get_managed_agent, managed_agents::update_managed_agent))
        .routes(routes!(managed_agents::archive_managed_agent))
        .routes(routes!(
            managed_agents::create_managed_environment,
            managed_agents::list_managed_environments
        ))
        .routes(routes!(
            managed_agents::get_managed_environment,
            managed_agents::update_managed_environment,
            managed_agents::delete_managed_environment
        ))
        .routes(routes!(managed_agents::archive_managed_environment))
        .routes(routes!(
            managed_agents::create_managed_session,
            managed_agents::list_managed_sessions
        ))
        .routes(routes!(
            managed_agents::get_managed_session,
            managed_agents::update_managed_session,
            managed_agents::delete_managed_session
        ))
        .routes(routes!(managed_agents::archive_managed_session))
        .routes(routes!(managed_agents::send_managed_events, managed_agents::list_managed_events))
        .routes(routes!(managed_agents::stream_managed_events))
        .routes(routes!(managed_agents::create_managed_file))
        .routes(routes!(managed_agents::get_managed_file, managed_agents::delete_managed_file))
        .routes(routes!(managed_agents::get_managed_file_content))
        .routes(routes!(ag_ui::run_ag_ui_agent))
        .routes(routes!(ag_ui::connect_ag_ui_thread))
        .routes(routes!(openai::create_chat_completion))
        .routes(routes!(openai::create_openai_response))
        .routes(routes!(openai::get_openai_response))
        .routes(routes!(openai::cancel_openai_response))
        .routes(routes!(openai::create_openai_file))
        .routes(routes!(openai::get_openai_file, openai::delete_openai_file))
        .routes(routes!(openai::get_openai_file_content))
        .routes(routes!(openai::list_openai_models))
        .routes(routes!(openai::get_openai_model))
}

/// The routes for operators.
pub(in crate::http) fn operations() -> OpenApiRouter<Arc<Health>> {
    OpenApiRouter::new()
        .routes(routes!(health::get_health))
        .routes(routes!(health::get_readiness))
        .routes(routes!(health::get_openapi))
        .routes(routes!(docs::get_docs))
}

/// The route of the metrics, which may have an address of its own.
pub(in crate::http) fn metrics() -> OpenApiRouter<Arc<Health>> {
    OpenApiRouter::new().routes(routes!(health::get_metrics))
}

/// The complete OpenAPI document.
pub fn document() -> utoipa::openapi::OpenApi {
    let (_, mut v1) =
        OpenApiRouter::new().nest("/v1", routes()).merge(adapters()).split_for_parts();
    secure(&mut v1);
    let (_, operations) = operations().merge(metrics()).split_for_parts();
    let mut document = Document::openapi();
    document.merge(v1);
    document.merge(operations);
    refusals::complete(&mut document);
    complete(&mut document);
    declare_open(&mut document);
    document
}
