//! The protocol of OpenAI's Responses.

mod calls;
mod client;
mod conversations;
mod files;
mod items;
mod stored;
