//! One process of the service.

use std::fs::File;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::planted::{COLLECTOR_HEADERS, METRICS_KEY, MODEL_KEY};

/// The limit for a start, which takes 0.1 s, and much longer on a busy machine.
const READY_WITHIN: Duration = Duration::from_mins(1);

/// The role of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Accepts messages and executes runs.
    All,
    /// Only accepts messages.
    Accept,
    /// Only executes runs.
    Work,
}

/// How to start a node.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    pub(crate) program: PathBuf,
    pub(crate) role: Role,
    pub(crate) database_url: String,
    pub(crate) model_url: String,
    /// The URL to which it exports spans.
    pub(crate) collector: String,
    pub(crate) data_dir: PathBuf,
    pub(crate) workspace: PathBuf,
    pub(crate) witness: PathBuf,
    pub(crate) faults_dir: PathBuf,
    pub(crate) log: PathBuf,
    /// Seconds by which its clock is ahead, if it is wrong.
    pub(crate) clock: Option<i64>,
    /// Options that inject faults.
    pub(crate) faults: Vec<String>,
}

impl Role {
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::All => &["serve"],
            Self::Accept => &["serve", "--no-worker"],
            Self::Work => &["worker"],
        }
    }
}

/// The tools of all sessions.
const TOOLS: &str = "write_file,list_files,get_time,witness,dawdle,Task";

/// A process of the service. Dropping it kills the process.
#[derive(Debug)]
pub(crate) struct Node {
    child: Child,
    pub(crate) pid: Pid,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl Node {
    pub(crate) fn spawn(launch: &Launch) -> anyhow::Result<Self> {
        let log = File::options().create(true).append(true).open(&launch.log)?;
        let mut command = Command::new(&launch.program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("ANTHROPIC_API_KEY", MODEL_KEY)
            .env("TWOSTEP_METRICS_KEY", METRICS_KEY)
            .env("OTEL_EXPORTER_OTLP_HEADERS", COLLECTOR_HEADERS)
            .args(launch.role.arguments())
            .args(["--database-url", &launch.database_url])
            .args(["--anthropic-base-url", &launch.model_url])
            .args(["--otlp-endpoint", &launch.collector])
            .arg("--data-dir")
            .arg(&launch.data_dir)
            .arg("--witness")
            .arg(&launch.witness)
            .arg("--faults-dir")
            .arg(&launch.faults_dir)
            // Tools with side effects run without approval, unless a session has a rule.
            .args(["--permission-mode", "bypass", "--allow-bypass"])
            .args(&launch.faults);
        if launch.role != Role::Work {
            command.args(["--bind", "127.0.0.1:0", "--model", "simulator"]);
            command.args(["--default-tools", TOOLS]);
            command.arg("--shared-workspace").arg(&launch.workspace);
        }
        if let Some(seconds) = launch.clock {
            crate::phases::clocks::set_clock(&mut command, seconds);
        }
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()?;
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let pid = id.and_then(Pid::from_raw).context("the process has already exited")?;
        let stdout = child.stdout.take().context("the process has no stdout")?;
        Ok(Self { child, pid, stdout: BufReader::new(stdout).lines() })
    }

    /// Waits until it prints that it is ready. Returns its address if it listens.
    pub(crate) async fn ready(&mut self) -> anyhow::Result<Option<String>> {
        let address = async {
            while let Some(line) = self.stdout.next_line().await? {
                if let Some(url) = line.trim().strip_prefix("url ") {
                    return Ok(Some(url.trim().to_owned()));
                }
                if line.ends_with("executes runs") {
                    return Ok(None);
                }
            }
            bail!("a node exited during its start")
        };
        timeout(READY_WITHIN, address).await.context("a node did not become ready")?
    }

    pub(crate) fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        Ok(kill_process(self.pid, signal)?)
    }

    /// Kills it and waits for its exit.
    pub(crate) async fn kill(mut self) -> anyhow::Result<()> {
        Ok(self.child.kill().await?)
    }

    /// Waits for its exit; returns false if it still runs after `within`.
    pub(crate) async fn wait_for_exit(&mut self, within: Duration) -> bool {
        timeout(within, self.child.wait()).await.is_ok()
    }

    /// Returns whether it has exited.
    pub(crate) fn has_exited(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}
