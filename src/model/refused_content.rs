//! The part of a history that a server rejects.
//!
//! Servers have almost no error codes for this, so it is recognized by the sentences of their
//! messages, which may change. A sentence that is not recognized fails only the run at hand.

use super::error::{ErrorKind, ModelError};
use crate::domain::sent_history::BlockPosition;

/// A part of the history that the server rejects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefusedContent {
    /// Thinking blocks: their signature does not verify, or they are in a position where the
    /// protocol allows none.
    Thinking,
    /// The compaction summary of earlier messages.
    Summary,
    /// The container in which the server ran code: it has expired, or the server does not know it.
    Container,
    /// Calls of server tools in code that the server cannot continue, because the request names no
    /// container.
    OpenCode,
    /// Images: there are too many of them, or too many for their size. Each message and each result was
    /// accepted, but a message can wait in the queue while tools add images before it.
    ExcessImages,
    /// The content blocks at these positions.
    Blocks(Vec<BlockPosition>),
}

impl ModelError {
    /// Returns the part of the history that the server rejects, if the error names one.
    pub(super) fn refused_content(&self) -> Option<RefusedContent> {
        // The API does not document which of these statuses it uses for a lost container.
        if let Self::Api { status: Some(404 | 410), message, .. } = self {
            return names_container(message).then_some(RefusedContent::Container);
        }
        self.refusal().and_then(|(message, paths)| refused_content(message, paths))
    }

    /// Returns the message of an `invalid_request_error` and the paths that it lists.
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
            | Self::Certificate(_)
            | Self::Broken(_)
            | Self::Truncated
            | Self::Idle(_)
            | Self::NoContent(_)
            | Self::TimeLimit(_)
            | Self::Malformed(_)
            | Self::BadCall(_)
            | Self::TooLarge(_)
            | Self::CircuitOpen(_)
            | Self::UnknownProvider(_) => None,
        }
    }
}

fn refused_content(sentence: &str, paths: &[String]) -> Option<RefusedContent> {
    let names = |word| sentence.contains(word);
    if names("bound to a different conversation")
        || names("Invalid `signature` in `thinking` block")
        || names("thinking.signature: Field required")
        || names("`thinking` or `redacted_thinking` blocks in the latest assistant message")
        || names("final block in an assistant message cannot be `thinking`")
        || names("message in the final position cannot contain `thinking`")
    {
        return Some(RefusedContent::Thinking);
    }
    if names("compaction") && !names("anthropic-beta") {
        return Some(RefusedContent::Summary);
    }
    if names("container_id is required") {
        return Some(RefusedContent::OpenCode);
    }
    if names_container(sentence) {
        return Some(RefusedContent::Container);
    }
    if names("Too much media") || names("for many-image requests") && !names("messages.") {
        return Some(RefusedContent::ExcessImages);
    }
    let mut positions: Vec<BlockPosition> =
        paths.iter().filter_map(|path| position(path)).collect();
    if positions.is_empty() {
        positions.push(position(sentence.split_once(": ")?.0)?);
    }
    Some(RefusedContent::Blocks(positions))
}

/// True if a sentence is about the container of the request and not about a block.
fn names_container(sentence: &str) -> bool {
    let sentence = sentence.to_ascii_lowercase();
    sentence.contains("container") && !sentence.starts_with("messages.")
}

