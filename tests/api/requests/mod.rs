//! Requests that the HTTP layer rejects.

mod bad_input;
mod bad_members;
mod cursors;
mod explanations;
mod timestamps;
mod unstorable_text;
