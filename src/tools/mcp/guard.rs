//! What a server may send without being asked. A library takes all that comes; this lets through
//! what has a meaning here, and breaks off with those who flood.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rmcp::model::{JsonRpcMessage, ServerNotification};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::time::Instant;

/// Messages that nobody asked for, in one period.
const MOST_UNASKED: usize = 5000;
const PERIOD: Duration = Duration::from_secs(10);
/// Requests of the server that are not answered yet.
const MOST_OPEN: usize = 16;

/// A transport whose other side may flood.
#[derive(Debug)]
pub(super) struct Guarded<T> {
    inner: T,
    /// Requests of ours without an answer.
    asked: usize,
    /// Requests of theirs without an answer.
    open: Arc<AtomicUsize>,
    unasked: usize,
    since: Instant,
}

impl<T> Guarded<T> {
    pub(super) fn new(inner: T) -> Self {
        Self { inner, asked: 0, open: Arc::default(), unasked: 0, since: Instant::now() }
    }

    /// Counts a message that nobody asked for, and says whether there may be one more.
    fn may_send_more(&mut self) -> bool {
        if self.since.elapsed() >= PERIOD {
            (self.since, self.unasked) = (Instant::now(), 0);
        }
        self.unasked += 1;
        self.unasked <= MOST_UNASKED
    }

    /// Whether a message is passed on; an error if the connection has to end.
    fn judge(&mut self, message: &RxJsonRpcMessage<RoleClient>) -> Result<bool, Flood> {
        let is_answer = matches!(message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_));
        if is_answer && self.asked > 0 {
            self.asked -= 1;
            return Ok(true);
        }
        if !self.may_send_more() {
            return Err(Flood);
        }
        match message {
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => Ok(true),
            JsonRpcMessage::Request(_) => {
                let open = self.open.fetch_add(1, Ordering::Relaxed);
                if open < MOST_OPEN { Ok(true) } else { Err(Flood) }
            }
            JsonRpcMessage::Notification(told) => {
                Ok(matches!(told.notification, ServerNotification::ToolListChangedNotification(_)))
            }
        }
    }
}

/// More came than may come.
#[derive(Debug)]
struct Flood;

impl<T: Transport<RoleClient>> Transport<RoleClient> for Guarded<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let is_answer = matches!(message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_));
        if matches!(message, JsonRpcMessage::Request(_)) {
            self.asked += 1;
        }
        let (sending, open) = (self.inner.send(message), Arc::clone(&self.open));
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
            match self.judge(&message) {
                Ok(true) => return Some(message),
                Ok(false) => {}
                Err(Flood) => {
                    tracing::warn!("a tool server sends more than it may, and is broken off");
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
