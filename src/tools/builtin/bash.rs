//! `Bash`: runs a command in a sandbox.

use std::fmt::Write as _;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::blocking;
use crate::domain::provenance::ResultOrigin;
use crate::domain::tool::{ToolClass, ToolTiming};
use crate::tools::error::{ErrorStyle, ToolError};
use crate::tools::output::Output;
use crate::tools::tool::ToolContext;
use crate::tools::typed::TypedTool;
use crate::tools::workspace::PROTECTED;
use sandbox::{self, Ending, Excerpt, Job, Outcome, Sandbox, SandboxError};

/// The time that the sandbox has to terminate a command after its deadline.
const TO_END: Duration = Duration::from_secs(5);

/// The maximum number of bytes of each stream that the model reads. The sum is less than the limit
/// of a result, so that the exit code at its end is not truncated.
const MAX_STDOUT: usize = 64 * 1024;
const MAX_STDERR: usize = 24 * 1024;

/// The `Bash` tool.
#[derive(Debug, Clone)]
pub struct Bash {
    sandbox: Sandbox,
    timeout: Duration,
}

/// A command to run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BashInput {
    /// The command, for `bash -c`.
    command: String,
    /// The timeout in milliseconds, at most 600000. The command is then terminated.
    #[serde(default)]
    #[schemars(range(min = 1, max = 600_000))]
    timeout: Option<u64>,
    /// A description of the command in 5 to 10 words, for people who follow the work.
    #[serde(default)]
    #[expect(dead_code, reason = "people read it in the call itself")]
    description: Option<String>,
}

impl Bash {
    /// The maximum timeout that a call may request.
    pub const MAX_TIMEOUT: Duration = Duration::from_mins(10);

    /// Creates the tool with a sandbox and the default timeout.
    pub fn new(sandbox: Sandbox, timeout: Duration) -> Self {
        Self { sandbox, timeout }
    }

    /// Returns the sandbox in which commands run.
    pub const fn confinement(&self) -> &Sandbox {
        &self.sandbox
    }

    /// Formats the outcome of a command. Output that is too long for the model is also stored as a
    /// file, as much of it as was kept.
    async fn text(context: &ToolContext, outcome: &Outcome) -> String {
        let shown = Printed::of(outcome, MAX_STDOUT, MAX_STDERR);
        let text = shown.text(outcome.ending);
        if shown.is_complete() {
            return text;
        }
        let kept = Printed::of(outcome, usize::MAX, usize::MAX);
        let (whole, content) = (kept.content_of_file(), kept.text(outcome.ending));
        let (workspace, draft) = (context.workspace.clone(), context.draft());
        match blocking(move || workspace.store_result(&content, &draft)).await {
            Ok(path) => format!("{text}\n[{whole} is in the file {path}]"),
            Err(_not_stored) => text,
        }
    }

    fn timeout(&self, timeout_ms: Option<u64>) -> Duration {
        timeout_ms.map_or(self.timeout, Duration::from_millis).min(Self::MAX_TIMEOUT)
    }
}

impl TypedTool for Bash {
    const NAME: &'static str = "Bash";
    const DESCRIPTION: &'static str = "Runs a command with bash in a sandbox and returns its \
        stdout, its stderr and its exit code. Use it for work that no other tool does: building, \
        testing, computing, working on many files at once. It starts in the workspace. It can \
        write to the workspace and to a temporary folder, $TMPDIR, which is deleted after the \
        command. There is no network, no terminal and no input. Background processes are \
        terminated when the command ends. Of long output only the beginning and the end are \
        returned; a file that you can read has up to 1 MiB of each of stdout and stderr, of longer \
        output the beginning and the end. Version \
        control and other protected files of the workspace may be read-only. Each call starts a \
        new shell: a `cd` or a variable does not persist.";
    const CLASS: ToolClass = ToolClass::Effect;
    const TIMING: ToolTiming = ToolTiming::Variable;
    const RESULT_ORIGIN: ResultOrigin = ResultOrigin::Directed;
    const ERROR_STYLE: ErrorStyle = ErrorStyle::Wrapped;
    type Input = BashInput;

