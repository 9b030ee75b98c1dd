//! The limit of open files of the process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::Config;

/// Open files of a run that is executed: the connection of its client and that to the model's server.
const FILES_OF_RUN: u64 = 2;
/// Open files of the process itself: connections to the database, folders, pipes.
const OTHER_FILES: u64 = 256;

/// Raises the limit of open files to the hard limit. Each connection is an open file, and the default
/// soft limit of 1024 exists only for programs that use `select`.
pub(super) fn raise_limit(config: &Config) {
    let limit = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    if let Err(error) = raised {
        tracing::debug!(%error, "limit of open files not raised");
    }
    let slots = config.work.as_ref().map_or(0, |work| work.slots);
    let needed = needed(slots);
    // None is no limit.
    if let Some(limit) = getrlimit(Resource::Nofile).current
        && limit < needed
    {
        tracing::warn!(
            limit,
            needed,
            slots,
            "limit of open files is low for --slots: raise the hard limit or lower --slots"
        );
    }
}

/// The open files of a process that executes so many runs.
fn needed(slots: usize) -> u64 {
    let slots = u64::try_from(slots).unwrap_or(u64::MAX);
    slots.saturating_mul(FILES_OF_RUN).saturating_add(OTHER_FILES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_needs_a_connection_of_its_client_and_one_to_the_model() {
        assert_eq!(needed(1024), 2304);
        assert_eq!(needed(usize::MAX), u64::MAX);
    }
}
