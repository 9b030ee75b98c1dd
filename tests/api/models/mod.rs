//! Model servers: their catalog, protocols and failures, and the requests sent to them.

mod broken_streams;
mod catalog;
pub(crate) mod certificates;
mod chat_completions;
mod chat_dialects;
mod compaction;
mod containers;
mod context_edits;
mod error_causes;
mod errors;
mod failed_summaries;
mod failures;
mod generation;
mod history_repair;
mod options;
mod outage;
mod prompt_cache;
mod provider_state;
mod providers;
pub(crate) mod recorded_streams;
mod refused_content;
mod refused_content_again;
mod refused_pairs;
mod reply_limits;
mod retries;
mod settings;
mod strict_schemas;
