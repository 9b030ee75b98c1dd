//! The protocols of OpenAI: Chat Completions, and Responses in `responses`.
//!
//! `body` parses a request, `conversation` finds its session, `turn` calls the use cases, `mapper` turns
//! the events of the run into pieces of a completion, and `stream` and `complete` write them.

mod answer_slot;
mod body;
mod complete;
mod completion;
mod completions;
mod content;
mod conversation;
mod delivery;
mod ending;
mod files;
mod mapper;
mod models;
mod responses;
mod side_request;
mod stream;
mod tool_choice;
mod transcript;
mod turn;

pub(in crate::http) use completions::{__path_create_chat_completion, create_chat_completion};
pub(in crate::http) use files::{
    __path_create_openai_file, __path_delete_openai_file, __path_get_openai_file,
    __path_get_openai_file_content, create_openai_file, delete_openai_file, get_openai_file,
    get_openai_file_content,
};
pub(in crate::http) use models::{
    __path_get_openai_model, __path_list_openai_models, get_openai_model, list_openai_models,
};
pub(in crate::http) use responses::{
    __path_cancel_openai_response, __path_create_openai_response, __path_get_openai_response,
    cancel_openai_response, create_openai_response, get_openai_response,
};
