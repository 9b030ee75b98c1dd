//! Finds the part of a history that a server rejected: images, or members of another server's messages.

use super::parts::{Image, Part};
use super::request::Head;
use super::translate::{Assistant, Message, translate};
use crate::domain::sent_history::BlockPosition;
use crate::model::error::ModelError;
use crate::model::refused_content::RefusedContent;

/// Returns the rejected part of the request that this head and history produced: the image at the path
/// that the error names, the images with the URL in its message, or the members that the server that
/// made a message gets back, if the error names one as unknown.
pub fn refused_content(head: &Head, history: &str, error: &ModelError) -> Option<RefusedContent> {
    let (message, paths) = error.refusal()?;
    let messages = translate(&format!("[{history}]"), head.takes_images()).ok()?;
    if names_foreign_member(&messages, message, paths) {
        return Some(RefusedContent::Thinking);
    }
    let images = images(&messages);
    let before = usize::from(head.has_system());

    let named = paths.iter().filter_map(|path| position(path)).filter_map(|(message, part)| {
        let at = (message.checked_sub(before)?, part);
        images.iter().find(|(position, _)| *position == at).map(|(_, image)| image.position)
    });
    let mut positions: Vec<BlockPosition> = named.collect();
    if positions.is_empty() {
        // One URL may be a prefix of another.
        let quoted =
            images.iter().map(|(_, image)| &image.url).filter(|url| message.contains(*url));
        let url = quoted.max_by_key(|url| url.len())?;
        let of_url = images.iter().filter(|(_, image)| image.url == *url);
        positions.extend(of_url.map(|(_, image)| image.position));
    }
    Some(RefusedContent::Blocks(positions))
}

/// Returns true if the error names a member that only some servers accept. A server that misses the
/// member says that it must be there.
fn names_foreign_member(messages: &[Message<'_>], error: &str, paths: &[String]) -> bool {
    if error.contains("must be") || error.contains("missing") {
        return false;
    }
    let replies = messages.iter().filter_map(|message| match message {
        Message::Assistant(reply) => Some(reply),
        Message::System { .. } | Message::User { .. } | Message::Tool { .. } => None,
    });
    let mut members = replies.flat_map(Assistant::special_members);
    members.any(|name| error.contains(name) || paths.iter().any(|path| path.ends_with(name)))
}

/// The images of a request, each with the index of its message and its part.
fn images<'a>(messages: &'a [Message<'_>]) -> Vec<((usize, usize), &'a Image)> {
    let mut images = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let Message::User { content } = message else { continue };
        for (part, value) in content.iter().enumerate() {
            if let Part::Image(image) = value {
                images.push(((at, part), image));
            }
        }
    }
    images
}

/// Parses the message index and part index of a path: `messages.[2].content.[0].image_url` or
/// `messages[2].content[0].image_url.url`.
fn position(path: &str) -> Option<(usize, usize)> {
    let mut words = path.split(['.', '[', ']']).filter(|word| !word.is_empty());
    if words.next() != Some("messages") {
        return None;
    }
    let message = words.next()?.parse().ok()?;
    if words.next() != Some("content") {
        return None;
    }
    let part = words.next()?.parse().ok()?;
    (words.next() == Some("image_url")).then_some((message, part))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use serde_json::value::RawValue;

    use super::*;
    use crate::domain::provider::{Dialect, MaxTokensField};
    use crate::domain::session::Settings;
    use crate::model::error::ErrorKind;
    use crate::model::reply_head::ReplyHead;

    /// A history with two images of the user and one in a tool result.
    fn history() -> String {
        let image = |url: &str| json!({ "type": "image", "source": { "type": "url", "url": url } });
        let text = json!({ "type": "text", "text": "Look." });
        let user = json!([text, image("https://a.b/1"), image("https://a.b/12")]);
        let called = json!([{ "type": "tool_use", "id": "c", "name": "look", "input": {} }]);
        let answer = json!([text, image("https://a.b/3")]);
        let answered = json!([{ "type": "tool_result", "tool_use_id": "c", "content": answer }]);
        [("user", user), ("assistant", called), ("user", answered)]
            .map(|(role, content)| json!({ "role": role, "content": content }).to_string())
            .join(",")
    }

    fn refused_by(system: &str, message: &str, param: &str) -> Option<RefusedContent> {
        let dialect = Dialect { max_tokens_field: MaxTokensField::MaxTokens, takes_images: true };
        let tools = RawValue::from_string("[]".to_owned()).unwrap();
        let settings = Settings { system: system.into(), tools, ..Settings::default() };
        let head = Head::new(&settings, None, dialect).unwrap();
        let error = ModelError::Api {
            status: Some(400),
            kind: ErrorKind::InvalidRequest,
            message: message.to_owned(),
            paths: Box::new([param.to_owned()]),
            head: ReplyHead::default(),
        };
        refused_content(&head, &history(), &error)
    }

    fn block(message: usize, block: usize, part: Option<usize>) -> RefusedContent {
        RefusedContent::Blocks(vec![BlockPosition { message, block, part }])
    }

    #[test]
    fn a_path_in_the_request_maps_to_the_block_of_the_history() {
        let of = |system, param| refused_by(system, "Invalid image.", param);
        assert_eq!(of("", "messages.[0].content.[2].image_url"), Some(block(0, 2, None)));
        assert_eq!(
            of("Be brief.", "messages[1].content[2].image_url.url"),
            Some(block(0, 2, None))
        );
        // The images of a result follow in the next message, after a text part.
        assert_eq!(of("", "messages.[3].content.[1].image_url"), Some(block(2, 0, Some(1))));
        for other in [
            "messages.[0].content.[0].image_url",
            "messages.[0].content.[2].type",
            "messages.[2].content.[0].image_url",
            "messages.[9].content.[0].image_url",
            "tools.[0]",
            "",
        ] {
            assert_eq!(of("", other), None, "{other}");
        }
    }

    #[test]
    fn a_url_in_the_message_maps_to_its_image() {
        let of = |message| refused_by("Be brief.", message, "");
        let first = "Error while downloading https://a.b/1. Upstream status code: 404.";
        assert_eq!(of(first), Some(block(0, 1, None)));
        assert_eq!(of("Timeout while downloading https://a.b/12."), Some(block(0, 2, None)));
        assert_eq!(of("Timeout while downloading https://a.b/3."), Some(block(2, 0, Some(1))));
        assert_eq!(of("Timeout while downloading https://a.c/."), None);
    }
}
