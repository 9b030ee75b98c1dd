//! The full level: bubblewrap creates the namespaces and mounts.

use std::fs::{self, File};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};

use super::super::OURSELVES;
use super::files::{ETC, SYSTEM};
use super::{Parameters, WORKSPACE, could_not};

/// The paths of bubblewrap. The search does not use `PATH`, which could lead into a workspace.
const PROGRAMS: [&str; 2] = ["/usr/bin/bwrap", "/usr/local/bin/bwrap"];
/// The path of the helper inside the sandbox.
const HELPER: &str = "/.twostep";
/// Size in bytes of `/tmp`, and of `/dev/shm`.
const TMPFS: &str = "536870912";
/// The users inside the sandbox.
const PASSWD: &str = "user:x:1000:1000::/tmp:/bin/bash\nnobody:x:65534:65534::/:/bin/false\n";
const GROUP: &str = "user:x:1000:\nnogroup:x:65534:\n";

/// Returns the path of bubblewrap if it is installed.
pub(crate) fn program() -> Option<&'static Path> {
    PROGRAMS.into_iter().map(Path::new).find(|path| path.is_file())
}

/// Returns the command that starts the second stage in new namespaces, and the files that must be
/// open when it starts.
pub(super) fn command(parameters: &Parameters) -> Result<(Command, Vec<File>), String> {
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
    let passwd = file_with_text(&mut command, "/etc/passwd", PASSWD)?;
    let group = file_with_text(&mut command, "/etc/group", GROUP)?;
    command.arg("--bind").arg(&parameters.workspace).arg(WORKSPACE);
    for name in &parameters.protected {
        let inside = Path::new(WORKSPACE).join(name);
        command.arg("--ro-bind").arg(parameters.workspace.join(name)).arg(inside);
    }
    let ourselves = helper(&mut command)?;
    // Last, because the earlier options create their mount points in these two: the root and /dev
    // are in memory, without a limit while they are writable.
    command.args(["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", WORKSPACE]);
    command.args(["--", HELPER]);
    Ok((command, vec![passwd, group, ourselves]))
}

/// Mounts the programs of this machine and the files of `/etc` that they need.
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

/// Mounts the executable of this process, also when its file has been replaced since it was
/// started.
fn helper(command: &mut Command) -> Result<File, String> {
    let ourselves = File::open(OURSELVES).map_err(could_not("the helper cannot be opened"))?;
    let is_gone = fs::read_link(OURSELVES).is_ok_and(|path| !path.exists());
    if is_gone {
        // The file has no path any more, only its content.
        let number = inheritable_fd(&ourselves)?.to_string();
        command.args(["--perms", "0555", "--ro-bind-data", &number, HELPER]);
        return Ok(ourselves);
    }
    let path = inheritable_fd(&ourselves)
        .map(|number| PathBuf::from(format!("/proc/self/fd/{number}")))?;
    command.arg("--ro-bind").arg(path).arg(HELPER);
    Ok(ourselves)
}

/// Creates a file with this text.
fn file_with_text(command: &mut Command, path: &str, text: &str) -> Result<File, String> {
    let memory = memfd_create("twostep", MemfdFlags::CLOEXEC)
        .map_err(|error| format!("no memory for {path}: {error}"))?;
    let mut file = File::from(memory);
    file.write_all(text.as_bytes())
        .and_then(|()| file.seek(SeekFrom::Start(0)))
        .map_err(could_not("no memory for a file"))?;
    let number = inheritable_fd(&file)?.to_string();
    command.args(["--perms", "0444", "--ro-bind-data", &number, path]);
    Ok(file)
}

/// Lets the next program inherit a file.
fn inheritable_fd(file: &File) -> Result<i32, String> {
    fcntl_setfd(file, FdFlags::empty())
        .map_err(|error| format!("a file cannot be inherited: {error}"))?;
    Ok(file.as_raw_fd())
}
