//! Chat Completions, and the many servers that speak only that.
//!
//! The history stays in the form of the Messages API: a request is translated from it, and a
//! stream is assembled into it.

mod assemble;
mod calls;
mod client;
mod decode;
mod error;
mod options;
mod refused;
mod request;
mod said;
mod translate;

pub use client::{Client, ClientConfig, ReplyStream};
pub use refused::refused;
pub use request::{Head, body};
