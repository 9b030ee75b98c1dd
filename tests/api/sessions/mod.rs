//! The sessions resource: creation, changes, lists, deletion, archiving, export, import and forks.

mod archiving;
mod bulk_deletion;
mod changes;
mod conditional_requests;
mod creation;
mod deletion;
mod deletion_fairness;
mod export;
mod external_ids;
mod forks;
mod import;
mod pagination;
mod search;
mod titles;
