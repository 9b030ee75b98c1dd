//! The lock of a folder while a file in it is replaced.

use std::io;
use std::os::fd::OwnedFd;
use std::thread::sleep;
use std::time::Duration;

use cap_std::fs::Dir;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, openat};
use rustix::io::Errno;

/// The number of tries to lock a folder, and the pause between them: 3 s in total. Another writer
/// holds the lock only while it compares and replaces a file.
const TRIES: u32 = 600;
const PAUSE: Duration = Duration::from_millis(5);

/// Locks a folder exclusively for this and other processes, until the returned handle is closed.
///
/// The folder is locked, and not the file, because a file is replaced: a lock of the old file does
/// not exclude a writer that opens the new one, and a file that does not exist cannot be locked. On
/// network file systems, locks of folders exclude the processes of one machine only.
pub(super) fn lock(folder: &Dir) -> io::Result<OwnedFd> {
    let unlockable = |error: Errno| {
        let error = io::Error::from(error);
        io::Error::other(format!("its folder cannot be locked ({error}); it was not changed"))
    };
    // A handle of its own: handles that were duplicated from each other share their locks.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let handle = openat(folder, ".", flags, Mode::empty()).map_err(unlockable)?;
    for _ in 0..TRIES {
        match flock(&handle, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK | Errno::INTR) => sleep(PAUSE),
            locked => return locked.map(|()| handle).map_err(unlockable),
        }
    }
    Err(io::Error::other(
        "another change of a file in its folder has not ended; it was not changed by this call. \
         Try again later, and read it again first",
    ))
}
