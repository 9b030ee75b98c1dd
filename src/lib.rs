//! A tool-using agent behind one HTTP endpoint: durable runs, full history in Postgres, progress
//! over SSE.

#[cfg(test)]
extern crate self as twostep; // the test support is shared with `tests/api`, which says `twostep`

pub mod store;
