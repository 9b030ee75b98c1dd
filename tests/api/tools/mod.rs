//! Built-in tools and tools that the client runs.

mod bash;
mod catalog;
mod client_dispatch;
mod client_tools;
mod courses;
mod deferred_tools;
mod descriptions;
mod files;
mod hidden_text;
mod plain_tools;
mod questions;
mod records;
mod results;
mod sampling;
mod search;
mod server_tools;
mod strict_tools;
mod todos;
mod weather;
mod web;
