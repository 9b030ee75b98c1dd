//! The protocol of the AI SDK. `tests/front-ends/ai-sdk` tests the packages themselves.

mod browsers;
mod chat;
mod chunks;
mod forks;
mod history;
mod races;
mod streams;
mod trust;

use chat::{Chat, kinds, of_type, user};
