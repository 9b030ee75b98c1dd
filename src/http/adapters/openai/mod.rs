//! The protocol of OpenAI's Chat Completions.
//!
//! `body` parses a request, `conversation` finds its session, `turn` calls the use cases, `mapper` turns
//! the events of the run into pieces of a completion, and `stream` and `complete` write them.

mod body;
mod complete;
mod completion;
mod completions;
mod content;
mod conversation;
mod mapper;
mod models;
mod side_request;
mod stream;
mod transcript;
mod turn;

pub(in crate::http) use completions::{__path_create_chat_completion, create_chat_completion};
pub(in crate::http) use models::{
    __path_get_openai_model, __path_list_openai_models, get_openai_model, list_openai_models,
};
