//! Chat Completions, for the many servers that support only this protocol, and Responses.
//!
//! The history is stored in the format of the Messages API. Requests are translated from it, and
//! streams are assembled into it.

mod assemble;
mod blocks;
mod calls;
mod client;
mod decode;
mod error;
mod head_text;
mod options;
mod parts;
mod provider_state;
mod refused_content;
mod request;
pub mod responses;
mod summary;
mod think_tags;
mod translate;

pub use client::{Client, ClientConfig, ReplyStream};
pub use provider_state::has_provider_state;
pub use refused_content::refused_content;
pub use request::{Head, body};
pub use summary::summary_of;
