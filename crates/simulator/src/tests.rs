//! The simulator over a real socket, and the invariants of its streams.

mod client;
mod compaction;
mod containers;
mod delivery;
mod editing;
mod replies;
mod service;
