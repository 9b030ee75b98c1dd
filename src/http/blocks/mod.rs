//! Content blocks that clients send: what the model would refuse is refused before anything enters
//! the history, because from there it would be sent with every later request. What is taken is
//! brought into the one form in which it is stored and sent.

mod block;
mod census;
mod given;
mod image;
mod not_taken;
mod pdf;
mod read;
#[cfg(test)]
mod tests;

pub(in crate::http) use block::{Block, GivenContent};
pub(in crate::http) use census::{Census, LARGE};
pub(in crate::http) use given::Given;
pub(in crate::http) use not_taken::check_taken;
pub(in crate::http) use read::read;
