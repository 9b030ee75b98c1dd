//! Requests from tools to the session's model (sampling).

use tokio::sync::{mpsc, oneshot};

use super::error::ToolError;
use super::tool::ToolContext;
use crate::domain::hidden_text::into_shown;
use crate::domain::sampling::SamplingRequest;
use crate::domain::storable::without_nul;

/// A sampling request from a tool to its run, with the channel for the answer. A closed channel
/// means that the tool no longer waits.
#[derive(Debug)]
pub struct SamplingCall {
    /// The prompt and its parameters.
    pub question: SamplingRequest,
    /// The channel to which the run sends the completion.
    pub answer: oneshot::Sender<Result<String, ToolError>>,
}

/// Access of a tool to the model. Requests pass through the run that the tool belongs to, so that
/// their tokens are charged, limited, recorded and cancelled with the run. The default value has no
/// model.
#[derive(Debug, Clone, Default)]
pub struct SamplingAccess(Option<mpsc::Sender<SamplingCall>>);

impl SamplingAccess {
    /// Creates the access and the receiver of its requests.
    pub fn open() -> (Self, mpsc::Receiver<SamplingCall>) {
        // A capacity of 1 is enough because each sender waits for its answer.
        let (sender, receiver) = mpsc::channel(1);
        (Self(Some(sender)), receiver)
    }
}

impl ToolContext {
    /// Requests a completion from the session's model. The request contains no part of the
    /// conversation and no tools.
    pub async fn ask_model(
        &self,
        system: Option<&str>,
        prompt: String,
        max_tokens: u32,
    ) -> Result<String, ToolError> {
        let unavailable = || ToolError::Failed("the call has no access to a model".to_owned());
        let Some(model) = &self.model.0 else { return Err(unavailable()) };
        let tool_use_id = self.tool_use_id.clone();
        // The prompt may contain a page or a file. It is stored with the request.
        let prompt = into_shown(without_nul(prompt));
        let system = system.map(str::to_owned);
        let question = SamplingRequest { tool_use_id, system, prompt, max_tokens };
        let (answer, answered) = oneshot::channel();
        model.send(SamplingCall { question, answer }).await.map_err(|_| unavailable())?;
        answered.await.map_err(|_| unavailable())?
    }
}
