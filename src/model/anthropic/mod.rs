//! The Anthropic Messages API, also offered by many other servers.

mod assemble;
mod cache_breakpoint;
mod call_check;
mod client;
mod count;
mod decode;
mod head;
mod models;
mod platform;
mod request;
mod tools;

pub use client::{Client, ClientConfig, ReplyStream};
pub use head::Head;
pub use models::ModelListError;
pub use platform::{AwsKeys, Hosting, ServiceAccount, TokenSource};
pub use request::body;