    fn sandbox(&self) -> Option<&'static str> {
        self.sandbox.level().map(sandbox::Level::as_str)
    }

    /// Returns the deadline of a call. It is later than that of the command, so that the sandbox
    /// terminates the command and the model receives the output up to then.
    fn deadline(&self, input: &RawValue) -> Duration {
        match serde_json::from_str::<BashInput>(input.get()) {
            Ok(input) => self.timeout(input.timeout) + TO_END,
            Err(_no_call) => self.timeout,
        }
    }

    async fn run(&self, context: &ToolContext, input: BashInput) -> Result<Output, ToolError> {
        let workspace = context.workspace.clone();
        let open = move || Ok((workspace.identity()?, workspace.folder()?));
        let (identity, folder) = blocking(open).await?;
        let deadline = self.timeout(input.timeout);
        let job = Job {
            command: &input.command,
            workspace: &folder,
            identity,
            protected: &PROTECTED,
            deadline,
        };
        let level = tracing::field::display(self.sandbox().unwrap_or("none"));
        tracing::info!(sandbox.level = level, tool.use_id = context.tool_use_id, "command started");
        let outcome =
            self.sandbox.run(&job, &context.stop).await.map_err(|error| refused(&error))?;
        let text = Self::text(context, &outcome).await;
        match outcome.ending {
            Ending::Exited(0) => Ok(text.into()),
            Ending::Exited(_) => Err(ToolError::Failed(text)),
            Ending::TimedOut => {
                let millis = deadline.as_millis();
                Err(ToolError::Timeout(format!(
                    "the command and its processes were terminated after {millis} ms; a part of \
                     the work may have been done\n{text}"
                )))
            }
            Ending::Stopped => Err(ToolError::Failed(format!("the command was cancelled\n{text}"))),
        }
    }
}

/// The output of a command, of each stream all of it or its beginning and its end. The end usually
/// contains the cause of a failure.
struct Printed {
    streams: [(&'static str, Excerpt); 2],
}

impl Printed {
    /// The output with at most the given number of bytes of each stream.
    fn of(outcome: &Outcome, max_stdout: usize, max_stderr: usize) -> Self {
        let output = &outcome.output;
        let stdout = ("stdout", output.stdout.excerpt(max_stdout));
        Self { streams: [stdout, ("stderr", output.stderr.excerpt(max_stderr))] }
    }

    fn is_complete(&self) -> bool {
        self.streams.iter().all(|(_, excerpt)| excerpt.omitted == 0)
    }

    /// Formats the output and the exit code.
    fn text(&self, ending: Ending) -> String {
        let mut text = String::new();
        for (name, excerpt) in &self.streams {
            let printed = excerpt.text();
            let end = if printed.is_empty() || printed.ends_with('\n') { "" } else { "\n" };
            let _ = write!(text, "{name}:\n{printed}{end}");
        }
        if let Ending::Exited(code) = ending {
            let _ = write!(text, "exit code: {code}");
        }
        text
    }

    /// States which part of the output this is.
    fn content_of_file(&self) -> String {
        let omitted = self.streams.iter().filter(|(_, excerpt)| excerpt.omitted > 0);
        let omitted: Vec<String> = omitted
            .map(|(name, excerpt)| format!("{} bytes in the middle of {name}", excerpt.omitted))
            .collect();
        if omitted.is_empty() {
            return "the complete output".to_owned();
        }
        format!("the output without {}, which were not kept,", omitted.join(" and "))
    }
}

/// Maps sandbox errors to tool errors. Details of the sandbox are logged for the operator and not
/// shown to the model.
fn refused(error: &SandboxError) -> ToolError {
    match error {
        SandboxError::TooLong | SandboxError::Nul => ToolError::Invalid(error.to_string()),
        SandboxError::Shared => ToolError::Failed(error.to_string()),
        SandboxError::Start(_) | SandboxError::SetUp(_) | SandboxError::Closed => {
            tracing::error!(%error, "command could not be started");
            ToolError::Failed("commands cannot be run now; the command was not started".to_owned())
        }
    }
}
