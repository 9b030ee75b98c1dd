//! Finds the part of a history that a server rejected: reasoning, or images.

use super::super::parts::{Image, Part};
use super::item::Item;
use super::translate::translate;
use crate::domain::sent_history::BlockPosition;
use crate::model::error::ModelError;
use crate::model::refused_content::RefusedContent;

/// Returns the rejected part of the request that this history produced: its reasoning, the image at the
/// path that the error names, or the images with the URL in its message.
pub fn refused_content(history: &str, error: &ModelError) -> Option<RefusedContent> {
    let (message, paths) = error.refusal()?;
    let items = translate(&format!("[{history}]")).ok()?;
    let has_reasoning = items.iter().any(|item| matches!(item, Item::Reasoning(_)));
    let names_reasoning = message.contains("encrypted content")
        || message.contains("encrypted_content")
        || message.contains("of type 'reasoning'");
    if has_reasoning && names_reasoning {
        return Some(RefusedContent::Thinking);
    }
    let images = images(&items);
    let at = |path: &String| {
        let at = position(path)?;
        images.iter().find(|(position, _)| *position == at).map(|(_, image)| image.position)
    };
    let mut positions: Vec<BlockPosition> = paths.iter().filter_map(at).collect();
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

/// The images of a request, each with the index of its item and its part.
fn images(items: &[Item]) -> Vec<((usize, usize), &Image)> {
    let mut images = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let parts = match item {
            Item::User(parts) | Item::Output { parts, .. } => parts,
            Item::Assistant(_) | Item::Call { .. } | Item::Reasoning(_) => continue,
        };
        let in_item = parts.iter().enumerate().filter_map(|(part, value)| match value {
            Part::Image(image) => Some(((at, part), image)),
            Part::Text(_) => None,
        });
        images.extend(in_item);
    }
    images
}

/// Parses the index of an item and of its part from a path: `input[2].content[1].image_url`.
fn position(path: &str) -> Option<(usize, usize)> {
    let mut words = path.split(['.', '[', ']']).filter(|word| !word.is_empty());
    if words.next() != Some("input") {
        return None;
    }
    let item = words.next()?.parse().ok()?;
    if !matches!(words.next(), Some("content" | "output")) {
        return None;
    }
    Some((item, words.next()?.parse().ok()?))
}
