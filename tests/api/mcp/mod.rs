//! Tools of servers that speak the Model Context Protocol.

mod evaluating;
mod fake;
mod hostile;
mod lists;
mod offering;
mod others;
mod rogue;
mod running;
mod web;
