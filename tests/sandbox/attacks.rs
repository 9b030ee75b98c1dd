//! The list of attacks, and of controls: a sandbox in which nothing works holds every attack.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use sandbox::{Ending, Facts, Job, Level, Outcome, Sandbox, identity};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::kept_output::keep_response;
use crate::world::{CANARY, World, opened, sandbox, survivors};

/// Names that commands must not touch, one that is there and one that is not.
const PROTECTED: [&str; 2] = [".git", ".protected"];
const BOTH: [Level; 2] = [Level::Full, Level::Basic];
/// Room for what is not the output itself.
const MOST_OUTPUT: usize = 1024 * 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Lists {
    attacks: Vec<Attack>,
    controls: Vec<Control>,
}

/// A command that tries something. Whatever it is: no canary is seen, nothing outside changes,
/// nobody is reached, nothing of it runs on, and the next command works.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attack {
    name: String,
    command: String,
    #[serde(default = "both")]
    levels: Vec<Level>,
    /// What must not be printed: the word of its success.
    #[serde(default)]
    never: Vec<String>,
    /// What must be printed: that it was tried.
    #[serde(default)]
    says: String,
    /// Levels that are known not to hold it. They are tried all the same: what is said of them
    /// must be true.
    #[serde(default)]
    open_at: Vec<Level>,
    /// A processor whose numbers of system calls it uses.
    arch: Option<String>,
    /// Only where the number of processes can be limited.
    #[serde(default)]
    limits_processes: bool,
    deadline_ms: Option<u64>,
    #[serde(default)]
    may_time_out: bool,
    /// Another command in the same workspace, and what it must not print.
    then: Option<String>,
    #[serde(default)]
    never_then: Vec<String>,
}

