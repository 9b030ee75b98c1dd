//! Content blocks that clients send.
//!
//! Content that the model would reject is refused before it enters the history: from there it would
//! be sent with every later request. Accepted blocks are brought into one form, in which they are
//! stored and sent.

mod block;
mod content_limits;
mod image;
mod input;
mod model_support;
mod parse;
#[cfg(test)]
mod tests;
mod uploaded;
mod url;

pub(crate) use block::{Block, InputContent};
pub(crate) use content_limits::{ContentTotals, LARGE};
pub(crate) use input::ContentInput;
pub(crate) use model_support::{check_model_support, refuses_citations};
pub(crate) use parse::{parse, parse_message};
pub(crate) use uploaded::{FileUse, file_uses, media_type as uploaded_media_type};
