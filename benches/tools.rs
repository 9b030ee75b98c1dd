//! Measures the cost of tool calls with criterion: `cargo bench --bench tools`.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::bail;
use criterion::Criterion;
use sandbox::{Sandbox, Setting};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use twostep::domain::state_change::StateChange;
use twostep::domain::tool::{ToolClass, ToolTiming};
use twostep::tools::builtin::bash::Bash;
use twostep::tools::builtin::{self, Options};
use twostep::tools::workspace::Workspace;
use twostep::tools::{CallOutcome, Output, Registry, ToolContext, ToolError, Typed, TypedTool};

/// The measured calls: the name in the report, the tool, and its inputs, which are used in
/// rotation.
fn calls() -> Vec<(&'static str, &'static str, Vec<Value>)> {
    let edit = |old: &str, new: &str| json!({ "file_path": "edited.txt", "old_string": old, "new_string": new });
    vec![
        ("no-op", "nothing", vec![json!({})]),
        ("get_time", "get_time", vec![json!({ "timezone": "Europe/Oslo" })]),
        ("read_file 2 kB", "read_file", vec![json!({ "path": "small.txt" })]),
        ("read_file 2 MB", "read_file", vec![json!({ "path": "large.txt" })]),
        ("Read 2 kB", "Read", vec![json!({ "file_path": "small.txt" })]),
        ("Read 2 MB", "Read", vec![json!({ "file_path": "large.txt", "limit": 40_000 })]),
        (
            "write_file 2 kB",
            "write_file",
            vec![json!({ "path": "new.txt", "content": LINE.repeat(40) })],
        ),
        ("Edit in 1 MB", "Edit", vec![edit("<here>", "<there>"), edit("<there>", "<here>")]),
        ("Glob of 1000", "Glob", vec![json!({ "pattern": "*.rs" })]),
        ("Grep in 1000", "Grep", vec![json!({ "pattern": "nowhere to be found" })]),
    ]
}

const LINE: &str = "A line of text that is about fifty characters long\n";

fn main() -> anyhow::Result<()> {
    let mut criterion = Criterion::default().configure_from_args();
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let folder = TempDir::new()?;
    fill(folder.path())?;
    let mut tools = builtin::all(&Options::default());
    tools.push(Arc::new(Typed(Nothing)));
    let registry = Registry::new(tools)?;
    for (report, name, inputs) in calls() {
        measure(&mut criterion, &runtime, report, (&registry, name, &inputs), folder.path())?;
    }
    for setting in [Setting::Full, Setting::Basic] {
        let Some(bash) = bash(&runtime, setting, folder.path()) else { continue };
        let registry =
            Registry::new(builtin::all(&Options { bash: Some(bash), ..Options::default() }))?;
        let inputs = [json!({ "command": "true" })];
        let call = (&registry, "Bash", inputs.as_slice());
        measure(&mut criterion, &runtime, &format!("Bash true, {setting:?}"), call, folder.path())?;
    }
    criterion.final_summary();
    Ok(())
}

/// Creates the Bash tool with this sandbox setting, if the machine supports it.
fn bash(runtime: &Runtime, setting: Setting, folder: &Path) -> Option<Bash> {
    let sandbox = Sandbox::with_helper(setting, env!("CARGO_BIN_EXE_twostep").into())?;
    match runtime.block_on(sandbox.open(folder)) {
        Ok(_) => Some(Bash::new(sandbox, Duration::from_secs(10))),
        Err(error) => {
            eprintln!("Bash is not measured: {error}");
            None
        }
    }
}

/// Measures a call through the registry, as a run makes it: with validation, timeout and formatting
/// of the result.
fn measure(
    criterion: &mut Criterion,
    runtime: &Runtime,
    report: &str,
    (registry, name, inputs): (&Registry, &str, &[Value]),
    folder: &Path,
) -> anyhow::Result<()> {
    let context = ToolContext::without_run(Workspace::new(folder.to_owned()));
    let inputs = inputs.iter().map(to_raw_value).collect::<Result<Vec<_>, _>>()?;
    let made = AtomicUsize::new(0);
    let make = || async {
        let nth = made.fetch_add(1, Ordering::Relaxed) % inputs.len();
        let input = inputs.get(nth).map_or(RawValue::NULL, AsRef::as_ref);
        let answer = registry.call(&context, name, input).await;
        keep(&context, &answer);
        answer
    };
    // A file must have been read before it can be edited.
    let read = to_raw_value(&json!({ "file_path": "edited.txt" }))?;
    keep(&context, &runtime.block_on(registry.call(&context, "Read", &read)));
    let first = runtime.block_on(make());
    if first.is_error {
        bail!("{report} cannot be measured: {}", first.text);
    }
    criterion.bench_function(&format!("call/{report}"), |bencher| {
        bencher.to_async(runtime).iter(make);
    });
    Ok(())
}

/// Stores the file states that the model has seen, as a step does.
fn keep(context: &ToolContext, answer: &CallOutcome) {
    for change in &answer.state_changes {
        if let StateChange::FileRead { path, hash } = change {
            context.read_state.remember(path, hash);
        }
    }
}

fn fill(folder: &Path) -> anyhow::Result<()> {
    fs::write(folder.join("small.txt"), LINE.repeat(40))?;
    fs::write(folder.join("large.txt"), LINE.repeat(40_000))?;
    fs::write(folder.join("edited.txt"), LINE.repeat(10_000) + "<here>\n" + &LINE.repeat(10_000))?;
    for number in 0..1000 {
        let deeper = folder.join(format!("src/{}", number / 20));
        fs::create_dir_all(&deeper)?;
        fs::write(deeper.join(format!("{number}.rs")), LINE.repeat(20))?;
    }
    Ok(())
}

/// A tool that does nothing, to measure the cost of the registry alone.
#[derive(Debug)]
struct Nothing;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoInput {}

impl TypedTool for Nothing {
    const NAME: &'static str = "nothing";
    const DESCRIPTION: &'static str = "Does nothing.";
    const CLASS: ToolClass = ToolClass::Pure;
    const TIMING: ToolTiming = ToolTiming::Immediate;
    type Input = NoInput;

    async fn run(&self, _context: &ToolContext, _input: NoInput) -> Result<Output, ToolError> {
        Ok(Output::default())
    }
}
