//! The simulator over a real socket, and the laws of its streams.

mod client;
mod delivery;
mod replies;
mod service;
