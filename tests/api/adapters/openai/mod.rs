//! The protocol of OpenAI's Chat Completions. `tests/front-ends/openai` tests the packages themselves.

mod client;
mod completions;
mod conversations;
mod disconnects;
mod side_requests;

use client::{assistant, chunks, complete, post, runs, session_of, text, user};
