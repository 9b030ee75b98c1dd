//! The memory that the process may use.

use std::fs;
use std::path::{Path, PathBuf};

/// The share of the memory that the histories of runs may use, unless the operator sets it.
const SHARE: usize = 4;
/// The memory of the histories if the memory of the machine is unknown.
const UNKNOWN: usize = 1024 * 1024 * 1024;

/// The default for the memory that the histories of runs may use, in bytes.
pub(super) fn default_history_memory() -> usize {
    available(Path::new("/")).map_or(UNKNOWN, |bytes| bytes / SHARE)
}

/// The memory of the machine, or less if the container or the service of this process has a limit.
fn available(root: &Path) -> Option<usize> {
    let machine = fs::read_to_string(root.join("proc/meminfo")).ok();
    let machine = machine.and_then(|text| total(&text));
    groups(root).iter().filter_map(|file| limit(file)).chain(machine).min()
}

/// The total memory in `/proc/meminfo`.
fn total(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// The files with the limits of the control groups of this process, in both versions.
fn groups(root: &Path) -> Vec<PathBuf> {
    let folder = root.join("sys/fs/cgroup");
    let own = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let own = Path::new(own).ancestors().map(|group| folder.join(group).join("memory.max"));
    own.chain([folder.join("memory/memory.limit_in_bytes")]).collect()
}

/// The limit in a file; none if it says `max`.
fn limit(file: &Path) -> Option<usize> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use tempfile::tempdir;

    use super::*;

    #[test]
    fn the_smallest_limit_of_machine_container_and_service_counts() {
        let root = tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let file = root.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        assert_eq!(available(root.path()), None);
        write("proc/meminfo", "MemTotal:       16384 kB\nMemFree: 5 kB\n");
        assert_eq!(available(root.path()), Some(16 * 1024 * 1024));
        write("proc/self/cgroup", "0::/system.slice/twostep.service\n");
        write("sys/fs/cgroup/system.slice/twostep.service/memory.max", "max\n");
        assert_eq!(available(root.path()), Some(16 * 1024 * 1024));
        write("sys/fs/cgroup/system.slice/memory.max", "8000000\n");
        assert_eq!(available(root.path()), Some(8_000_000));
        write("sys/fs/cgroup/memory.max", "4000000\n");
        assert_eq!(available(root.path()), Some(4_000_000));
    }
}
