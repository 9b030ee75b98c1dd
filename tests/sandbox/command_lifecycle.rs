//! The end of commands: at a deadline, a stop or a crash of the service, no process and no file of
//! a command is left.

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sandbox::{Ending, Job, Level, Outcome, Sandbox, SandboxError, identity};
use tokio_util::sync::CancellationToken;

use crate::machine::HUNG;
use crate::targets::{
    Targets, open_sandbox, processes_with, sandbox, survivors, wait_until_first_thread_exits,
};

/// A command that starts processes which ignore signals, one of them in a session of its own.
fn stubborn(forever: &str) -> String {
    format!(
        "echo started; trap '' TERM; (setsid sh -c 'trap \"\" TERM; sleep {forever}' &); sleep {forever}"
    )
}

/// Returns a number of seconds for `sleep` that is unique to a test.
fn forever(test: &str, level: Level) -> String {
    let hash = test.bytes().fold(0_u32, |hash, byte| hash.wrapping_mul(31) + u32::from(byte));
    format!("86400.{}{hash}{}", level as u8, std::process::id())
}

fn job<'a>(command: &'a str, workspace: &'a Path, deadline: Duration) -> Job<'a> {
    let identity = identity(workspace).unwrap();
    Job { command, workspace, identity, protected: &[".git"], deadline }
}

const LONG: Duration = Duration::from_mins(1);

/// Runs a test at both levels, each with targets and an open sandbox.
async fn at_each_level(test: impl AsyncFn(Level, &mut Targets, Sandbox)) {
    for level in [Level::Full, Level::Basic] {
        let Some(sandbox) = sandbox(level) else { continue };
        let mut targets = Targets::new();
        let sandbox = open_sandbox(sandbox, targets.private()).await;
        assert_eq!(sandbox.level(), Some(level));
        test(level, &mut targets, sandbox).await;
    }
}

