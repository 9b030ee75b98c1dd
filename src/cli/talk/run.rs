//! Runs and approvals, as far as somebody at a terminal needs to know them.

use serde::Deserialize;
use serde_json::Value;

use crate::cli::client::{Client, Failure};
use crate::cli::terminal::one_line;
use crate::domain::permission::Awaits;
use crate::domain::run::RunStatus;

/// A run.
#[derive(Debug, Deserialize)]
pub(in crate::cli) struct Run {
    pub(in crate::cli) id: String,
    pub(in crate::cli) status: RunStatus,
    pub(in crate::cli) output_text: Option<String>,
    stop_reason: Option<StopReason>,
    limited_by: Option<String>,
    error: Option<Trouble>,
    #[serde(default)]
    pub(in crate::cli) pending: Vec<Pending>,
    /// All that the service says of it.
    #[serde(skip)]
    pub(in crate::cli) whole: Value,
}

#[derive(Debug, Deserialize)]
struct StopReason {
    r#type: String,
}

#[derive(Debug, Deserialize)]
struct Trouble {
    r#type: String,
    message: String,
}

/// A call that waits for somebody.
#[derive(Debug, Deserialize)]
pub(in crate::cli) struct Pending {
    pub(in crate::cli) name: String,
    input: Value,
    pub(in crate::cli) awaits: Awaits,
}

impl Pending {
    /// The call on one line.
    pub(in crate::cli) fn line(&self) -> String {
        let whom = match self.awaits {
            Awaits::Approval => "an approval",
            Awaits::Client => "a result that its client gives",
        };
        one_line(&format!("{} waits for {whom}: {}", self.name, self.input))
    }
}

impl Run {
    /// Reads what the service says of a run.
    pub(super) fn read(client: &Client, whole: Value) -> Result<Self, Failure> {
        let run = Self::deserialize(&whole);
        let run = run.map_err(|_| Failure::strange(client, "with something that is no run"))?;
        Ok(Self { whole, ..run })
    }

    /// The run of a session that waits for somebody, if there is one.
    pub(in crate::cli) async fn that_waits(
        client: &Client,
        session: &str,
    ) -> Result<Option<Self>, Failure> {
        let query = [("status", "requires_action"), ("limit", "1")];
        let mut page = client.get_with(&["sessions", session, "runs"], &query).send().await?;
        let run = page.pointer_mut("/data/0").map(Value::take);
        run.map(|run| Self::read(client, run)).transpose()
    }

    /// Why there is no answer, or not the whole of it, on one line.
    pub(in crate::cli) fn trouble(&self) -> Option<String> {
        if let Some(Trouble { r#type, message }) = &self.error {
            return Some(one_line(&format!("{type}: {message}")));
        }
        if let Some(limit) = &self.limited_by {
            return Some(one_line(&format!("a limit was reached: {limit}")));
        }
        let word = self.stop_reason.as_ref().map(|reason| &*reason.r#type)?;
        let is_plain = matches!(word, "end_turn" | "stop_sequence" | "requires_action");
        (!is_plain).then(|| one_line(&format!("the answer has ended early: {word}")))
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
    /// Those of a session, in the order of the calls.
    pub(super) async fn list(client: &Client, session: &str) -> Result<Vec<Self>, Failure> {
        #[derive(Deserialize)]
        struct Page {
            data: Vec<Approval>,
        }
        let page = client.get(&["sessions", session, "approvals"]).send().await?;
        let page = Page::deserialize(page);
        page.map(|page| page.data)
            .map_err(|_| Failure::strange(client, "with something that is no list of approvals"))
    }
}
