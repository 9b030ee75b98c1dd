//! The protocol of the AI SDK (`ai`, `@ai-sdk/react`): the UI message stream, version 1.
//!
//! `body` parses a request, `turn` calls the use cases, `mapper` turns the events of the run into
//! chunks, and `encoder` turns chunks into frames. `ui_message` folds the same chunks into the messages
//! of the history.

mod answers;
mod body;
mod chat;
mod chunk;
mod encoder;
mod history;
mod ids;
mod mapper;
mod message;
mod parts;
mod previews;
mod profile;
mod resume;
mod stop;
mod turn;
mod ui_message;

pub(in crate::http) use chat::{__path_create_chat_turn, create_chat_turn};
pub(in crate::http) use history::{__path_list_chat_messages, list_chat_messages};
pub(in crate::http) use resume::{__path_resume_chat, resume_chat};
pub(in crate::http) use stop::{__path_stop_chat, stop_chat};