/// The block that a path points to or into.
fn position(path: &str) -> Option<BlockPosition> {
    let mut words = path.split('.');
    if words.next() != Some("messages") {
        return None;
    }
    let message = words.next()?.parse().ok()?;
    if words.next() != Some("content") {
        return None;
    }
    let block = words.next()?.parse().ok()?;
    // A document can only be removed as a whole.
    let mut inside = words.take_while(|word| *word != "source");
    let part = inside.by_ref().find(|word| *word == "content").and_then(|_| inside.next());
    Some(BlockPosition { message, block, part: part.and_then(|part| part.parse().ok()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::reply_head::ReplyHead;

    fn of(status: u16, message: &str) -> Option<RefusedContent> {
        naming(status, message, &[])
    }

    fn naming(status: u16, message: &str, paths: &[&str]) -> Option<RefusedContent> {
        let (kind, message) = (ErrorKind::of_status(status), message.to_owned());
        let paths = paths.iter().map(|path| (*path).to_owned()).collect();
        let (status, head) = (Some(status), ReplyHead::default());
        ModelError::Api { status, kind, message, paths, head }.refused_content()
    }

    #[test]
    fn a_path_names_a_block_or_a_part_of_a_block() {
        let named =
            |part| Some(RefusedContent::Blocks(vec![BlockPosition { message: 3, block: 1, part }]));
        let image = "messages.3.content.1.image.source.base64.data: Could not process image";
        assert_eq!(of(400, image), named(None));
        assert_eq!(of(400, "messages.3.content.1: too large"), named(None));
        let inner = "messages.3.content.1.tool_result.content.0.image.source: no image";
        assert_eq!(of(400, inner), named(Some(0)));
        let document = "messages.3.content.1.document.source.content.2.image.source: no image";
        assert_eq!(of(400, document), named(None));
    }

    #[test]
    fn all_listed_paths_are_rejected_blocks() {
        let paths = ["messages.0.content.2", "messages.4.content.0.content.1", "system.0"];
        let position = |message, block, part| BlockPosition { message, block, part };
        let positions = vec![position(0, 2, None), position(4, 0, Some(1))];
        let message = "messages.0.content.2: too large";
        assert_eq!(naming(400, message, &paths), Some(RefusedContent::Blocks(positions)));
        assert_eq!(naming(500, message, &paths), None);
    }

    #[test]
    fn errors_about_thinking_are_recognized_by_their_sentences() {
        for sentence in [
            "messages.1.content.0: Invalid `signature` in `thinking` block",
            "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to \
             a different conversation. Remove the block.",
            "messages.3.content.0: `thinking` or `redacted_thinking` blocks in the latest \
             assistant message cannot be modified.",
            "messages.1.content.0.thinking.signature: Field required",
            "messages.1: The final block in an assistant message cannot be `thinking`.",
            "messages.1.content.0: When thinking is disabled, an `assistant` message in the final \
             position cannot contain `thinking`.",
        ] {
            assert_eq!(of(400, sentence), Some(RefusedContent::Thinking), "{sentence}");
        }
    }

    #[test]
    fn errors_about_containers_are_recognized() {
        for sentence in ["container: `c` was not found or has expired", "Container c is expired."] {
            assert_eq!(of(400, sentence), Some(RefusedContent::Container), "{sentence}");
            assert_eq!(of(404, sentence), Some(RefusedContent::Container), "{sentence}");
        }
        let required = "container_id is required when there are pending tool uses generated by \
                        code execution with tools.";
        assert_eq!(of(400, required), Some(RefusedContent::OpenCode));
        assert_eq!(of(404, "model: claude-0"), None);
        let upload = of(400, "messages.0.content.1.container_upload: file not found");
        assert!(matches!(upload, Some(RefusedContent::Blocks(_))), "{upload:?}");
    }

    #[test]
    fn errors_about_the_number_of_images_are_recognized() {
        let too_many = "messages: Too much media: 0 document pages + 101 images > 100";
        assert_eq!(of(400, too_many), Some(RefusedContent::ExcessImages));
        let sizes = "At least one of the image dimensions exceed max allowed size for many-image \
                     requests: 2000 pixels";
        assert_eq!(of(400, &format!("messages: {sizes}")), Some(RefusedContent::ExcessImages));
        let one = of(400, &format!("messages.0.content.0.image.source.base64.data: {sizes}"));
        assert!(matches!(one, Some(RefusedContent::Blocks(_))), "{one:?}");
    }

    #[test]
    fn errors_without_a_block_path_are_not_about_content() {
        for sentence in ["messages.3: empty", "tools.0.name: too long", "prompt is too long", ""] {
            assert_eq!(of(400, sentence), None, "{sentence}");
        }
        assert_eq!(of(500, "messages.3.content.1: broken"), None);
    }
}