/// Waits until a command has started its processes.
async fn wait_until_started(forever: &str) {
    let deadline = Instant::now() + Duration::from_mins(1);
    let sleeping = format!("sleep {forever} ");
    while processes_with(&sleeping).len() < 2 {
        assert!(Instant::now() < deadline, "the command did not start");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn at_its_deadline_a_command_is_killed_with_all_its_processes() {
    at_each_level(async |level, targets, sandbox| {
        let (forever, workspace) = (forever("deadline", level), targets.workspace());
        let started = Instant::now();
        let deadline = Duration::from_secs(2);
        let command = stubborn(&forever);
        let job = job(&command, &workspace, deadline);
        let stop = CancellationToken::new();
        // The processes of the command would take a day.
        let outcome = tokio::time::timeout(HUNG, sandbox.run(&job, &stop)).await;
        let outcome = outcome.expect("the command was not killed").unwrap();
        assert_eq!(outcome.ending, Ending::TimedOut);
        assert_eq!(outcome.output.stdout.text(), "started\n");
        assert!(started.elapsed() >= deadline, "{:?}", started.elapsed());
        assert_eq!(survivors(&forever), Vec::<String>::new());
    })
    .await;
}

#[tokio::test]
async fn a_command_may_clean_up_when_it_is_terminated() {
    at_each_level(async |_, targets, sandbox| {
        let workspace = targets.workspace();
        let command = "trap 'echo cleaned up; exit' TERM; echo started; sleep 600 & wait";
        let job = job(command, &workspace, Duration::from_secs(2));
        let outcome = sandbox.run(&job, &CancellationToken::new()).await.unwrap();
        let Outcome { ending, output } = outcome;
        assert_eq!((ending, &*output.stdout.text()), (Ending::TimedOut, "started\ncleaned up\n"));
    })
    .await;
}

#[tokio::test]
async fn a_command_is_killed_when_it_is_stopped() {
    at_each_level(async |level, targets, sandbox| {
        let (forever, workspace) = (forever("stopped", level), targets.workspace());
        let stop = CancellationToken::new();
        let command = stubborn(&forever);
        let job = job(&command, &workspace, LONG);
        let (outcome, ()) = tokio::join!(sandbox.run(&job, &stop), async {
            wait_until_started(&forever).await;
            stop.cancel();
        });
        assert_eq!(outcome.unwrap().ending, Ending::Stopped);
        assert_eq!(survivors(&forever), Vec::<String>::new());
    })
    .await;
}

#[tokio::test]
async fn a_process_whose_first_thread_has_exited_is_killed_like_any_other() {
    at_each_level(async |level, targets, sandbox| {
        let (forever, workspace) = (forever("first_thread", level), targets.workspace());
        let stop = CancellationToken::new();
        let exit = libc::SYS_exit;
        let sleep = "threads->create(sub { select(undef, undef, undef, 86400) })";
        let command = format!("perl -Mthreads -e '{sleep}; syscall({exit}, 0)' {forever}; true");
        let job = job(&command, &workspace, LONG);
        let (outcome, ()) = tokio::join!(sandbox.run(&job, &stop), async {
            wait_until_first_thread_exits(&forever).await;
            stop.cancel();
        });
        assert_eq!(outcome.unwrap().ending, Ending::Stopped);
        assert_eq!(survivors(&forever), Vec::<String>::new());
    })
    .await;
}

#[tokio::test]
async fn a_command_is_killed_when_its_future_is_dropped() {
    at_each_level(async |level, targets, sandbox| {
        let (forever, workspace) = (forever("dropped", level), targets.workspace());
        let stop = CancellationToken::new();
        let command = stubborn(&forever);
        let job = job(&command, &workspace, LONG);
        tokio::select! {
            outcome = sandbox.run(&job, &stop) => panic!("{outcome:?}"),
            () = wait_until_started(&forever) => {}
        }
        assert_eq!(survivors(&forever), Vec::<String>::new());
    })
    .await;
}

/// Not a test: the process that the next test kills.
#[tokio::test]
#[ignore = "another test starts it as a process"]
async fn a_service_that_runs_a_command() {
    let variable = |name| std::env::var(name).unwrap();
    let level = if variable("LEVEL") == "full" { Level::Full } else { Level::Basic };
    let folder = variable("FOLDER");
    let sandbox = open_sandbox(sandbox(level).unwrap(), Path::new(&folder)).await;
    let command = stubborn(&variable("FOREVER"));
    let _ = sandbox.run(&job(&command, Path::new(&folder), LONG), &CancellationToken::new()).await;
}

#[tokio::test]
async fn a_command_is_killed_when_the_service_is_killed() {
    at_each_level(async |level, targets, _| {
        let (forever, workspace) = (forever("killed", level), targets.workspace());
        let mut service = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "command_lifecycle::a_service_that_runs_a_command"])
            .env("LEVEL", level.as_str())
            .env("FOLDER", &workspace)
            .env("FOREVER", &forever)
            .process_group(0)
            .spawn()
            .unwrap();
        wait_until_started(&forever).await;
        service.kill().unwrap();
        assert_eq!(survivors(&forever), Vec::<String>::new());
        service.wait().unwrap();
    })
    .await;
}

#[tokio::test]
async fn no_temporary_file_is_left_when_a_command_has_exited() {
    at_each_level(async |level, targets, sandbox| {
        let workspace = targets.workspace();
        std::fs::remove_dir_all(workspace.join(".git")).unwrap();
        let mine = format!("mine-{}-{}", level.as_str(), std::process::id());
        let command = format!("ls -A; echo x > $TMPDIR/{mine}; echo $TMPDIR");
        let job = job(&command, &workspace, LONG);
        let outcome = sandbox.run(&job, &CancellationToken::new()).await.unwrap();
        let printed = outcome.output.stdout.text();
        let lines: Vec<&str> = printed.lines().collect();
        // At the full level, a protected name that does not exist has a placeholder.
        let (names, temporary) = match level {
            Level::Full => (vec![".git", "note"], "/tmp"),
            Level::Basic => (vec!["note"], lines[lines.len() - 1]),
        };
        assert_eq!(lines, [names, vec![temporary]].concat());
        assert!(!Path::new(temporary).join(&mine).exists());
        assert_eq!(Path::new(temporary).exists(), level == Level::Full);
        let left: Vec<_> = std::fs::read_dir(&workspace).unwrap().map(|one| one.unwrap()).collect();
        assert_eq!(left.iter().map(std::fs::DirEntry::file_name).collect::<Vec<_>>(), ["note"]);
    })
    .await;
}

