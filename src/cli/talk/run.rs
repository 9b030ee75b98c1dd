//! Runs and approvals, with the members that commands show.

use serde::Deserialize;
use serde_json::Value;

use crate::cli::client::{Client, Failure};
use crate::cli::terminal::one_line;
use crate::domain::permission::Awaits;
use crate::domain::run_status::RunStatus;

/// A run.
#[derive(Debug, Deserialize)]
pub(in crate::cli) struct Run {
    pub(in crate::cli) id: String,
    pub(in crate::cli) status: RunStatus,
    pub(in crate::cli) output_text: Option<String>,
    stop_reason: Option<StopReason>,
    limited_by: Option<String>,
    error: Option<RunError>,
    #[serde(default)]
    pub(in crate::cli) pending: Vec<Pending>,
    /// The complete JSON of the service.
    #[serde(skip)]
    pub(in crate::cli) whole: Value,
}

#[derive(Debug, Deserialize)]
struct StopReason {
    r#type: String,
}

#[derive(Debug, Deserialize)]
struct RunError {
    r#type: String,
    message: String,
}

/// A call that waits for an approval or a client result.
#[derive(Debug, Deserialize)]
pub(in crate::cli) struct Pending {
    pub(in crate::cli) name: String,
    input: Value,
    pub(in crate::cli) awaits: Awaits,
}

impl Pending {
    /// Describes the call on one line.
    pub(in crate::cli) fn line(&self) -> String {
        let whom = match self.awaits {
            Awaits::Approval => "an approval",
            Awaits::Client => "a result from its client",
        };
        one_line(&format!("{} waits for {whom}: {}", self.name, self.input))
    }
}

impl Run {
    /// Parses a run.
    pub(super) fn read(client: &Client, whole: Value) -> Result<Self, Failure> {
        let run = Self::deserialize(&whole);
        let run = run.map_err(|_| Failure::unexpected(client, "the body is not a run"))?;
        Ok(Self { whole, ..run })
    }

    /// Returns the run of a session that waits for an action, if one exists.
    pub(in crate::cli) async fn find_waiting(
        client: &Client,
        session: &str,
    ) -> Result<Option<Self>, Failure> {
        let query = [("status", "requires_action"), ("limit", "1")];
        let mut page = client.get_with(&["sessions", session, "runs"], &query).send().await?;
        let run = page.pointer_mut("/data/0").map(Value::take);
        run.map(|run| Self::read(client, run)).transpose()
    }

    /// Describes on one line why the answer is missing or incomplete.
    pub(in crate::cli) fn problem(&self) -> Option<String> {
        if let Some(RunError { r#type, message }) = &self.error {
            return Some(one_line(&format!("{type}: {message}")));
        }
        if let Some(limit) = &self.limited_by {
            return Some(one_line(&format!("a limit was reached: {limit}")));
        }
        let reason = self.stop_reason.as_ref().map(|reason| &*reason.r#type)?;
        let is_normal = matches!(reason, "end_turn" | "stop_sequence" | "requires_action");
        (!is_normal).then(|| one_line(&format!("the answer ended early: {reason}")))
    }
}

/// A call that waits for a decision.
#[derive(Debug, Deserialize)]
pub(in crate::cli) struct Approval {
    pub(in crate::cli) tool_use_id: String,
    pub(in crate::cli) name: String,
    pub(in crate::cli) display: String,
    pub(in crate::cli) reason: Option<String>,
    pub(in crate::cli) diff: Option<String>,
}

impl Approval {
    /// Returns the approvals of a session, in the order of the calls.
    pub(super) async fn list(client: &Client, session: &str) -> Result<Vec<Self>, Failure> {
        #[derive(Deserialize)]
        struct Page {
            data: Vec<Approval>,
        }
        let page = client.get(&["sessions", session, "approvals"]).send().await?;
        let page = Page::deserialize(page);
        page.map(|page| page.data)
            .map_err(|_| Failure::unexpected(client, "the body is not a list of approvals"))
    }
}
