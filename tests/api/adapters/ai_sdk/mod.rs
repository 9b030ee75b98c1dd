//! The protocol of the AI SDK. `tests/front-ends/ai-sdk` tests the packages themselves.

mod chat;
mod chunks;
mod forks;
mod history;
mod streams;
mod trust;

use chat::{Chat, kinds, of_type, user};
