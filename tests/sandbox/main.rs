//! Commands that try to get out of the sandbox, at each level, and commands that must work in it.
//! Real processes, files, sockets and signals; no database, so that a plain user can run it.
#![cfg(test)]
#![expect(
    clippy::disallowed_methods,
    reason = "a test's environment is its own: it says which levels can be tested where it runs"
)]

mod attacks;
#[path = "../support/kept_output.rs"]
mod kept_output;
mod lives;
#[path = "../support/machine.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod machine;
mod world;
