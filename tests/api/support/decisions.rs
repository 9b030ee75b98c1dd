//! Approvals and results of the client for runs that wait for them.

use std::time::Duration;

use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};
use twostep::domain::permission::PermissionMode;
use twostep::domain::tool::{ToolClass, ToolTiming};
use twostep::tools::policy::OperatorPolicy;
use twostep::tools::{Output, ToolContext, ToolError, TypedTool};

use super::{Session, Setup};

/// A service that asks for approval of every call with effects.
pub(crate) fn asks() -> Setup {
    asks_for_approval_within(Duration::from_mins(10))
}

/// As [`asks`], with another time limit for the decision.
pub(crate) fn asks_for_approval_within(answer_within: Duration) -> Setup {
    let default_mode = PermissionMode::Default;
    let policy = OperatorPolicy { default_mode, answer_within, ..OperatorPolicy::default() };
    Setup {
        permissions: Some(policy),
        tools: vec![std::sync::Arc::new(twostep::tools::Typed(Bell))],
        ..Setup::default()
    }
}

/// A tool whose effects can be counted: each call appends a line to a file.
#[derive(Debug)]
pub(crate) struct Bell;

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct Ring {
    /// The text of the line.
    line: String,
}

/// The file to which [`Bell`] writes.
pub(crate) const BELL: &str = "bell.txt";

impl TypedTool for Bell {
    const NAME: &'static str = "ring";
    const DESCRIPTION: &'static str = "Rings the bell.";
    const CLASS: ToolClass = ToolClass::Effect;
    const TIMING: ToolTiming = ToolTiming::Fast;
    type Input = Ring;

    async fn run(&self, context: &ToolContext, input: Ring) -> Result<Output, ToolError> {
        use std::io::Write as _;
        let path = context.workspace.root().join(BELL);
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        writeln!(file, "{}", input.line).unwrap();
        Ok(Output::from(format!("Rang: {}", input.line)))
    }
}

/// A reply of tool calls with given ids: id, tool, input.
pub(crate) fn calls_as(calls: &[(&str, &str, Value)]) -> Value {
    let block = |(id, name, input): &(&str, &str, Value)| json!({ "type": "tool_use", "id": id, "name": name, "input": input });
    json!({ "content": calls.iter().map(block).collect::<Vec<_>>() })
}

impl Session<'_> {
    /// A request with a decision on a call.
    pub(crate) fn decide(&self, tool_use_id: &str, body: &Value) -> RequestBuilder {
        self.app.post(&self.path(&format!("/approvals/{tool_use_id}"))).json(body)
    }

    /// Allows a call, with further members of the decision.
    pub(crate) async fn allow(&self, tool_use_id: &str, mut more: Value) -> Value {
        more["decision"] = json!("allow");
        self.accepted(self.decide(tool_use_id, &more)).await
    }

    /// Denies a call.
    pub(crate) async fn deny(&self, tool_use_id: &str, reason: &str) -> Value {
        let body = json!({ "decision": "deny", "message": reason });
        self.accepted(self.decide(tool_use_id, &body)).await
    }

    /// A request with results of calls that the client runs.
    pub(crate) fn submit_results(&self, results: &Value) -> RequestBuilder {
        self.app.post(&self.path("/tool_results")).json(&json!({ "results": results }))
    }

    /// Sends a request and checks that the service accepts it.
    pub(crate) async fn accepted(&self, request: RequestBuilder) -> Value {
        let response: Response = request.send().await.unwrap();
        let status = response.status();
        let body: Value = response.json().await.unwrap();
        assert_eq!(status, 202, "{body}");
        body
    }

    /// The calls that wait for approval.
    pub(crate) async fn approvals(&self) -> Value {
        let response = self.app.get(&self.path("/approvals")).send().await.unwrap();
        response.json::<Value>().await.unwrap()["data"].take()
    }

    /// The session resource.
    pub(crate) async fn read(&self) -> Value {
        self.app.get(&self.path("")).send().await.unwrap().json().await.unwrap()
    }

    /// Waits until a run waits for exactly these calls.
    pub(crate) async fn waits_for(&self, run: &Value, ids: &[&str]) -> Value {
        let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
        loop {
            let run = self.run(run).await;
            if run["status"] == "requires_action" && pending(&run) == ids {
                return run;
            }
            assert!(
                tokio::time::Instant::now() < deadline,
                "the run does not wait for {ids:?}: {run}"
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// The types of all events in order, without those of model requests.
    pub(crate) async fn kinds(&self) -> Vec<String> {
        let kinds = self.events().await.into_iter();
        let kinds = kinds.map(|event| event["type"].as_str().unwrap().to_owned());
        kinds.filter(|kind| !kind.starts_with("span.")).collect()
    }
}

/// The ids of the calls that a run waits for.
pub(crate) fn pending(run: &Value) -> Vec<&str> {
    let calls = run["pending"].as_array().map(Vec::as_slice).unwrap_or_default();
    calls.iter().map(|call| call["tool_use_id"].as_str().unwrap()).collect()
}
