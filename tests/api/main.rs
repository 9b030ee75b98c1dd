//! Black-box tests: a real socket, a real Postgres, and a scripted model that refuses every
//! request that the real one would refuse.
#![cfg(test)]
#![expect(
    clippy::disallowed_methods,
    reason = "a test waits for what it spawns, and its environment is its own"
)]

mod access;
mod approval_attacks;
mod approvals;
mod attached_together;
mod attachments;
mod awaiting;
mod bad_input;
mod bad_members;
mod base_path;
mod bash;
mod broken_streams;
mod budgets;
mod busy;
mod caching;
mod cancelling;
mod catalogue;
mod chat_completions;
mod chat_servers;
mod client_tools;
mod commands;
mod commands_output;
mod compacting;
mod conditions;
mod context_edits;
mod conversations;
mod cookbook;
mod database_faults;
mod dispatch;
mod draining;
mod explaining;
mod failing_slowly;
mod file_tools;
mod giving_up;
mod hearsay;
mod idempotency;
mod keys;
mod layers;
mod leaving;
mod loop_behaviour;
mod media_rules;
mod model_errors;
mod model_failures;
mod model_flags;
mod model_outage;
mod model_retries;
mod model_settings;
mod models;
mod odd_summaries;
mod openapi;
mod overload;
mod permissions;
mod plain_tools;
mod plain_view;
mod posting;
mod processes;
mod proxies;

mod questions;
mod queueing;
mod readme;
mod records;
mod refused_again;
mod refused_history;
mod repairing;
mod requests;
mod search_tools;
mod server_tools;
mod session_changes;
mod session_deletion;
mod signals;
mod slow_clients;
mod stalled_readers;
mod stop_reasons;
mod stopping;
mod stream_samples;
mod streams;
mod strict_schemas;
mod structured_output;
mod support;
mod takeover;
mod todos;
mod tool_results;
mod usage;
mod verifying;
mod weather;
