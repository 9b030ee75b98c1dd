//! The full level: bubblewrap makes the namespaces and mounts.

use std::fs::{self, File};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};

use super::super::OURSELVES;
use super::files::{ETC, SYSTEM};
use super::{Surroundings, WORKSPACE, could_not};

/// Where bubblewrap may be. Never looked for on a `PATH`, which a workspace could reach.
const PROGRAMS: [&str; 2] = ["/usr/bin/bwrap", "/usr/local/bin/bwrap"];
/// The helper as the sandbox sees it.
const HELPER: &str = "/.twostep";
/// Bytes for what a command leaves in `/tmp`, and in `/dev/shm`.
const TMPFS: &str = "536870912";
/// The one user there is inside.
const PASSWD: &str = "user:x:1000:1000::/tmp:/bin/bash\nnobody:x:65534:65534::/:/bin/false\n";
const GROUP: &str = "user:x:1000:\nnogroup:x:65534:\n";

/// Bubblewrap, if it is installed.
pub(crate) fn program() -> Option<&'static Path> {
    PROGRAMS.into_iter().map(Path::new).find(|path| path.is_file())
}

/// The command that starts the second stage in namespaces of its own, and the files that must be
/// open when it is started.
pub(super) fn command(surroundings: &Surroundings) -> Result<(Command, Vec<File>), String> {
    let program = program().ok_or("bubblewrap is not installed")?;
    let mut command = Command::new(program);
    command.args([
        "--unshare-all",
        "--unshare-user",
        "--disable-userns",
        "--die-with-parent",
        "--new-session",
        "--clearenv",
        "--cap-drop",
        "ALL",
        "--uid",
        "1000",
        "--gid",
        "1000",
        "--hostname",
        "sandbox",
    ]);
    system(&mut command);
    command.args(["--proc", "/proc", "--dev", "/dev"]);
    for folder in ["/dev/shm", "/tmp"] {
        command.args(["--size", TMPFS, "--tmpfs", folder]);
    }
    let passwd = made_up(&mut command, "/etc/passwd", PASSWD)?;
    let group = made_up(&mut command, "/etc/group", GROUP)?;
    command.arg("--bind").arg(&surroundings.workspace).arg(WORKSPACE);
    for name in &surroundings.protected {
        let inside = Path::new(WORKSPACE).join(name);
        command.arg("--ro-bind").arg(surroundings.workspace.join(name)).arg(inside);
    }
    let ourselves = helper(&mut command)?;
    // Last, because it closes what the others make their places in: the root and /dev are memory
    // without a limit as long as they can be written to.
    command.args(["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", WORKSPACE]);
    command.args(["--", HELPER]);
    Ok((command, vec![passwd, group, ourselves]))
}

/// Programs and the little of `/etc` that they need, as this machine has them.
fn system(command: &mut Command) {
    for place in SYSTEM {
        match fs::read_link(place) {
            Ok(target) => command.arg("--symlink").arg(target).arg(place),
            Err(_no_link) => command.args(["--ro-bind-try", place, place]),
        };
    }
    for place in ETC {
        command.args(["--ro-bind-try", place, place]);
    }
}

/// This very program, also when its file has been replaced since it was started.
fn helper(command: &mut Command) -> Result<File, String> {
    let ourselves = File::open(OURSELVES).map_err(could_not("the helper cannot be opened"))?;
    let is_gone = fs::read_link(OURSELVES).is_ok_and(|path| !path.exists());
    if is_gone {
        // There is no name left to mount, only the bytes.
        let number = give(&ourselves)?.to_string();
        command.args(["--perms", "0555", "--ro-bind-data", &number, HELPER]);
        return Ok(ourselves);
    }
    let path = give(&ourselves).map(|number| PathBuf::from(format!("/proc/self/fd/{number}")))?;
    command.arg("--ro-bind").arg(path).arg(HELPER);
    Ok(ourselves)
}

/// A file with this text.
fn made_up(command: &mut Command, path: &str, text: &str) -> Result<File, String> {
    let memory = memfd_create("twostep", MemfdFlags::CLOEXEC)
        .map_err(|error| format!("no memory for {path}: {error}"))?;
    let mut file = File::from(memory);
    file.write_all(text.as_bytes())
        .and_then(|()| file.seek(SeekFrom::Start(0)))
        .map_err(could_not("no memory for a file"))?;
    let number = give(&file)?.to_string();
    command.args(["--perms", "0444", "--ro-bind-data", &number, path]);
    Ok(file)
}

/// Lets the next program have a file.
fn give(file: &File) -> Result<i32, String> {
    fcntl_setfd(file, FdFlags::empty()).map_err(|error| format!("a file is not given: {error}"))?;
    Ok(file.as_raw_fd())
}
