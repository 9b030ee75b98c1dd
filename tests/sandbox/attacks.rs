//! Attacks, which the sandbox must block, and controls, which must work in it: a sandbox in which
//! nothing works would block every attack.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use sandbox::{Ending, Facts, Job, Level, Outcome, Sandbox, identity};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::kept_output::keep_response;
use crate::machine::HUNG;
use crate::targets::{CANARY, Targets, open_sandbox, sandbox, survivors};

/// Names that commands must not change. The first one exists, the second one does not.
const PROTECTED: [&str; 2] = [".git", ".protected"];
const BOTH: [Level; 2] = [Level::Full, Level::Basic];
/// The limit of the captured output, in bytes.
const MAX_OUTPUT: usize = 2 * 1024 * 1024 + 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Lists {
    attacks: Vec<Attack>,
    controls: Vec<Control>,
}

/// A command that attacks something. Whatever it tries: no canary is printed, nothing outside
/// changes, no socket is reached, none of its processes survives, and the next command works.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attack {
    name: String,
    command: String,
    #[serde(default = "both")]
    levels: Vec<Level>,
    /// Texts that must not be printed: they show that the attack succeeded.
    #[serde(default)]
    never: Vec<String>,
    /// A text that must be printed: it shows that the attack was tried.
    #[serde(default)]
    says: String,
    /// Levels that are documented not to block the attack. The test checks that this is still true.
    #[serde(default)]
    open_at: Vec<Level>,
    /// The processor architecture whose system call numbers it uses.
    arch: Option<String>,
    /// Whether it is only tried if the number of processes can be limited.
    #[serde(default)]
    limits_processes: bool,
    deadline_ms: Option<u64>,
    #[serde(default)]
    may_time_out: bool,
    /// A second command in the same workspace.
    then: Option<String>,
    /// Texts that the second command must not print.
    #[serde(default)]
    never_then: Vec<String>,
}

/// A command that must work as it does outside a sandbox.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Control {
    name: String,
    command: String,
    stdout: String,
    stderr: String,
    code: i32,
    #[serde(default = "both")]
    levels: Vec<Level>,
    /// A program that the control needs. Without it, the control is skipped.
    needs: Option<String>,
}

fn both() -> Vec<Level> {
    BOTH.to_vec()
}

fn lists() -> Lists {
    serde_json::from_str(include_str!("../fixtures/bash_attacks.json")).unwrap()
}

async fn run(sandbox: &Sandbox, workspace: &Path, command: &str, deadline: Duration) -> Outcome {
    let identity = identity(workspace).unwrap();
    let job = Job { command, workspace, identity, protected: &PROTECTED, deadline };
    let outcome = sandbox.run(&job, &CancellationToken::new()).await.unwrap();
    keep_response(&printed(&outcome));
    outcome
}

impl Attack {
    async fn failures(
        &self,
        targets: &mut Targets,
        sandbox: &Sandbox,
        number: usize,
    ) -> Vec<String> {
        let forever = format!("86400.{number:04}{}", std::process::id());
        let command = format!("{}\necho tried", targets.fill(&self.command, &forever));
        let workspace = targets.workspace();
        let deadline = Duration::from_millis(self.deadline_ms.unwrap_or(20_000));
        let started = Instant::now();
        let outcome = run(sandbox, &workspace, &command, deadline).await;
        let mut failures = self.output_failures(&outcome);
        if started.elapsed() > deadline + HUNG {
            failures.push(format!("it took {:?}", started.elapsed()));
        }
        failures.extend(survivors(&forever).iter().map(|left| format!("{left} still runs")));
        failures.extend(targets.damage());
        if let Some(then) = &self.then {
            let printed = printed(&run(sandbox, &workspace, then, deadline).await);
            failures.extend(printed_texts(&printed, &self.never_then));
        }
        let after = run(sandbox, &workspace, "echo after", deadline).await;
        if after.ending != Ending::Exited(0) || after.output.stdout.text() != "after\n" {
            failures.push(format!("the next command: {after:?}"));
        }
        failures
    }

    /// Checks the output of the attack.
    fn output_failures(&self, outcome: &Outcome) -> Vec<String> {
        let printed = printed(outcome);
        let mut failures: Vec<String> = printed_texts(&printed, &self.never).collect();
        failures.extend(printed_texts(&printed, &[CANARY.to_owned()]));
        if !printed.contains(&self.says) {
            failures.push(format!("{:?} was not printed", self.says));
        }
        if printed.len() > MAX_OUTPUT {
            failures.push(format!("{} bytes were kept", printed.len()));
        }
        let was_killed = matches!(outcome.ending, Ending::Exited(code) if code > 128);
        let was_tried = outcome.output.stdout.text().contains("tried\n");
        let was_truncated = outcome.output.stdout.is_truncated();
        let in_time = outcome.ending != Ending::TimedOut || self.may_time_out;
        if !in_time || !(was_tried || was_killed || was_truncated || self.may_time_out) {
            failures.push(format!("it was not tried: {:?}", outcome.ending));
        }
        if !failures.is_empty() {
            failures.push(printed.chars().take(300).collect());
        }
        failures
    }
}

