//! Typical first questions to the real model, and the features of the API that a session can use. The
//! tests need an API key and cost money, so they are ignored by default:
//!
//! ```sh
//! ANTHROPIC_API_KEY=… cargo test --test live -- --ignored --nocapture
//! ANTHROPIC_API_KEY=… cargo test --test live -- --ignored --nocapture citations
//! ```
//!
//! `ANTHROPIC_BASE_URL` and `TWOSTEP_MODEL` select another server and model, `TWOSTEP_LIVE_OTHER_MODEL`
//! the model to which a session changes (default `claude-haiku-4-5`). The tests do not assess the
//! quality of an answer, only that there is one, and that the feature was used.
#![cfg(test)]
#![expect(clippy::disallowed_methods, reason = "the environment selects the server and the key")]
#![expect(clippy::print_stdout, reason = "the answers are printed for the reader")]

#[path = "live/features.rs"]
mod features;
#[path = "live/first_questions.rs"]
mod first_questions;
#[path = "api/support/kept_output.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod kept_output;
#[path = "live/live_service.rs"]
mod live_service;
#[path = "support/machine.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod machine;
#[path = "support/postgres.rs"]
mod postgres;
#[path = "api/support/program.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod program;
