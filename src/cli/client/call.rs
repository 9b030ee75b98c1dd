//! One request, with retries where they are safe.

use std::sync::atomic::Ordering;

use reqwest::{RequestBuilder, Response};
use serde_json::Value;

use super::backoff::Backoff;
use super::{Client, Failure};

/// A request to be sent.
#[derive(Debug)]
#[must_use]
pub(in crate::cli) struct Call<'a> {
    client: &'a Client,
    request: RequestBuilder,
    is_once: bool,
}

impl<'a> Call<'a> {
    pub(super) fn new(client: &'a Client, request: RequestBuilder) -> Self {
        Self { client, request, is_once: false }
    }

    pub(in crate::cli) fn json(self, body: &Value) -> Self {
        Self { request: self.request.json(body), ..self }
    }

    pub(in crate::cli) fn header(self, name: &'static str, value: &str) -> Self {
        Self { request: self.request.header(name, value), ..self }
    }

    /// Disables retries, for a request that is not idempotent.
    pub(in crate::cli) fn once(self) -> Self {
        Self { is_once: true, ..self }
    }

    /// Sends the request once and returns the response if its status is a success.
    pub(super) async fn head(&self) -> Result<Response, Failure> {
        let Some(request) = self.request.try_clone() else {
            return Err(Failure::unexpected(self.client, "the request body cannot be repeated"));
        };
        let had_answered = self.client.has_answered.load(Ordering::Relaxed);
        let answer = request.send().await;
        let answer =
            answer.map_err(|error| Failure::no_response(self.client, !had_answered, error))?;
        self.client.has_answered.store(true, Ordering::Relaxed);
        if answer.status().is_success() {
            return Ok(answer);
        }
        Err(Failure::of(self.client, answer).await)
    }

    /// Sends the request with retries and returns the JSON body; null for an empty body.
    pub(in crate::cli) async fn send(self) -> Result<Value, Failure> {
        let mut backoff = Backoff::default();
        loop {
            let failure = match self.answer().await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            let may_try = !self.is_once && failure.is_temporary();
            if !may_try || !backoff.wait(failure.retry_after()).await {
                return Err(failure);
            }
        }
    }

    async fn answer(&self) -> Result<Value, Failure> {
        let body = self.head().await?.bytes().await;
        let body = body.map_err(|error| Failure::no_response(self.client, false, error))?;
        if body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&body)
            .map_err(|_| Failure::unexpected(self.client, "the body is not JSON"))
    }
}
