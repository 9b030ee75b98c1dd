//! The feed of changes of the session list: one watch reads the changes for all readers of a process,
//! only when something has changed.

pub(super) mod feed;
mod item;
mod load;
mod reader;
mod watch;

pub(crate) use feed::FeedBatch;
pub(crate) use item::{FeedItem, FeedState};
pub(crate) use reader::FeedReader;
pub use watch::watch_changes;
