//! A tool-using agent behind one HTTP endpoint: durable runs, full history in Postgres, progress
//! over SSE.

pub mod store;