/// Returns the existing control groups.
fn groups() -> BTreeSet<PathBuf> {
    let folders = ["/sys/fs/cgroup", "/sys/fs/cgroup/pids", "/sys/fs/cgroup/memory"];
    let entries = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[tokio::test]
async fn no_control_group_is_left_when_a_command_has_exited() {
    // Only at this level the command sees the process id of its parent, by which groups are named.
    let Some(sandbox) = sandbox(Level::Basic) else { return };
    let mut targets = Targets::new();
    let sandbox = open_sandbox(sandbox, targets.private()).await;
    let (workspace, before) = (targets.workspace(), groups());
    let job = job("echo $PPID", &workspace, LONG);
    let outcome = sandbox.run(&job, &CancellationToken::new()).await.unwrap();
    let parent: u32 = outcome.output.stdout.text().trim().parse().unwrap();
    let name = format!("/twostep-{parent}-");
    let mut left = groups();
    left.retain(|group| !before.contains(group) && group.to_str().unwrap().contains(&name));
    assert_eq!(left, BTreeSet::new());
}

#[tokio::test]
async fn commands_of_one_workspace_keep_it_protected_for_each_other() {
    let Some(sandbox) = sandbox(Level::Full) else { return };
    let mut targets = Targets::new();
    let sandbox = open_sandbox(sandbox, targets.private()).await;
    let workspace = targets.workspace();
    std::fs::remove_dir_all(workspace.join(".git")).unwrap();
    let stop = CancellationToken::new();
    // The second command starts and exits while the first one runs. Then the first one tries.
    let first = "until test -e go; do sleep 0.02; done; mkdir -p .git/hooks && echo made";
    let (first, second) = (job(first, &workspace, LONG), job("true", &workspace, LONG));
    let (first, ()) = tokio::join!(sandbox.run(&first, &stop), async {
        let deadline = Instant::now() + Duration::from_mins(1);
        while !workspace.join(".git").exists() {
            assert!(Instant::now() < deadline, "the first command did not start");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(sandbox.run(&second, &stop).await.unwrap().ending, Ending::Exited(0));
        std::fs::write(workspace.join("go"), "").unwrap();
    });
    let first = first.unwrap();
    assert_eq!((first.ending, &*first.output.stdout.text()), (Ending::Exited(1), ""));
    assert!(!workspace.join(".git").exists());
}

#[tokio::test]
async fn a_protected_name_that_is_a_link_is_refused() {
    let Some(sandbox) = sandbox(Level::Full) else { return };
    let mut targets = Targets::new();
    let sandbox = open_sandbox(sandbox, targets.private()).await;
    let workspace = targets.workspace();
    std::fs::rename(workspace.join(".git"), workspace.join("elsewhere")).unwrap();
    std::os::unix::fs::symlink("elsewhere", workspace.join(".git")).unwrap();
    let job = Job { protected: &[".missing", ".git"], ..job("true", &workspace, LONG) };
    let refused = sandbox.run(&job, &CancellationToken::new()).await;
    assert!(
        matches!(refused, Err(SandboxError::SetUp(why)) if why.contains(".git is a symbolic link"))
    );
    assert!(!workspace.join(".missing").exists(), "a placeholder is left");
}

#[tokio::test]
async fn the_basic_level_refuses_a_workspace_that_others_use() {
    let Some(sandbox) = sandbox(Level::Basic) else { return };
    let (targets, mut other) = (Targets::new(), Targets::new());
    let sandbox = open_sandbox(sandbox, targets.private()).await;
    let workspace = other.workspace();
    let refused = sandbox.run(&job("true", &workspace, LONG), &CancellationToken::new()).await;
    assert!(matches!(refused, Err(SandboxError::Shared)));
}

#[tokio::test]
async fn a_helper_that_does_nothing_is_not_a_sandbox() {
    use sandbox::Setting;
    let targets = Targets::new();
    for (helper, why) in [("/bin/true", "the helper ended"), ("/nonexistent", "cannot be started")]
    {
        let sandbox = Sandbox::with_helper(Setting::Auto, helper.into()).unwrap();
        let refused = sandbox.open(targets.private()).await.unwrap_err().to_string();
        assert_eq!(refused.matches(why).count(), 2, "{refused}");
        assert_eq!(sandbox.level(), None);
    }
}
