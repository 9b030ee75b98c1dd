//! What a server finds wrong with a history.
//!
//! There is no word for it but the server's sentence, which may change. One that is not understood
//! costs no more than the run that it fails.

use super::{ErrorKind, ModelError};

/// A part of the history that the server does not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// Thinking: it is not what the server has signed, or stands behind something else.
    Thinking,
    /// A block.
    Block {
        /// The message, counted from 0.
        message: usize,
        /// The block, from 0.
        block: usize,
        /// The part of its content, from 0.
        part: Option<usize>,
    },
}

impl ModelError {
    /// What part of the history the server refuses, if it names one.
    pub fn refused(&self) -> Option<Refused> {
        match self {
            Self::Api { status: Some(400), kind: ErrorKind::InvalidRequest, message, .. } => {
                refused(message)
            }
            Self::Api { .. }
            | Self::Connect(_)
            | Self::Broken(_)
            | Self::Truncated
            | Self::Idle(_)
            | Self::Malformed(_)
            | Self::TooLarge(_)
            | Self::ShutOut(_) => None,
        }
    }
}

fn refused(sentence: &str) -> Option<Refused> {
    let names = |word| sentence.contains(word);
    if names("bound to a different conversation")
        || names("Invalid `signature` in `thinking` block")
        || names("`thinking` or `redacted_thinking` blocks in the latest assistant message")
    {
        return Some(Refused::Thinking);
    }
    let (path, _) = sentence.split_once(": ")?;
    let mut words = path.split('.');
    if words.next() != Some("messages") {
        return None;
    }
    let message = words.next()?.parse().ok()?;
    if words.next() != Some("content") {
        return None;
    }
    let block = words.next()?.parse().ok()?;
    let part = words.skip_while(|word| *word != "content").nth(1);
    Some(Refused::Block { message, block, part: part.and_then(|part| part.parse().ok()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ReplyHead;

    fn of(status: u16, message: &str) -> Option<Refused> {
        let (kind, message) = (ErrorKind::of_status(status), message.to_owned());
        ModelError::Api { status: Some(status), kind, message, head: ReplyHead::default() }
            .refused()
    }

    #[test]
    fn a_path_names_a_block_or_a_part_of_it() {
        let named = |part| Some(Refused::Block { message: 3, block: 1, part });
        let image = "messages.3.content.1.image.source.base64.data: Could not process image";
        assert_eq!(of(400, image), named(None));
        assert_eq!(of(400, "messages.3.content.1: too large"), named(None));
        let inner = "messages.3.content.1.tool_result.content.0.image.source: no image";
        assert_eq!(of(400, inner), named(Some(0)));
    }

    #[test]
    fn thinking_has_sentences_of_its_own() {
        for sentence in [
            "messages.1.content.0: Invalid `signature` in `thinking` block",
            "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to \
             a different conversation. Remove the block.",
            "messages.3.content.0: `thinking` or `redacted_thinking` blocks in the latest \
             assistant message cannot be modified.",
        ] {
            assert_eq!(of(400, sentence), Some(Refused::Thinking), "{sentence}");
        }
    }

    #[test]
    fn what_names_no_block_refuses_none() {
        for sentence in ["messages.3: empty", "tools.0.name: too long", "prompt is too long", ""] {
            assert_eq!(of(400, sentence), None, "{sentence}");
        }
        assert_eq!(of(500, "messages.3.content.1: broken"), None);
    }
}
