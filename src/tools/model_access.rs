//! The way to the model, for tools that have something to ask it.

use tokio::sync::{mpsc, oneshot};

use super::{ToolContext, ToolError};
use crate::domain::sampling::SamplingRequest;

/// A question on its way to whoever drives the run, and the way back for its answer. A way back
/// that is closed means that the tool waits no longer.
#[derive(Debug)]
pub struct Inquiry {
    /// What is asked.
    pub question: SamplingRequest,
    /// Where the answer is waited for.
    pub answer: oneshot::Sender<Result<String, ToolError>>,
}

/// How a tool reaches the model, if there is one: through the run that it works for, so that what
/// it asks is paid for, limited, recorded and stopped with the run.
#[derive(Debug, Clone, Default)]
pub struct ModelAccess(Option<mpsc::Sender<Inquiry>>);

impl ModelAccess {
    /// The way to the model, and its other end.
    pub fn open() -> (Self, mpsc::Receiver<Inquiry>) {
        // Whoever has asked waits for the answer.
        let (sender, receiver) = mpsc::channel(1);
        (Self(Some(sender)), receiver)
    }
}

impl ToolContext {
    /// Asks the session's model for a text. It knows nothing of the conversation and has no tools.
    pub async fn ask_model(
        &self,
        system: Option<&str>,
        prompt: String,
        max_tokens: u32,
    ) -> Result<String, ToolError> {
        let nobody = || ToolError::Failed("there is no model to ask here".to_owned());
        let Some(model) = &self.model.0 else { return Err(nobody()) };
        let tool_use_id = self.tool_use_id.clone();
        let system = system.map(str::to_owned);
        let question = SamplingRequest { tool_use_id, system, prompt, max_tokens };
        let (answer, answered) = oneshot::channel();
        model.send(Inquiry { question, answer }).await.map_err(|_| nobody())?;
        answered.await.map_err(|_| nobody())?
    }
}
