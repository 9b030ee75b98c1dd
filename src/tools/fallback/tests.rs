//! A fallback after a timeout has no more permissions than the tool that it replaces.

use std::fs;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::domain::tool::{ToolClass, ToolTiming};
use crate::domain::tool_error::ToolErrorType;
use crate::tools::builtin;
use crate::tools::registry::CallOutcome;
use crate::tools::tool::Tool;
use crate::tools::typed::{Typed, TypedTool};
use crate::tools::workspace::Workspace;

/// An Edit tool that always exceeds its deadline.
#[derive(Debug)]
struct Late(Duration);

impl TypedTool for Late {
    const NAME: &'static str = edit::NAME;
    const DESCRIPTION: &'static str = "Does not come to an end.";
    const CLASS: ToolClass = ToolClass::Checkable;
    const TIMING: ToolTiming = ToolTiming::Fast;
    type Input = edit::EditInput;

    fn deadline(&self, _input: &RawValue) -> Duration {
        self.0
    }

    fn fallback(&self) -> Option<Fallback> {
        Some(Fallback { simpler: write::NAME, is_automatic: true })
    }

    async fn plan(&self, _: &ToolContext, _: edit::EditInput) -> Result<FileChange, ToolError> {
        futures::future::pending().await
    }
}

/// A file that the model has read, an Edit call with the given deadline, and a Write tool.
struct Fixture {
    folder: TempDir,
    context: ToolContext,
    registry: Registry,
    input: Box<RawValue>,
}

fn fixture(file: &[u8], deadline: Duration) -> Fixture {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("a"), file).unwrap();
    let context = ToolContext::without_run(Workspace::new(folder.path().to_owned()));
    context.read_state.remember("a", &hash(file));
    let tools = builtin::all(&builtin::Options::default());
    let simpler = tools.into_iter().find(|tool| tool.name() == write::NAME);
    let late: Arc<dyn Tool> = Arc::new(Typed(Late(deadline)));
    let registry = Registry::new([late].into_iter().chain(simpler).collect()).unwrap();
    let input = json!({ "file_path": "a", "old_string": "1", "new_string": "2" });
    Fixture { folder, context, registry, input: to_raw_value(&input).unwrap() }
}

/// Returns the result of the Edit and the content of the file afterwards.
async fn edited(file: &[u8]) -> (CallOutcome, Vec<u8>) {
    let Fixture { folder, context, registry, input } = fixture(file, Duration::from_secs(2));
    let answer = registry.call(&context, edit::NAME, &input).await;
    (answer, fs::read(folder.path().join("a")).unwrap())
}

fn error(text: &str, error_type: Option<ToolErrorType>) -> CallOutcome {
    CallOutcome {
        text: text.to_owned(),
        images: Vec::new(),
        is_error: true,
        error_type,
        state_changes: Vec::new(),
        sources: Vec::new(),
        sandbox: None,
    }
}

#[tokio::test]
async fn the_fallback_does_not_write_a_file_of_unknown_encoding() {
    let latin = b"caf\xe9 1\n";
    let refused = "Error: a is neither UTF-8 nor UTF-16, and an edit would damage it; to replace \
        it, write the whole file";
    let (answer, after) = edited(latin).await;
    assert_eq!((answer, after.as_slice()), (error(refused, None), latin.as_slice()));
    let (answer, after) = edited(b"caf\xc3\xa9 1\n").await;
    assert_eq!((answer.is_error, after.as_slice()), (false, b"caf\xc3\xa9 2\n".as_slice()));
}

#[tokio::test]
async fn reading_the_file_for_a_fallback_has_the_deadline_of_the_tool() {
    // Reading 15 MiB takes longer than a millisecond on any machine.
    let large = [b"1\n".as_slice(), &vec![b'x'; 15 * 1024 * 1024]].concat();
    let Fixture { folder: _folder, context, registry, input } =
        fixture(&large, Duration::from_millis(1));
    let expected = "Error: Edit timed out after 0 s; the change may have been made nevertheless: read \
        the file again, then use Write if it was not";
    let planned = registry.plan(&context, edit::NAME, &input).await;
    let planned = planned.map(|change| change.result);
    assert_eq!(planned, Err(error(expected, Some(ToolErrorType::Timeout))));
}
