//! Tools of servers that speak the Model Context Protocol.

mod deferred_tools;
mod fake_server;
mod hostile;
mod images;
mod lifecycle;
mod offered_tools;
mod permission_evaluator;
mod protocol_violations;
mod published_servers;
mod streamable_http;
mod tool_list_changes;
