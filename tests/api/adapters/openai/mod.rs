//! The protocols of OpenAI: Chat Completions, and Responses. `tests/front-ends/openai` tests the packages themselves.

mod client;
mod completions;
mod conversations;
mod disconnects;
mod responses;
mod side_requests;

use client::{assistant, chunks, complete, post, runs, session_of, text, user};
