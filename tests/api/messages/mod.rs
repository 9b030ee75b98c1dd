//! Posting messages: content, attachments, idempotency, batches of events.

mod attachments;
mod concurrent_attachments;
mod concurrent_messages;
mod event_batches;
mod feedback;
mod files;
mod forked_files;
mod forms;
mod idempotency;
mod media_support;
mod plain_view;
mod posting;
