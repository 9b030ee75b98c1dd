//! What this machine gives to a sandbox.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::geteuid;
use serde::Serialize;

use super::helper::{bubblewrap_program, cgroup_can_limit, landlock_abi};
use super::{Level, Sandbox, Setting, Unavailable};

/// What this machine gives to a sandbox.
#[derive(Debug, Clone, Serialize)]
pub struct Facts {
    /// The kernel's release.
    pub kernel: String,
    /// The user that asks; 0 is root.
    pub uid: u32,
    /// The newest set of Landlock's rules, up to the one that is used; 0 is none.
    pub landlock_abi: u8,
    /// Whether system calls can be filtered.
    pub has_seccomp: bool,
    /// User namespaces that this user may make; none if the kernel has none.
    pub max_user_namespaces: Option<u64>,
    /// Bubblewrap, if it is installed where it is looked for.
    pub bubblewrap: Option<Bubblewrap>,
    /// Whether the number of processes of a command can be limited. The kernel counts those of a
    /// plain user; root needs a control group.
    pub limits_processes: bool,
    /// The levels, each tried.
    pub levels: Vec<Attempt>,
    /// The level that `auto` takes.
    pub auto: Option<Level>,
}

/// A program that is there.
#[derive(Debug, Clone, Serialize)]
pub struct Bubblewrap {
    /// Where it is.
    pub path: &'static Path,
    /// What it says of itself.
    pub version: String,
}

/// What came of trying a level.
#[derive(Debug, Clone, Serialize)]
pub struct Attempt {
    /// The level.
    pub level: Level,
    /// Whether a command ran in it.
    pub works: bool,
    /// Why none did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
}

impl Facts {
    /// Looks, and tries both levels. The folder is one that commands would be able to write to.
    pub async fn gather(folder: &Path) -> Self {
        let mut levels = Vec::new();
        for (level, setting) in [(Level::Full, Setting::Full), (Level::Basic, Setting::Basic)] {
            let Some(sandbox) = Sandbox::new(setting) else { continue };
            let why_not = sandbox.open(folder).await.err().map(|Unavailable(reasons)| {
                reasons.into_iter().map(|(_, error)| error.to_string()).collect()
            });
            levels.push(Attempt { level, works: why_not.is_none(), why_not });
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

    /// What could be better, and how to make it so.
    pub fn advice(&self) -> Vec<&'static str> {
        let works = |level| self.levels.iter().any(|one| one.level == level && one.works);
        let mut advice = Vec::new();
        if self.bubblewrap.is_none() {
            advice.push("the full level needs bubblewrap 0.8 or newer: apt-get install bubblewrap");
        } else if !works(Level::Full) {
            advice.push(
                "the full level needs user namespaces: see kernel.unprivileged_userns_clone, \
                 kernel.apparmor_restrict_unprivileged_userns, or the container's seccomp profile",
            );
        }
        if !works(Level::Basic) {
            advice.push("the basic level needs Landlock with its rules of Linux 6.12, and seccomp");
        }
        if self.uid == 0 {
            advice.push("run the service as a user of its own: root owns too much of the machine");
        }
        if !self.limits_processes {
            advice.push("nothing counts root's processes here: no control group can be made");
        }
        if self.auto == Some(Level::Basic) {
            advice.push(
                "at the basic level files that other programs run, such as .git/hooks, cannot be \
                 kept from commands: Bash refuses to work in a shared --shared-workspace",
            );
        }
        advice
    }
}

impl Bubblewrap {
    fn of(path: &'static Path) -> Self {
        let said = Command::new(path).arg("--version").env_clear().stdin(Stdio::null()).output();
        let version = said.map(|said| String::from_utf8_lossy(&said.stdout).trim().to_owned());
        Self { path, version: version.unwrap_or_default() }
    }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}
