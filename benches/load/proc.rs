//! CPU time and memory of processes, from `/proc`.

use std::fs;
use std::time::Duration;

use anyhow::Context as _;

/// The unit of CPU times in `/proc`: hundredths of a second, whatever the kernel's tick.
const TICK: Duration = Duration::from_millis(10);

struct Stat {
    name: String,
    parent: u32,
    own: u32,
    of_ended_children: u32,
}

fn stat(pid: u32) -> anyhow::Result<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (name, rest) = text.rsplit_once(')').context("a stat without a name")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // proc(5) numbers the fields from 1, and the name is field 2.
    let field = |number: usize| -> anyhow::Result<u32> {
        let text = fields.get(number - 3).context("a short stat")?;
        Ok(text.parse()?)
    };
    Ok(Stat {
        name: name.split_once('(').map_or(name, |(_, name)| name).to_owned(),
        parent: field(4)?,
        own: field(14)? + field(15)?,
        of_ended_children: field(16)? + field(17)?,
    })
}

/// The user and system time of a process.
pub(crate) fn cpu(pid: u32) -> anyhow::Result<Duration> {
    Ok(TICK * stat(pid)?.own)
}

/// The CPU time of a process and its children, including children that have exited.
pub(crate) fn family_cpu(pid: u32) -> anyhow::Result<Duration> {
    let head = stat(pid)?;
    let mut ticks = head.own + head.of_ended_children;
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(child) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // The process may have exited since the directory was read.
        if let Ok(stat) = stat(child)
            && stat.parent == pid
        {
            ticks += stat.own;
        }
    }
    Ok(TICK * ticks)
}

/// The postmaster that is the parent of a backend, if the backend runs on this machine.
pub(crate) fn postmaster_of(backend: u32) -> Option<u32> {
    let stat = stat(backend).ok()?;
    (stat.name == "postgres").then_some(stat.parent)
}

/// The resident memory of a process, in bytes.
pub(crate) fn resident(pid: u32) -> anyhow::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let kilobytes: u64 = kilobytes.context("no VmRSS")?.trim().parse()?;
    Ok(kilobytes * 1024)
}
