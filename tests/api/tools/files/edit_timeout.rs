//! Edits that time out, and the simpler tools that are used instead.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use twostep::domain::tool::{ToolClass, ToolTiming};
use twostep::tools::builtin::{FileOptions, all};
use twostep::tools::{ErrorStyle, Fallback, FileChange, Output, Tool, ToolContext, ToolError};

use super::{failure, read, run, service, success, updated, with};
use crate::support::Setup;

/// A built-in tool that always times out, with or without having made its change.
#[derive(Debug)]
struct TimesOut {
    tool: Arc<dyn Tool>,
    changes_file: bool,
}

impl Tool for TimesOut {
    fn name(&self) -> &str {
        self.tool.name()
    }

    fn description(&self) -> &str {
        self.tool.description()
    }

    fn input_schema(&self) -> Value {
        self.tool.input_schema()
    }

    fn class(&self) -> ToolClass {
        self.tool.class()
    }

    fn timing(&self) -> ToolTiming {
        self.tool.timing()
    }

    fn deadline(&self, _input: &RawValue) -> Duration {
        Duration::from_secs(1)
    }

    fn runs_in_parallel(&self) -> bool {
        self.tool.runs_in_parallel()
    }

    fn error_style(&self) -> ErrorStyle {
        self.tool.error_style()
    }

    fn fallback(&self) -> Option<Fallback> {
        self.tool.fallback()
    }

    fn sandbox(&self) -> Option<&'static str> {
        self.tool.sandbox()
    }

    fn call<'a>(
        &'a self,
        context: &'a ToolContext,
        input: &'a RawValue,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        self.tool.call(context, input)
    }

    fn plan<'a>(
        &'a self,
        context: &'a ToolContext,
        input: &'a RawValue,
    ) -> BoxFuture<'a, Result<FileChange, ToolError>> {
        async move {
            let change = self.tool.plan(context, input).await?;
            if self.changes_file {
                let draft = context.draft();
                context.workspace.write(&change.path, &change.content, &draft, || true)?;
            }
            futures::future::pending().await
        }
        .boxed()
    }
}

fn timing_out(names: &[&str], changes_file: bool, edit_fallback: bool) -> Setup {
    let files = FileOptions { edit_fallback, ..FileOptions::default() };
    let setup = with(files);
    let built_in = all(&setup.options).into_iter().filter(|tool| names.contains(&tool.name()));
    let tools =
        built_in.map(|tool| Arc::new(TimesOut { tool, changes_file }) as Arc<dyn Tool>).collect();
    Setup { tools, ..setup }
}

fn multi_edit(edits: &[(&str, &str)]) -> (&'static str, Value) {
    let edits: Vec<Value> =
        edits.iter().map(|(old, new)| json!({ "old_string": old, "new_string": new })).collect();
    ("MultiEdit", json!({ "file_path": "a", "edits": edits }))
}

/// The result of an edit of a file with the content `1`, and the content afterwards.
async fn outcome(tool_call: (&str, Value), setup: Setup) -> ((bool, String), String) {
    let app = service(&[read("a"), tool_call], setup).await;
    app.write_file("a", "1\n");
    let result = run(&app).await.remove(1);
    let text = fs::read_to_string(app.folder.path().join("a")).unwrap();
    (result, text)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_result_of_a_timeout_recommends_a_simpler_tool() {
    let advice = |name: &str, simpler: &str| {
        failure(&format!(
            "{name} timed out after 1 s; the change may have been made nevertheless: read the file \
             again, then use {simpler} if it was not"
        ))
    };
    let (result, text) =
        outcome(multi_edit(&[("1", "2")]), timing_out(&["MultiEdit"], false, false)).await;
    assert_eq!((result, text.as_str()), (advice("MultiEdit", "Edit"), "1\n"));
    let (result, text) =
        outcome(super::edit("a", "1", "2"), timing_out(&["Edit"], false, false)).await;
    assert_eq!((result, text.as_str()), (advice("Edit", "Write"), "1\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_timeout_leads_to_a_simpler_tool() {
    let (result, text) =
        outcome(multi_edit(&[("3", "2")]), timing_out(&["MultiEdit"], false, true)).await;
    let refused = "edit 1 of 1: old_string not found in file; no edit was made";
    assert_eq!((result, text.as_str()), (failure(refused), "1\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn simpler_tools_are_used_in_sequence_if_the_operator_enables_it() {
    let used = |simpler: &str| {
        let (_, changed) = updated("a", "     1→2");
        success(&format!(
            "MultiEdit timed out after 1 s, and the change had not been made; {simpler} was used \
             instead. {changed}"
        ))
    };
    for (names, edits, simpler) in [
        (&["MultiEdit"][..], &[("1", "2")][..], "Edit"),
        (&["MultiEdit", "Edit"], &[("1", "2")], "Write"),
        (&["MultiEdit"], &[("1", "3"), ("3", "2")], "Write"),
    ] {
        let (result, text) = outcome(multi_edit(edits), timing_out(names, false, true)).await;
        assert_eq!((result, text.as_str()), (used(simpler), "2\n"), "{names:?}");
    }
    let (result, text) = outcome(
        multi_edit(&[("1", "2")]),
        timing_out(&["MultiEdit", "Edit", "Write"], false, true),
    )
    .await;
    assert!(result.0 && result.1.contains("MultiEdit timed out"), "{result:?}");
    assert_eq!(text, "1\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_that_was_made_before_the_timeout_is_not_made_twice() {
    let (_, changed) = updated("a", "     1→12");
    let already_made =
        success(&format!("MultiEdit timed out after 1 s, but the change has been made. {changed}"));
    let (result, text) =
        outcome(multi_edit(&[("1", "12")]), timing_out(&["MultiEdit"], true, true)).await;
    assert_eq!((result, text.as_str()), (already_made, "12\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_simpler_tool_creates_a_new_file_without_a_read() {
    let new = ("Edit", json!({ "file_path": "b", "old_string": "", "new_string": "new\n" }));
    let app = service(&[new], timing_out(&["Edit"], false, true)).await;
    let (_, changed) = updated("b", "     1→new");
    assert_eq!(
        run(&app).await,
        [success(&format!(
            "Edit timed out after 1 s, and the change had not been made; Write was used instead. \
             {changed}"
        ))]
    );
}
