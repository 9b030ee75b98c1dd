//! Counts the tokens of a request: `POST /v1/messages/count_tokens`.

use std::time::Duration;

use serde::Deserialize;

use super::client::Client;
use super::platform::Authorized;
use crate::domain::platform::Platform;
use crate::model::error::ModelError;
use crate::model::request::Request;

/// The timeout. It is short because the run waits for the count, and an estimate is available.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum token count; a higher one is malformed.
const MAX_TOKENS: i64 = 1_000_000_000;

#[derive(Deserialize)]
struct Counted {
    input_tokens: i64,
}

impl Client {
    /// Returns the number of input tokens of this body, as the server counts them.
    pub async fn count_tokens(&self, request: Request) -> Result<i64, ModelError> {
        let is_vertex = self.platform() == Some(Platform::Vertex);
        let name = if is_vertex { "count-tokens:rawPredict" } else { "count_tokens" };
        let endpoint = self.messages.child(name);
        let Authorized { post, .. } = self.authorized(&endpoint, &request).await?;
        let answer = endpoint.fetch_object(post, TIMEOUT).await?;
        let counted: Counted = serde_json::from_slice(&answer)
            .map_err(|error| ModelError::Malformed(format!("a count is not readable: {error}")))?;
        // Some servers have the endpoint but always return 0.
        if !(1..=MAX_TOKENS).contains(&counted.input_tokens) {
            return Err(ModelError::Malformed(format!("{} tokens", counted.input_tokens)));
        }
        Ok(counted.input_tokens)
    }
}
