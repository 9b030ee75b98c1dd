//! Failures and shutdown: lost workers, an unavailable database, several processes, signals.

mod client_disconnects;
mod crash_loop;
mod database;
mod database_errors;
mod draining;
mod forged_notifications;
mod killed_workers;
mod migrations;
mod processes;
mod reloading;
mod shutdown;
mod signals;
pub(crate) mod takeover;
mod verification;
