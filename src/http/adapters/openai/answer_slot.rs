//! The hand-over of a complete answer from the encoder of a stream to the handler of the request.

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use futures::StreamExt as _;

use crate::http::error::ApiError;
use crate::http::server::detached::disconnected;
use crate::service::Error;

/// The error for a client that does not read it.
const CLOSED: &str = "The client has closed the connection.";

/// The answer of a stream, or the text of its error, once the stream has ended.
#[derive(Debug)]
pub(super) struct AnswerSlot<T>(Arc<Mutex<Option<Result<T, String>>>>);

impl<T> Clone for AnswerSlot<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> AnswerSlot<T> {
    pub(super) fn new() -> Self {
        Self(Arc::default())
    }

    /// Stores the answer.
    pub(super) fn put(&self, answer: Result<T, String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
    }

    /// Reads a body up to its end, and returns the answer. Returns at once if the client has closed the
    /// connection; the body is dropped then, and the run is cancelled.
    pub(super) async fn read(self, body: Body) -> Result<Result<T, String>, ApiError> {
        let mut data = body.into_data_stream();
        loop {
            let item = tokio::select! {
                item = data.next() => item,
                () = disconnected() => return Ok(Err(CLOSED.to_owned())),
            };
            match item {
                Some(Ok(_)) => {}
                Some(Err(_)) => return Err(Error::Draining.into()),
                None => break,
            }
        }
        let answer = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        answer.ok_or_else(|| ApiError::Internal("the stream of an answer ended early".into()))
    }
}
