//! A limit on unsolicited messages from a server. The MCP library accepts all messages; this filter
//! passes only those that the service uses, and closes the connection to a server that floods it.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rmcp::model::{JsonRpcMessage, ServerNotification};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::time::Instant;

/// Maximum number of unsolicited messages in one period.
const MAX_UNSOLICITED: usize = 5000;
const PERIOD: Duration = Duration::from_secs(10);
/// Maximum number of unanswered requests from the server.
const MAX_SERVER_REQUESTS: usize = 16;

/// A transport that limits unsolicited messages.
#[derive(Debug)]
pub(super) struct FloodGuard<T> {
    inner: T,
    /// Unanswered requests to the server.
    pending_requests: usize,
    /// Unanswered requests from the server.
    server_requests: Arc<AtomicUsize>,
    unsolicited: usize,
    period_start: Instant,
}

impl<T> FloodGuard<T> {
    pub(super) fn new(inner: T) -> Self {
        Self {
            inner,
            pending_requests: 0,
            server_requests: Arc::default(),
            unsolicited: 0,
            period_start: Instant::now(),
        }
    }

    /// Counts an unsolicited message. Returns `false` if the limit is exceeded.
    fn may_send_more(&mut self) -> bool {
        if self.period_start.elapsed() >= PERIOD {
            (self.period_start, self.unsolicited) = (Instant::now(), 0);
        }
        self.unsolicited += 1;
        self.unsolicited <= MAX_UNSOLICITED
    }

    /// Returns `true` if a message is passed on, and an error if the connection must be closed.
    fn filter(&mut self, message: &RxJsonRpcMessage<RoleClient>) -> Result<bool, Flood> {
        let is_answer = matches!(message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_));
        if is_answer && self.pending_requests > 0 {
            self.pending_requests -= 1;
            return Ok(true);
        }
        if !self.may_send_more() {
            return Err(Flood);
        }
        match message {
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => Ok(true),
            JsonRpcMessage::Request(_) => {
                let open = self.server_requests.fetch_add(1, Ordering::Relaxed);
                if open < MAX_SERVER_REQUESTS { Ok(true) } else { Err(Flood) }
            }
            JsonRpcMessage::Notification(received) => Ok(matches!(
                received.notification,
                ServerNotification::ToolListChangedNotification(_)
            )),
        }
    }
}

/// The server exceeded a limit.
#[derive(Debug)]
struct Flood;

impl<T: Transport<RoleClient>> Transport<RoleClient> for FloodGuard<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let is_answer = matches!(message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_));
        if matches!(message, JsonRpcMessage::Request(_)) {
            self.pending_requests += 1;
        }
        let (sending, open) = (self.inner.send(message), Arc::clone(&self.server_requests));
        async move {
            let sent = sending.await;
            if is_answer {
                let one_less = |open: usize| Some(open.saturating_sub(1));
                let _ = open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let message = self.inner.receive().await?;
            match self.filter(&message) {
                Ok(true) => return Some(message),
                Ok(false) => {}
                Err(Flood) => {
                    tracing::warn!("tool server disconnected: it exceeded the message limit");
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
