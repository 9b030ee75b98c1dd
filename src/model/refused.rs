//! What a server finds wrong with a history.
//!
//! There is hardly a word for it but the server's sentence, which may change. One that is not
//! understood costs no more than the run that it fails.

use super::{ErrorKind, ModelError};
use crate::domain::sent_history::BlockPosition;

/// A part of the history that the server does not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// Thinking: it is not what the server has signed, or stands where none may.
    Thinking,
    /// The summary of what came before.
    Summary,
    /// These blocks.
    Blocks(Vec<BlockPosition>),
}

impl ModelError {
    /// What part of the history the server refuses, if it names one.
    pub(super) fn refused(&self) -> Option<Refused> {
        self.refusal().and_then(|(message, paths)| refused(message, paths))
    }

    /// What the server says of a request that it does not take, and the places that it names.
    pub(super) fn refusal(&self) -> Option<(&str, &[String])> {
        match self {
            Self::Api {
                status: Some(400),
                kind: ErrorKind::InvalidRequest,
                message,
                paths,
                ..
            } => Some((message, paths)),
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

fn refused(sentence: &str, paths: &[String]) -> Option<Refused> {
    let names = |word| sentence.contains(word);
    if names("bound to a different conversation")
        || names("Invalid `signature` in `thinking` block")
        || names("thinking.signature: Field required")
        || names("`thinking` or `redacted_thinking` blocks in the latest assistant message")
        || names("final block in an assistant message cannot be `thinking`")
    {
        return Some(Refused::Thinking);
    }
    if names("compaction") && !names("anthropic-beta") {
        return Some(Refused::Summary);
    }
    let mut places: Vec<BlockPosition> = paths.iter().filter_map(|path| place(path)).collect();
    if places.is_empty() {
        places.push(place(sentence.split_once(": ")?.0)?);
    }
    Some(Refused::Blocks(places))
}

/// The block that a path leads to or into.
fn place(path: &str) -> Option<BlockPosition> {
    let mut words = path.split('.');
    if words.next() != Some("messages") {
        return None;
    }
    let message = words.next()?.parse().ok()?;
    if words.next() != Some("content") {
        return None;
    }
    let block = words.next()?.parse().ok()?;
    // Of a document only the whole can be left out.
    let mut inside = words.take_while(|word| *word != "source");
    let part = inside.by_ref().find(|word| *word == "content").and_then(|_| inside.next());
    Some(BlockPosition { message, block, part: part.and_then(|part| part.parse().ok()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ReplyHead;

    fn of(status: u16, message: &str) -> Option<Refused> {
        naming(status, message, &[])
    }

    fn naming(status: u16, message: &str, paths: &[&str]) -> Option<Refused> {
        let (kind, message) = (ErrorKind::of_status(status), message.to_owned());
        let paths = paths.iter().map(|path| (*path).to_owned()).collect();
        let (status, head) = (Some(status), ReplyHead::default());
        ModelError::Api { status, kind, message, paths, head }.refused()
    }

    #[test]
    fn a_path_names_a_block_or_a_part_of_it() {
        let named =
            |part| Some(Refused::Blocks(vec![BlockPosition { message: 3, block: 1, part }]));
        let image = "messages.3.content.1.image.source.base64.data: Could not process image";
        assert_eq!(of(400, image), named(None));
        assert_eq!(of(400, "messages.3.content.1: too large"), named(None));
        let inner = "messages.3.content.1.tool_result.content.0.image.source: no image";
        assert_eq!(of(400, inner), named(Some(0)));
        let document = "messages.3.content.1.document.source.content.2.image.source: no image";
        assert_eq!(of(400, document), named(None));
    }

    #[test]
    fn all_blocks_are_refused_that_are_named_beside_the_sentence() {
        let paths = ["messages.0.content.2", "messages.4.content.0.content.1", "system.0"];
        let place = |message, block, part| BlockPosition { message, block, part };
        let places = vec![place(0, 2, None), place(4, 0, Some(1))];
        let said = "messages.0.content.2: too large";
        assert_eq!(naming(400, said, &paths), Some(Refused::Blocks(places)));
        assert_eq!(naming(500, said, &paths), None);
    }

    #[test]
    fn thinking_has_sentences_of_its_own() {
        for sentence in [
            "messages.1.content.0: Invalid `signature` in `thinking` block",
            "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to \
             a different conversation. Remove the block.",
            "messages.3.content.0: `thinking` or `redacted_thinking` blocks in the latest \
             assistant message cannot be modified.",
            "messages.1.content.0.thinking.signature: Field required",
            "messages.1: The final block in an assistant message cannot be `thinking`.",
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
