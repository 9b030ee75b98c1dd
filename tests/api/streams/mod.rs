//! Event streams, and the clients that read them.

mod abusive_clients;
mod events;
mod json_lines;
mod permits;
mod probe;
mod session_list;
mod slow_clients;
mod snapshots;
mod stalled_readers;
mod tickets;
mod typed_events;
