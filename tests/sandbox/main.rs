//! Commands that try to escape from the sandbox, and commands that must work in it, at each level.
//! Real processes, files, sockets and signals; no database, so that an unprivileged user can run
//! the tests.
#![cfg(test)]
#![expect(
    clippy::disallowed_methods,
    reason = "tests read from the environment which levels the machine supports"
)]

mod attacks;
mod command_lifecycle;
#[path = "../support/kept_output.rs"]
mod kept_output;
#[path = "../support/machine.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod machine;
mod targets;
