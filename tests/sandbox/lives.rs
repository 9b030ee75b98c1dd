//! How long commands live: not longer than somebody waits for them.

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sandbox::{Ending, Job, Level, Outcome, Sandbox, SandboxError, identity};
use tokio_util::sync::CancellationToken;

use crate::machine::scaled;
use crate::world::{World, beheaded, opened, processes_with, sandbox, survivors};

/// Begins processes that hear no signals, in a session of their own as well.
fn stubborn(forever: &str) -> String {
    format!(
        "echo begun; trap '' TERM; (setsid sh -c 'trap \"\" TERM; sleep {forever}' &); sleep {forever}"
    )
}

/// A number of seconds that no other test sleeps for.
fn forever(test: &str, level: Level) -> String {
    let hash = test.bytes().fold(0_u32, |hash, byte| hash.wrapping_mul(31) + u32::from(byte));
    format!("86400.{}{hash}{}", level as u8, std::process::id())
}

fn job<'a>(command: &'a str, workspace: &'a Path, deadline: Duration) -> Job<'a> {
    let identity = identity(workspace).unwrap();
    Job { command, workspace, identity, protected: &[".git"], deadline }
}

const LONG: Duration = Duration::from_mins(1);

/// Both levels, each with a world and an open sandbox.
async fn at_each_level(test: impl AsyncFn(Level, &mut World, Sandbox)) {
    for level in [Level::Full, Level::Basic] {
        let Some(sandbox) = sandbox(level) else { continue };
        let mut world = World::new();
        let sandbox = opened(sandbox, world.private()).await;
        assert_eq!(sandbox.level(), Some(level));
        test(level, &mut world, sandbox).await;
    }
}

/// Waits until a command has begun its processes.
async fn begun(forever: &str) {
    let deadline = Instant::now() + Duration::from_secs(20);
    let sleeping = format!("sleep {forever} ");
    while processes_with(&sleeping).len() < 2 {
        assert!(Instant::now() < deadline, "the command did not begin");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn at_its_deadline_a_command_is_ended_with_all_that_it_started() {
    at_each_level(async |level, world, sandbox| {
        let (forever, workspace) = (forever("deadline", level), world.workspace());
        let started = Instant::now();
        let deadline = Duration::from_secs(2);
        let command = stubborn(&forever);
        let job = job(&command, &workspace, deadline);
        let outcome = sandbox.run(&job, &CancellationToken::new()).await.unwrap();
        assert_eq!(outcome.ending, Ending::TimedOut);
        assert_eq!(outcome.output.stdout.text(), "begun\n");
        assert!(
            started.elapsed() < deadline + scaled(Duration::from_secs(1)),
            "{:?}",
            started.elapsed()
        );
        assert_eq!(survivors(&forever), Vec::<String>::new());
    })
    .await;
}

#[tokio::test]
async fn a_command_that_is_told_to_end_may_put_its_things_away() {
    at_each_level(async |_, world, sandbox| {
        let workspace = world.workspace();
        let command = "trap 'echo put away; exit' TERM; echo begun; sleep 600 & wait";
        let job = job(command, &workspace, Duration::from_secs(2));
        let outcome = sandbox.run(&job, &CancellationToken::new()).await.unwrap();
        let Outcome { ending, output } = outcome;
        assert_eq!((ending, &*output.stdout.text()), (Ending::TimedOut, "begun\nput away\n"));
    })
    .await;
}

#[tokio::test]
async fn a_command_is_ended_when_it_is_stopped() {
    at_each_level(async |level, world, sandbox| {
        let (forever, workspace) = (forever("stopped", level), world.workspace());
        let stop = CancellationToken::new();
        let command = stubborn(&forever);
        let job = job(&command, &workspace, LONG);
        let (outcome, ()) = tokio::join!(sandbox.run(&job, &stop), async {
            begun(&forever).await;
            stop.cancel();
        });
        assert_eq!(outcome.unwrap().ending, Ending::Stopped);
        assert_eq!(survivors(&forever), Vec::<String>::new());
    })
    .await;
}

#[tokio::test]
async fn a_process_that_goes_on_without_its_first_thread_is_ended_like_any_other() {
    at_each_level(async |level, world, sandbox| {
        let (forever, workspace) = (forever("beheaded", level), world.workspace());
        let stop = CancellationToken::new();
        let exit = libc::SYS_exit;
        let sleep = "threads->create(sub { select(undef, undef, undef, 86400) })";
        let command = format!("perl -Mthreads -e '{sleep}; syscall({exit}, 0)' {forever}; true");
        let job = job(&command, &workspace, LONG);
        let (outcome, ()) = tokio::join!(sandbox.run(&job, &stop), async {
            beheaded(&forever).await;
            stop.cancel();
        });
        assert_eq!(outcome.unwrap().ending, Ending::Stopped);
        assert_eq!(survivors(&forever), Vec::<String>::new());
    })
    .await;
}

#[tokio::test]
async fn a_command_is_ended_when_nobody_waits_for_it_any_more() {
    at_each_level(async |level, world, sandbox| {
        let (forever, workspace) = (forever("dropped", level), world.workspace());
        let stop = CancellationToken::new();
        let command = stubborn(&forever);
        let job = job(&command, &workspace, LONG);
        tokio::select! {
            outcome = sandbox.run(&job, &stop) => panic!("{outcome:?}"),
            () = begun(&forever) => {}
        }
        assert_eq!(survivors(&forever), Vec::<String>::new());
    })
    .await;
}

/// Not a test of its own: the process that the next test kills.
#[tokio::test]
#[ignore = "run by a test, as a process of its own"]
async fn a_service_that_runs_a_command() {
    let word = |name| std::env::var(name).unwrap();
    let level = if word("LEVEL") == "full" { Level::Full } else { Level::Basic };
    let folder = word("FOLDER");
    let sandbox = opened(sandbox(level).unwrap(), Path::new(&folder)).await;
    let command = stubborn(&word("FOREVER"));
    let _ = sandbox.run(&job(&command, Path::new(&folder), LONG), &CancellationToken::new()).await;
}

#[tokio::test]
async fn a_command_is_ended_when_the_service_is_killed() {
    at_each_level(async |level, world, _| {
        let (forever, workspace) = (forever("killed", level), world.workspace());
        let mut service = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "lives::a_service_that_runs_a_command"])
            .env("LEVEL", level.as_str())
            .env("FOLDER", &workspace)
            .env("FOREVER", &forever)
            .process_group(0)
            .spawn()
            .unwrap();
        begun(&forever).await;
        service.kill().unwrap();
        assert_eq!(survivors(&forever), Vec::<String>::new());
        service.wait().unwrap();
    })
    .await;
}

