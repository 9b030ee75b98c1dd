//! Extraction of text from PDF documents.
//!
//! [`extract`] returns the text of each page with its lines, paragraphs and columns in reading
//! order. It parses untrusted input with safe code and bounded depth, but without a limit on time
//! or memory: the caller runs it in a confined process.

mod columns;
mod content;
mod document;
mod layout;
mod state;
#[cfg(test)]
mod tests;

pub use document::{Document, ExtractError, extract};
