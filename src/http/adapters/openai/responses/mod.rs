//! The protocol of OpenAI's Responses.
//!
//! A response is a part of a run: from a message, or from answers to its calls, to the point at which the
//! run settles or waits for the client. `body` and `input` parse a request, `turn` calls the use cases,
//! `mapper` turns the events of the run into `event`s and items of the response, `stream` and `document`
//! write them, and `find` reads stored responses.

mod body;
mod cancel;
mod create;
mod document;
mod event;
mod find;
mod get;
mod id;
mod input;
mod item;
mod mapper;
mod resource;
mod stream;
mod turn;
mod usage;

pub(in crate::http) use cancel::{__path_cancel_openai_response, cancel_openai_response};
pub(in crate::http) use create::{__path_create_openai_response, create_openai_response};
pub(in crate::http) use get::{__path_get_openai_response, get_openai_response};
