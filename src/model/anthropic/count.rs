//! Asks how many tokens a request would have: `POST /v1/messages/count_tokens`.

use std::time::Duration;

use serde::Deserialize;

use super::client::{Client, with_betas};
use crate::model::{ModelError, Request};

/// The question stands in the way of an answer, and there are other ways to an estimate.
const WITHIN: Duration = Duration::from_secs(10);

/// More than any request can have.
const MAX_TOKENS: i64 = 1_000_000_000;

#[derive(Deserialize)]
struct Counted {
    input_tokens: i64,
}

impl Client {
    /// The tokens of this body, as the model's side counts them.
    pub async fn count_tokens(&self, request: Request) -> Result<i64, ModelError> {
        let endpoint = self.messages.beneath("count_tokens");
        let answer = endpoint.answer(with_betas(&endpoint, request), WITHIN).await?;
        let counted: Counted = serde_json::from_slice(&answer)
            .map_err(|error| ModelError::Malformed(format!("a count is not readable: {error}")))?;
        // Some servers answer, and do not count.
        if !(1..=MAX_TOKENS).contains(&counted.input_tokens) {
            return Err(ModelError::Malformed(format!("{} tokens", counted.input_tokens)));
        }
        Ok(counted.input_tokens)
    }
}
