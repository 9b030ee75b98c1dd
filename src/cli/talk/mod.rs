//! Talking to an agent: messages and their runs, and how these look on a terminal.

mod event;
mod markdown;
mod new_session;
mod progress;
mod run;
mod screen;
mod turn;

pub(super) use new_session::NewSessionArgs;
pub(super) use run::{Approval, Run};
pub(super) use screen::{NoteStyle, Screen};
pub(super) use turn::{Turn, new_session};
