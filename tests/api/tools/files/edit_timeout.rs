//! What becomes of an edit that was not made in time.

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

use super::{fine, read, run, service, updated, with, wrapped};
use crate::support::Setup;

/// One of our tools, too late: it answers nothing, and may have made its change all the same.
#[derive(Debug)]
struct Late {
    tool: Arc<dyn Tool>,
    lands: bool,
}

impl Tool for Late {
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
            if self.lands {
                let draft = context.draft();
                context.workspace.write(&change.path, &change.content, &draft, || true)?;
            }
            futures::future::pending().await
        }
        .boxed()
    }
}

fn late(names: &[&str], lands: bool, edit_fallback: bool) -> Setup {
    let files = FileOptions { edit_fallback, ..FileOptions::default() };
    let setup = with(files);
    let ours = all(&setup.options).into_iter().filter(|tool| names.contains(&tool.name()));
    let tools = ours.map(|tool| Arc::new(Late { tool, lands }) as Arc<dyn Tool>).collect();
    Setup { tools, ..setup }
}

fn multi_edit(edits: &[(&str, &str)]) -> (&'static str, Value) {
    let edits: Vec<Value> =
        edits.iter().map(|(old, new)| json!({ "old_string": old, "new_string": new })).collect();
    ("MultiEdit", json!({ "file_path": "a", "edits": edits }))
}

/// What comes of edits of a file that says 1, and what it says then.
async fn outcome(asked: (&str, Value), setup: Setup) -> ((bool, String), String) {
    let app = service(&[read("a"), asked], setup).await;
    app.write_file("a", "1\n");
    let result = run(&app).await.remove(1);
    let text = fs::read_to_string(app.folder.path().join("a")).unwrap();
    (result, text)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_simpler_tool_is_advised_on_a_timeout() {
    let advice = |name: &str, simpler: &str| {
        wrapped(&format!(
            "{name} timed out after 1 s; the change may have been made all the same: read the \
             file again, then use {simpler} if it was not"
        ))
    };
    let (result, text) =
        outcome(multi_edit(&[("1", "2")]), late(&["MultiEdit"], false, false)).await;
    assert_eq!((result, text.as_str()), (advice("MultiEdit", "Edit"), "1\n"));
    let (result, text) = outcome(super::edit("a", "1", "2"), late(&["Edit"], false, false)).await;
    assert_eq!((result, text.as_str()), (advice("Edit", "Write"), "1\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_timeout_is_a_reason_for_a_simpler_tool() {
    let (result, text) =
        outcome(multi_edit(&[("3", "2")]), late(&["MultiEdit"], false, true)).await;
    let refused = "edit 1 of 1: old_string not found in file; no edit was made";
    assert_eq!((result, text.as_str()), (wrapped(refused), "1\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_simpler_tools_are_used_one_after_the_other_where_the_operator_wants_it() {
    let used = |simpler: &str| {
        let (_, changed) = updated("a", "     1→2");
        fine(&format!(
            "MultiEdit timed out after 1 s, and the change had not been made; {simpler} was used \
             instead. {changed}"
        ))
    };
    for (names, edits, simpler) in [
        (&["MultiEdit"][..], &[("1", "2")][..], "Edit"),
        (&["MultiEdit", "Edit"], &[("1", "2")], "Write"),
        (&["MultiEdit"], &[("1", "3"), ("3", "2")], "Write"),
    ] {
        let (result, text) = outcome(multi_edit(edits), late(names, false, true)).await;
        assert_eq!((result, text.as_str()), (used(simpler), "2\n"), "{names:?}");
    }
    let (result, text) =
        outcome(multi_edit(&[("1", "2")]), late(&["MultiEdit", "Edit", "Write"], false, true))
            .await;
    assert!(result.0 && result.1.contains("MultiEdit timed out"), "{result:?}");
    assert_eq!(text, "1\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_that_landed_although_it_was_late_is_not_made_twice() {
    let (_, changed) = updated("a", "     1→12");
    let landed =
        fine(&format!("MultiEdit timed out after 1 s, but the change has been made. {changed}"));
    let (result, text) =
        outcome(multi_edit(&[("1", "12")]), late(&["MultiEdit"], true, true)).await;
    assert_eq!((result, text.as_str()), (landed, "12\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_file_is_made_by_the_simpler_tool_without_a_look() {
    let new = ("Edit", json!({ "file_path": "b", "old_string": "", "new_string": "new\n" }));
    let app = service(&[new], late(&["Edit"], false, true)).await;
    let (_, changed) = updated("b", "     1→new");
    assert_eq!(
        run(&app).await,
        [fine(&format!(
            "Edit timed out after 1 s, and the change had not been made; Write was used instead. \
             {changed}"
        ))]
    );
}
