//! The conditions of a measurement: commit, date, machine, build.

use std::path::Path;

use anyhow::Context as _;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::process::Command;

use crate::plan::Plan;
use crate::report::rows::grouped;
use crate::stack::Stack;

/// Raises the soft limit of open files to the hard limit, for this process and its children.
pub(crate) fn raise_open_files() -> anyhow::Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let current = maximum;
    setrlimit(Resource::Nofile, Rlimit { current, maximum })
        .context("the limit of open files cannot be raised")
}

/// The date and the commit, for example `load 2026-11-25 0e7443f8`.
pub(crate) async fn title() -> String {
    format!("load {} {}", today(), commit().await)
}

/// Describes the measurement in one paragraph.
pub(crate) async fn describe(plan: &Plan, stack: &Stack) -> anyhow::Result<String> {
    let mut conn = stack.connect().await?;
    let postgres: String = sqlx::query_scalar("SHOW server_version").fetch_one(&mut conn).await?;
    let fsync: String = sqlx::query_scalar("SHOW fsync").fetch_one(&mut conn).await?;
    let cores = std::thread::available_parallelism()?;
    Ok(format!(
        "Measured on {} (commit {}), on {cores} cores shared by the servers, Postgres {postgres}, the \
         simulator and the clients; {} turns each, rounds: {}; fsync {fsync}{}{}.",
        today(),
        commit().await,
        grouped(plan.turns),
        plan.rounds,
        if plan.is_quick { "; the short form" } else { "" },
        if is_development_build(&plan.service) { "; a build with less optimization" } else { "" },
    ))
}

/// Returns whether Cargo's profile of the program is `dev`.
fn is_development_build(program: &Path) -> bool {
    program.components().any(|part| part.as_os_str() == "debug")
}

fn today() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%d").to_string()
}

/// The commit of the sources. `+` means that they have changes.
async fn commit() -> String {
    let head = git(&["rev-parse", "--short=8", "HEAD"]).await;
    let changes = git(&["status", "--porcelain", "--untracked-files=no"]).await;
    match head {
        Some(head) if changes.as_deref() == Some("") => head,
        Some(head) => format!("{head}+"),
        None => "unknown".to_owned(),
    }
}

async fn git(args: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    let output = command.args(["-C", env!("CARGO_MANIFEST_DIR")]).args(args).output().await.ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
