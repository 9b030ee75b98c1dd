//! The support of this machine for each sandbox level.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::geteuid;
use serde::Serialize;

use super::helper::{bubblewrap_program, cgroup_can_limit, landlock_abi};
use super::{Level, Sandbox, Setting, Unavailable};

/// The support of this machine for each sandbox level.
#[derive(Debug, Clone, Serialize)]
pub struct Facts {
    /// The release of the kernel.
    pub kernel: String,
    /// The user of this process; 0 is root.
    pub uid: u32,
    /// The newest supported version of Landlock, up to the one in use; 0 without Landlock.
    pub landlock_abi: u8,
    /// True if the kernel filters system calls.
    pub has_seccomp: bool,
    /// Maximum number of user namespaces of this user; `None` if the kernel has none.
    pub max_user_namespaces: Option<u64>,
    /// Bubblewrap, if it is installed in one of the searched folders.
    pub bubblewrap: Option<Bubblewrap>,
    /// True if the number of a command's processes can be limited. The kernel counts the processes
    /// of an unprivileged user; root needs a control group.
    pub limits_processes: bool,
    /// The result of a test of each level.
    pub levels: Vec<LevelTest>,
    /// The level that `auto` selects.
    pub auto: Option<Level>,
}

/// The installed bubblewrap.
#[derive(Debug, Clone, Serialize)]
pub struct Bubblewrap {
    /// The path of the program.
    pub path: &'static Path,
    /// The output of `--version`.
    pub version: String,
}

/// The result of the test of a level.
#[derive(Debug, Clone, Serialize)]
pub struct LevelTest {
    /// The level.
    pub level: Level,
    /// True if a command ran at this level.
    pub works: bool,
    /// The reason that no command ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "why_not")]
    pub unavailable_reason: Option<String>,
}

impl Facts {
    /// Collects the facts and tests both levels. Commands of the test can write to `folder`.
    pub async fn gather(folder: &Path) -> Self {
        let mut levels = Vec::new();
        for (level, setting) in [(Level::Full, Setting::Full), (Level::Basic, Setting::Basic)] {
            let Some(sandbox) = Sandbox::new(setting) else { continue };
            let unavailable_reason =
                sandbox.open(folder).await.err().map(|Unavailable(reasons)| {
                    reasons.into_iter().map(|(_, error)| error.to_string()).collect()
                });
            levels.push(LevelTest {
                level,
                works: unavailable_reason.is_none(),
                unavailable_reason,
            });
        }
        let is_root = geteuid().is_root();
        Self {
            kernel: read("/proc/sys/kernel/osrelease").unwrap_or_default(),
            uid: geteuid().as_raw(),
            landlock_abi: landlock_abi(),
            has_seccomp: Path::new("/proc/sys/kernel/seccomp/actions_avail").exists(),
            max_user_namespaces: read("/proc/sys/user/max_user_namespaces")
                .and_then(|number| number.parse().ok()),
            bubblewrap: bubblewrap_program().map(Bubblewrap::of),
            limits_processes: !is_root || cgroup_can_limit(),
            auto: levels.iter().find(|attempt| attempt.works).map(|attempt| attempt.level),
            levels,
        }
    }

    /// Returns recommendations for the operator.
    pub fn advice(&self) -> Vec<&'static str> {
        let works = |level| self.levels.iter().any(|one| one.level == level && one.works);
        let mut advice = Vec::new();
        if self.bubblewrap.is_none() {
            advice.push("the full level needs bubblewrap 0.8 or newer: apt-get install bubblewrap");
        } else if !works(Level::Full) {
            advice.push(
                "the full level needs user namespaces: see kernel.unprivileged_userns_clone, \
                 kernel.apparmor_restrict_unprivileged_userns, or in a container \
                 its security options seccomp=unconfined and systempaths=unconfined",
            );
        }
        if !works(Level::Basic) {
            advice.push("the basic level needs seccomp, and Landlock of Linux 6.12 or newer");
        }
        if self.uid == 0 {
            advice.push(
                "run the service as its own user: root has access to too much of the machine",
            );
        }
        if !self.limits_processes {
            advice.push("the number of a command's processes is not limited: no control group can be created");
        }
        if self.auto == Some(Level::Basic) {
            advice.push(
                "the basic level cannot protect files that other programs run, such as .git/hooks, from \
                 commands: Bash refuses a --shared-workspace",
            );
        }
        advice
    }
}

impl Bubblewrap {
    fn of(path: &'static Path) -> Self {
        let output = Command::new(path).arg("--version").env_clear().stdin(Stdio::null()).output();
        let version =
            output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        Self { path, version: version.unwrap_or_default() }
    }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}