fn printed(outcome: &Outcome) -> String {
    format!("{}{}", outcome.output.stdout.text(), outcome.output.stderr.text())
}

fn printed_texts<'a>(printed: &'a str, never: &'a [String]) -> impl Iterator<Item = String> + 'a {
    never.iter().filter(|text| printed.contains(*text)).map(|text| format!("{text:?} was printed"))
}

/// Checks that commands cannot signal processes outside, before any attack runs: some attacks would
/// kill all processes of this user.
async fn assert_signals_are_blocked(targets: &mut Targets, sandbox: &Sandbox) {
    let command = targets.fill("kill -0 {{pid}}", "");
    let outcome = run(sandbox, &targets.workspace(), &command, Duration::from_secs(20)).await;
    assert_eq!(
        outcome.ending,
        Ending::Exited(1),
        "a signal reached a process outside, so no attack is tried"
    );
}

async fn block_attacks(level: Level) {
    let Some(sandbox) = sandbox(level) else { return };
    let mut targets = Targets::new();
    let sandbox = open_sandbox(sandbox, targets.private()).await;
    let can_limit = Facts::gather(targets.private()).await.limits_processes;
    assert_signals_are_blocked(&mut targets, &sandbox).await;
    let mut failed = Vec::new();
    let mut blocked = 0;
    for (number, attack) in lists().attacks.iter().enumerate() {
        let is_applicable =
            attack.arch.as_deref().is_none_or(|arch| arch == std::env::consts::ARCH)
                && attack.levels.contains(&level)
                && (can_limit || !attack.limits_processes);
        if !is_applicable {
            continue;
        }
        let failures = attack.failures(&mut targets, &sandbox, number).await;
        let is_open = attack.open_at.contains(&level);
        if is_open && failures.is_empty() {
            failed.push(format!("{}: it is documented as open, but is blocked", attack.name));
        } else if !is_open && !failures.is_empty() {
            failed.push(format!("{}: {failures:#?}", attack.name));
        }
        blocked += usize::from(failures.is_empty());
        if !failures.is_empty() {
            // The damage of one attack must not be counted for the next.
            targets.repair();
        }
    }
    assert!(failed.is_empty(), "{level}: {}", failed.join("\n"));
    assert!(blocked >= 40, "only {blocked} attacks were blocked");
}

async fn allow_controls(level: Level) {
    let Some(sandbox) = sandbox(level) else { return };
    let mut targets = Targets::new();
    let sandbox = open_sandbox(sandbox, targets.private()).await;
    let mut done = 0;
    for control in lists().controls {
        let is_installed = control.needs.as_ref().is_none_or(|program| Path::new(program).exists());
        if !(control.levels.contains(&level) && is_installed) {
            continue;
        }
        let workspace = targets.workspace();
        let outcome = run(&sandbox, &workspace, &control.command, Duration::from_secs(20)).await;
        let stdout = outcome.output.stdout.text();
        let stderr = outcome.output.stderr.text();
        let actual = (stdout.as_ref(), stderr.as_ref(), outcome.ending);
        let expected = (&*control.stdout, &*control.stderr, Ending::Exited(control.code));
        assert_eq!(actual, expected, "{level}: {}", control.name);
        done += 1;
    }
    assert!(done >= 8, "only {done} controls were tried");
}

#[tokio::test]
async fn the_full_level_blocks_every_attack() {
    block_attacks(Level::Full).await;
}

#[tokio::test]
async fn the_basic_level_blocks_every_attack_except_the_documented_ones() {
    block_attacks(Level::Basic).await;
}

#[tokio::test]
async fn the_full_level_allows_legitimate_commands() {
    allow_controls(Level::Full).await;
}

#[tokio::test]
async fn the_basic_level_allows_legitimate_commands() {
    allow_controls(Level::Basic).await;
}

#[test]
fn the_list_is_long_and_every_attack_has_a_unique_name() {
    let Lists { attacks, controls } = lists();
    assert!(attacks.len() >= 40 && controls.len() >= 8);
    let names: HashSet<&str> = attacks.iter().map(|attack| attack.name.as_str()).collect();
    assert_eq!(names.len(), attacks.len());
}