#[tokio::test]
async fn nothing_is_left_on_the_disk_when_a_command_has_ended() {
    at_each_level(async |level, world, sandbox| {
        let workspace = world.workspace();
        std::fs::remove_dir_all(workspace.join(".git")).unwrap();
        let mine = format!("mine-{}-{}", level.as_str(), std::process::id());
        let command = format!("ls -A; echo x > $TMPDIR/{mine}; echo $TMPDIR");
        let job = job(&command, &workspace, LONG);
        let outcome = sandbox.run(&job, &CancellationToken::new()).await.unwrap();
        let printed = outcome.output.stdout.text().into_owned();
        let lines: Vec<&str> = printed.lines().collect();
        // At the full level something stands in for what is protected and is not there.
        let (seen, temporary) = match level {
            Level::Full => (vec![".git", "note"], "/tmp"),
            Level::Basic => (vec!["note"], lines[lines.len() - 1]),
        };
        assert_eq!(lines, [seen, vec![temporary]].concat());
        assert!(!Path::new(temporary).join(&mine).exists());
        assert_eq!(Path::new(temporary).exists(), level == Level::Full);
        let left: Vec<_> = std::fs::read_dir(&workspace).unwrap().map(|one| one.unwrap()).collect();
        assert_eq!(left.iter().map(std::fs::DirEntry::file_name).collect::<Vec<_>>(), ["note"]);
    })
    .await;
}

/// The control groups that commands have made.
fn groups() -> BTreeSet<PathBuf> {
    let places = ["/sys/fs/cgroup", "/sys/fs/cgroup/pids", "/sys/fs/cgroup/memory"];
    let entries = places.iter().filter_map(|place| std::fs::read_dir(place).ok()).flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[tokio::test]
async fn no_control_group_is_left_when_a_command_has_ended() {
    // Only here the command sees the number of its keeper, which groups are named after.
    let Some(sandbox) = sandbox(Level::Basic) else { return };
    let mut world = World::new();
    let sandbox = opened(sandbox, world.private()).await;
    let (workspace, before) = (world.workspace(), groups());
    let job = job("echo $PPID", &workspace, LONG);
    let outcome = sandbox.run(&job, &CancellationToken::new()).await.unwrap();
    let keeper: u32 = outcome.output.stdout.text().trim().parse().unwrap();
    let name = format!("/twostep-{keeper}-");
    let mut left = groups();
    left.retain(|group| !before.contains(group) && group.to_str().unwrap().contains(&name));
    assert_eq!(left, BTreeSet::new());
}

#[tokio::test]
async fn commands_of_one_workspace_keep_it_protected_for_each_other() {
    let Some(sandbox) = sandbox(Level::Full) else { return };
    let mut world = World::new();
    let sandbox = opened(sandbox, world.private()).await;
    let workspace = world.workspace();
    std::fs::remove_dir_all(workspace.join(".git")).unwrap();
    let stop = CancellationToken::new();
    // The second one begins and ends while the first one runs, which then tries.
    let first = "until test -e go; do sleep 0.02; done; mkdir -p .git/hooks && echo made";
    let (first, second) = (job(first, &workspace, LONG), job("true", &workspace, LONG));
    let (first, ()) = tokio::join!(sandbox.run(&first, &stop), async {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !workspace.join(".git").exists() {
            assert!(Instant::now() < deadline, "the first command did not begin");
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
    let mut world = World::new();
    let sandbox = opened(sandbox, world.private()).await;
    let workspace = world.workspace();
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
    let (world, mut other) = (World::new(), World::new());
    let sandbox = opened(sandbox, world.private()).await;
    let workspace = other.workspace();
    let refused = sandbox.run(&job("true", &workspace, LONG), &CancellationToken::new()).await;
    assert!(matches!(refused, Err(SandboxError::Shared)));
}

#[tokio::test]
async fn a_helper_that_does_nothing_is_no_sandbox() {
    use sandbox::Setting;
    let world = World::new();
    for (helper, why) in [("/bin/true", "the helper ended"), ("/nonexistent", "cannot be started")]
    {
        let sandbox = Sandbox::with_helper(Setting::Auto, helper.into()).unwrap();
        let refused = sandbox.open(world.private()).await.unwrap_err().to_string();
        assert_eq!(refused.matches(why).count(), 2, "{refused}");
        assert_eq!(sandbox.level(), None);
    }
}