/// A command that must do what it does anywhere.
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
    /// A program without which there is nothing to be tried.
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
    async fn failures(&self, world: &mut World, sandbox: &Sandbox, number: usize) -> Vec<String> {
        let forever = format!("86400.{number:04}{}", std::process::id());
        let command = format!("{}\necho tried", world.fill(&self.command, &forever));
        let workspace = world.workspace();
        let deadline = Duration::from_millis(self.deadline_ms.unwrap_or(20_000));
        let started = Instant::now();
        let outcome = run(sandbox, &workspace, &command, deadline).await;
        let mut failures = self.judged(&outcome);
        if started.elapsed() > deadline + Duration::from_secs(1) {
            failures.push(format!("it took {:?}", started.elapsed()));
        }
        failures.extend(survivors(&forever).iter().map(|left| format!("{left} is still there")));
        failures.extend(world.damage());
        if let Some(then) = &self.then {
            let printed = printed(&run(sandbox, &workspace, then, deadline).await);
            failures.extend(seen(&printed, &self.never_then));
        }
        let after = run(sandbox, &workspace, "echo after", deadline).await;
        if after.ending != Ending::Exited(0) || after.output.stdout.text() != "after\n" {
            failures.push(format!("the next command: {after:?}"));
        }
        failures
    }

    /// What is wrong with what it printed.
    fn judged(&self, outcome: &Outcome) -> Vec<String> {
        let printed = printed(outcome);
        let mut failures: Vec<String> = seen(&printed, &self.never).collect();
        failures.extend(seen(&printed, &[CANARY.to_owned()]));
        if !printed.contains(&self.says) {
            failures.push(format!("{:?} was not said", self.says));
        }
        if printed.len() > MOST_OUTPUT {
            failures.push(format!("{} bytes were kept", printed.len()));
        }
        let was_killed = matches!(outcome.ending, Ending::Exited(code) if code > 128);
        let was_tried = outcome.output.stdout.text().contains("tried\n");
        let was_cut = outcome.output.stdout.dropped > 0;
        let in_time = outcome.ending != Ending::TimedOut || self.may_time_out;
        if !in_time || !(was_tried || was_killed || was_cut || self.may_time_out) {
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

fn seen<'a>(printed: &'a str, never: &'a [String]) -> impl Iterator<Item = String> + 'a {
    never.iter().filter(|word| printed.contains(*word)).map(|word| format!("{word:?} was printed"))
}

/// Some attacks would end every process of this user if they got out. Nothing is tried before it is
/// known that they do not.
async fn keeps_signals_in(world: &mut World, sandbox: &Sandbox) {
    let command = world.fill("kill -0 {{pid}}", "");
    let outcome = run(sandbox, &world.workspace(), &command, Duration::from_secs(20)).await;
    assert_eq!(outcome.ending, Ending::Exited(1), "signals get out: nothing else is tried");
}

async fn hold_all(level: Level) {
    let Some(sandbox) = sandbox(level) else { return };
    let mut world = World::new();
    let sandbox = opened(sandbox, world.private()).await;
    let can_limit = Facts::gather(world.private()).await.limits_processes;
    keeps_signals_in(&mut world, &sandbox).await;
    let mut wrong = Vec::new();
    let mut held = 0;
    for (number, attack) in lists().attacks.iter().enumerate() {
        let is_for_here = attack.arch.as_deref().is_none_or(|arch| arch == std::env::consts::ARCH)
            && attack.levels.contains(&level)
            && (can_limit || !attack.limits_processes);
        if !is_for_here {
            continue;
        }
        let failures = attack.failures(&mut world, &sandbox, number).await;
        let is_open = attack.open_at.contains(&level);
        if is_open && failures.is_empty() {
            wrong.push(format!("{}: it is said to be open, and is held", attack.name));
        } else if !is_open && !failures.is_empty() {
            wrong.push(format!("{}: {failures:#?}", attack.name));
        }
        held += usize::from(failures.is_empty());
        if !failures.is_empty() {
            // What one has done is not held against the next.
            world.repair();
        }
    }
    assert!(wrong.is_empty(), "{level}: {}", wrong.join("\n"));
    assert!(held >= 40, "only {held} attacks were tried");
}

async fn allow_all(level: Level) {
    let Some(sandbox) = sandbox(level) else { return };
    let mut world = World::new();
    let sandbox = opened(sandbox, world.private()).await;
    let mut done = 0;
    for control in lists().controls {
        let is_there = control.needs.as_ref().is_none_or(|program| Path::new(program).exists());
        if !(control.levels.contains(&level) && is_there) {
            continue;
        }
        let workspace = world.workspace();
        let outcome = run(&sandbox, &workspace, &control.command, Duration::from_secs(20)).await;
        let stdout = outcome.output.stdout.text();
        let stderr = outcome.output.stderr.text();
        let told = (stdout.as_ref(), stderr.as_ref(), outcome.ending);
        let expected = (&*control.stdout, &*control.stderr, Ending::Exited(control.code));
        assert_eq!(told, expected, "{level}: {}", control.name);
        done += 1;
    }
    assert!(done >= 8, "only {done} controls were tried");
}

#[tokio::test]
async fn the_full_level_holds_every_attack() {
    hold_all(Level::Full).await;
}

#[tokio::test]
async fn the_basic_level_holds_every_attack_but_those_it_is_said_not_to() {
    hold_all(Level::Basic).await;
}

#[tokio::test]
async fn the_full_level_allows_honest_work() {
    allow_all(Level::Full).await;
}

#[tokio::test]
async fn the_basic_level_allows_honest_work() {
    allow_all(Level::Basic).await;
}

#[test]
fn the_list_is_long_and_every_attack_has_a_name_of_its_own() {
    let Lists { attacks, controls } = lists();
    assert!(attacks.len() >= 40 && controls.len() >= 8);
    let names: HashSet<&str> = attacks.iter().map(|attack| attack.name.as_str()).collect();
    assert_eq!(names.len(), attacks.len());
}
