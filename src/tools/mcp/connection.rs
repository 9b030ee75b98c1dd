//! The connection to an MCP server: handshake, tool list and ping.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName};
use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientRequest, Implementation, PaginatedRequestParams,
    PingRequest, ProtocolVersion, Tool,
};
use rmcp::service::{
    ClientInitializeError, NotificationContext, Peer, PeerRequestOptions, RoleClient,
    RunningService, ServiceError, serve_client,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use tokio::sync::Notify;
use tokio::time::error::Elapsed;
use tokio_util::task::TaskTracker;

use super::failure::{bounded, why_not_begun};
use super::flood_guard::FloodGuard;
use super::lines::MAX_MESSAGE;
use super::program::Running;
use super::settings::{ServerSettings, ServerTransport};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// Timeout of a ping.
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// Limits of a tool list before filtering: pages and tools.
const MAX_PAGES: usize = 32;
const MAX_LISTED: usize = 2000;

/// An open connection to a server.
pub(super) type Connection = RunningService<RoleClient, Listener>;

/// The cause of a failed or closed connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectionError {
    #[error("the program cannot be started: {0}")]
    Start(#[from] io::Error),
    #[error("the HTTP client did not start: {0}")]
    Http(#[from] reqwest::Error),
    #[error("{}", why_not_begun(.0))]
    Begin(#[from] Box<ClientInitializeError>),
    #[error("its protocol version is not supported: {}", bounded(.0))]
    Version(String),
    #[error("its tools cannot be listed: {}", bounded(&.0.to_string()))]
    List(ServiceError),
    #[error("it does not answer")]
    Silent(#[from] Elapsed),
    #[error("it does not answer a ping: {}", bounded(&.0.to_string()))]
    Ping(ServiceError),
    #[error("it closed the connection")]
    Closed,
}

/// The handler of notifications from a server.
#[derive(Debug, Clone, Default)]
pub(super) struct Listener {
    /// Notified when the server's tool list has changed.
    pub(super) list_changed: Arc<Notify>,
}

impl ClientHandler for Listener {
    fn get_info(&self) -> ClientConfig {
        let ourselves = Implementation::new("twostep", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), ourselves)
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.list_changed.notify_one();
    }
}

/// Connects to the server and negotiates the protocol version.
pub(super) async fn connect(
    settings: &ServerSettings,
    listener: Listener,
    tasks: &TaskTracker,
) -> Result<Connection, ConnectionError> {
    let begun = match &settings.transport {
        ServerTransport::Program(program) => {
            let running = Running::start(&settings.name, program, tasks)?;
            serve_client(listener, FloodGuard::new(running)).await
        }
        ServerTransport::Http { url, headers } => {
            let transport = StreamableHttpClientTransport::with_client(client()?, to(url, headers));
            serve_client(listener, FloodGuard::new(transport)).await
        }
    };
    let connection = begun.map_err(Box::new)?;
    let version = connection.peer_info().map(|server| server.protocol_version.clone());
    match version.filter(|version| !ProtocolVersion::KNOWN_VERSIONS.contains(version)) {
        Some(unknown) => Err(ConnectionError::Version(unknown.to_string())),
        None => Ok(connection),
    }
}

/// Builds the HTTP client. It has no total timeout, because a server can send notifications at any
/// time.
fn client() -> Result<reqwest::Client, reqwest::Error> {
    reqwest::Client::builder()
        .user_agent(concat!("twostep/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_keepalive(KEEP_ALIVE)
        // The operator's headers are for this URL only.
        .redirect(reqwest::redirect::Policy::none())
        .build()
}

fn to(url: &Url, headers: &HeaderMap) -> StreamableHttpClientTransportConfig {
    let headers: HashMap<HeaderName, _> =
        headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    StreamableHttpClientTransportConfig::with_uri(url.as_str())
        .custom_headers(headers)
        .max_sse_event_size(MAX_MESSAGE)
        // A call is sent once: its outcome is unknown after the session has expired.
        .reinit_on_expired_session(false)
}

/// Requests the server's tool list, up to the limits.
pub(super) async fn list(peer: &Peer<RoleClient>) -> Result<Vec<Tool>, ConnectionError> {
    let (mut tools, mut cursor) = (Vec::new(), None);
    for _ in 0..MAX_PAGES {
        let mut wanted = PaginatedRequestParams::default();
        wanted.cursor = cursor;
        let page = peer.list_tools(Some(wanted)).await.map_err(ConnectionError::List)?;
        tools.extend(page.tools);
        cursor = page.next_cursor;
        if cursor.is_none() || tools.len() > MAX_LISTED {
            break;
        }
    }
    tools.truncate(MAX_LISTED);
    Ok(tools)
}

/// Sends a ping and waits for the response.
pub(super) async fn ping(peer: &Peer<RoleClient>) -> Result<(), ConnectionError> {
    let ping = ClientRequest::PingRequest(PingRequest::default());
    let options = PeerRequestOptions::with_timeout(PING_TIMEOUT);
    let sent = peer.send_request_with_option(ping, options).await;
    match sent.map_err(ConnectionError::Ping)?.await_response().await {
        // An error response also proves that the server is alive.
        Ok(_) | Err(ServiceError::McpError(_)) => Ok(()),
        Err(error) => Err(ConnectionError::Ping(error)),
    }
}
