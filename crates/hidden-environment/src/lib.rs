//! Hides the environment variables of a process from `/proc/PID/environ`.
//!
//! The kernel shows the variables that a program was started with as long as it runs, to every
//! process that may inspect it: for a program of root, to every other program of root. Removing a
//! variable does not change that. So the program executes itself once more, without variables, and
//! reads them from a memory file that its previous self has written.
//!
//! Variables with effects before `main`, such as `LD_LIBRARY_PATH`, are passed on as they are.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use rustix::fs::{MemfdFlags, memfd_create};

/// The variable with the number of the memory file. It exists only between the two executions.
const MARKER: &str = "HIDDEN_ENVIRONMENT_FD";
/// The name of the memory file.
const NAME: &str = "hidden-environment";
/// The executable of this process, also when its file has been replaced since it was started.
const OURSELVES: &str = "/proc/self/exe";
/// The beginnings of the names of variables that the loader, the allocators, a profiler and
/// `libfaketime` read before `main`.
const READ_BEFORE_MAIN: [&str; 6] =
    ["LD_", "GLIBC_", "MALLOC_", "MIMALLOC_", "LLVM_PROFILE_", "FAKETIME"];

/// The environment was not hidden.
#[derive(Debug, thiserror::Error)]
pub enum HideError {
    /// The program runs with its variables as they were.
    #[error("the environment variables stay readable in /proc: {0}")]
    Visible(#[source] io::Error),
    /// The variables are lost, so the program must not continue.
    #[error("the environment variables cannot be restored: {0}")]
    Lost(#[source] io::Error),
}

/// Hides the variables of this process. They stay available to the process itself.
///
/// Must be called first in `main`, before a thread is started. The first call in a process does not
/// return: it executes the program again with the same arguments.
pub fn hide() -> Result<(), HideError> {
    if let Some(number) = env::var_os(MARKER) {
        return restore(&number).map_err(HideError::Lost);
    }
    let is_hidden = |name: &OsStr| !is_read_before_main(name);
    if !env::vars_os().any(|(name, _)| is_hidden(&name)) {
        return Ok(());
    }
    Err(HideError::Visible(execute_again()))
}

fn is_read_before_main(name: &OsStr) -> bool {
    READ_BEFORE_MAIN.iter().any(|start| name.as_bytes().starts_with(start.as_bytes()))
}

/// Writes the variables to a memory file, and executes the program without them. Returns only on
/// failure.
fn execute_again() -> io::Error {
    let memory = match write_variables() {
        Ok(memory) => memory,
        Err(error) => return error,
    };
    let mut arguments = env::args_os();
    let name = arguments.next().unwrap_or_else(|| OURSELVES.into());
    let before_main = env::vars_os().filter(|(name, _)| is_read_before_main(name));
    Command::new(OURSELVES)
        .arg0(name)
        .args(arguments)
        .env_clear()
        .envs(before_main)
        .env(MARKER, memory.as_raw_fd().to_string())
        .exec()
}

/// A file in memory with the variables, which the next execution inherits.
fn write_variables() -> io::Result<File> {
    let mut memory = File::from(memfd_create(NAME, MemfdFlags::empty())?);
    let mut bytes = Vec::new();
    for (name, value) in env::vars_os() {
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(b'=');
        bytes.extend_from_slice(value.as_bytes());
        bytes.push(0);
    }
    memory.write_all(&bytes)?;
    Ok(memory)
}

/// Reads the variables from the memory file, empties it, and sets them.
fn restore(number: &OsStr) -> io::Result<()> {
    let number: u32 = number.to_str().and_then(|number| number.parse().ok()).ok_or_else(|| {
        io::Error::other(format!("{MARKER} is set, but is not the number of a file"))
    })?;
    let path = format!("/proc/self/fd/{number}");
    let target = fs::read_link(&path)?;
    if !target.as_os_str().as_bytes().starts_with(format!("/memfd:{NAME}").as_bytes()) {
        return Err(io::Error::other(format!("{MARKER} names {}", target.display())));
    }
    let mut memory = File::options().read(true).write(true).open(&path)?;
    let mut bytes = Vec::new();
    memory.read_to_end(&mut bytes)?;
    // The inherited descriptor cannot be closed by safe code. Without content it is harmless, and
    // no program of this process inherits it.
    memory.set_len(0)?;
    close_fds::set_fds_cloexec(3, &[]);
    set_process_name();
    set_variables(&bytes)
}

/// Replaces the name `exe`, which the execution of `/proc/self/exe` has left.
fn set_process_name() {
    let name = env::args_os().next().unwrap_or_default();
    let name = Path::new(&name).file_name().unwrap_or_default().as_bytes();
    if let Ok(name) = std::ffi::CString::new(name) {
        // Only tools such as `ps` show the name.
        let _ = rustix::thread::set_name(&name);
    }
}

#[expect(unsafe_code, reason = "std has no safe function that changes the environment")]
fn set_variables(bytes: &[u8]) -> io::Result<()> {
    if fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("other threads are running already"));
    }
    for (name, value) in variables(bytes) {
        // SAFETY: no other thread exists that could read the environment at the same time; the
        // number of threads was checked above, and this thread starts none meanwhile. The name is
        // neither empty nor contains `=` or NUL, and the value contains no NUL.
        unsafe { env::set_var(name, value) };
    }
    // SAFETY: as above.
    unsafe { env::remove_var(MARKER) };
    Ok(())
}

/// The variables in the memory file.
fn variables(bytes: &[u8]) -> impl Iterator<Item = (OsString, OsString)> {
    bytes.split(|byte| *byte == 0).filter_map(|line| {
        let end = line.iter().position(|byte| *byte == b'=').filter(|end| *end > 0)?;
        let (name, value) = (line.get(..end)?, line.get(end + 1..)?);
        Some((OsString::from_vec(name.to_vec()), OsString::from_vec(value.to_vec())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_survive_the_memory_file() {
        let bytes = b"A=1\0EMPTY=\0EQUALS=a=b\0LINES=a\nb\0BYTES=\xff\0=odd\0";
        let expected: [(&str, &[u8]); 5] = [
            ("A", b"1"),
            ("EMPTY", b""),
            ("EQUALS", b"a=b"),
            ("LINES", b"a\nb"),
            ("BYTES", b"\xff"),
        ];
        let expected = expected
            .map(|(name, value)| (OsString::from(name), OsString::from_vec(value.to_vec())));
        assert_eq!(variables(bytes).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn variables_of_the_loader_are_not_hidden() {
        for (name, expected) in
            [("LD_LIBRARY_PATH", true), ("DATABASE_URL", false), ("OLD_KEY", false)]
        {
            assert_eq!(is_read_before_main(OsStr::new(name)), expected, "{name}");
        }
    }
}
