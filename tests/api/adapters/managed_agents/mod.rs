//! The protocol of Claude Managed Agents. `tests/front-ends/managed-agents` tests the SDKs themselves.

mod agents;
mod client;
mod environments;
mod errors;
mod events;
mod sessions;
mod streams;

use client::{Sdk, kinds, refused, user};
