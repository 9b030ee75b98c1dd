//! Responses, the newer protocol of `OpenAI`.
//!
//! The service keeps the history, so requests carry all of it: nothing is stored at the server, and
//! `previous_response_id` is not used. Reasoning comes back encrypted, and is sent back unchanged.

mod assemble;
mod client;
mod decode;
mod item;
mod reasoning;
mod refused_content;
mod request;
mod translate;

pub use client::{Client, ClientConfig, ReplyStream};
pub use reasoning::has_reasoning;
pub use refused_content::refused_content;
pub use request::{Head, body};
