//! Forks: sessions that continue from a message of another session.

mod closing;
mod create;
mod files;
mod request;

pub(crate) use create::{ForkSource, create_fork};
pub(crate) use request::CreateFork;
