//! The transcript that a client sends again with every message, as ids of the messages in it.
//!
//! The id of a user message is a hash of the transcript up to it: a client that sends the same transcript
//! again means the same message. Of the messages before, only their texts count: clients change system
//! prompts, and leave out calls of tools and their results.

use sha2::{Digest as _, Sha256};

use super::body::{CompletionMessage, Role};
use super::content::text;
use crate::service::transcripts::MESSAGE_PREFIX;

/// The hashes of a transcript.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Transcript {
    /// The id of the last user message.
    pub(super) id: String,
    /// The id of the user message before it, if there is one.
    pub(super) previous: Option<String>,
    /// The text of the assistant between the two, without white space.
    pub(super) answer: String,
}

impl Transcript {
    /// Reads the messages up to the last one of the user; none if there is none.
    pub(super) fn of(messages: &[CompletionMessage], user: &str) -> Option<Self> {
        let mut hash = Sha256::new();
        part(&mut hash, "owner", user);
        let (mut current, mut answer): (Option<Self>, String) = (None, String::new());
        for message in messages {
            match message.role {
                Role::User => {
                    part(&mut hash, "user", &message.content.to_string());
                    let id = id(&hash);
                    let previous = current.map(|before| before.id);
                    current = Some(Self { id, previous, answer: std::mem::take(&mut answer) });
                }
                Role::Assistant => {
                    let text = squeezed(&text(&message.content));
                    if !text.is_empty() {
                        part(&mut hash, "assistant", &text);
                        answer.push_str(&text);
                    }
                }
                Role::System | Role::Tool => {}
            }
        }
        current
    }

    /// The transcript of a client that sends new messages only.
    pub(super) fn without_history(self) -> Self {
        Self { id: self.id, ..Self::default() }
    }

    /// Returns true if the answer that the client has is the one that ends with this text.
    pub(super) fn has_answer(&self, text: &str) -> bool {
        let text = squeezed(text);
        !text.is_empty() && self.answer.ends_with(&text)
    }
}

fn part(hash: &mut Sha256, name: &str, text: &str) {
    for bytes in [name.as_bytes(), text.as_bytes()] {
        hash.update(u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(bytes);
    }
}

fn id(hash: &Sha256) -> String {
    let hash = hash.clone().finalize();
    let id = MESSAGE_PREFIX.to_owned();
    hash.iter().take(16).fold(id, |id, byte| format!("{id}{byte:02x}"))
}

/// A text without white space, which clients trim and join in their own ways.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(messages: &Value) -> Transcript {
        let messages: Vec<CompletionMessage> = serde_json::from_value(messages.clone()).unwrap();
        Transcript::of(&messages, "u").unwrap()
    }

    #[test]
    fn the_next_message_names_the_one_before() {
        let mut messages = json!([{ "role": "user", "content": "Hi" }]);
        let first = of(&messages);
        assert_eq!((first.previous.as_deref(), &*first.answer), (None, ""));
        let all = messages.as_array_mut().unwrap();
        all.insert(0, json!({ "role": "system", "content": "Today is Monday." }));
        all.push(json!({ "role": "assistant", "content": null, "tool_calls": [] }));
        all.push(json!({ "role": "tool", "content": "42", "tool_call_id": "c" }));
        all.push(json!({ "role": "assistant", "content": "Hello  there.\n" }));
        all.push(json!({ "role": "user", "content": "Again" }));
        let second = of(&messages);
        assert_eq!(second.previous, Some(first.id.clone()));
        assert!(
            second.has_answer("there.") && !second.has_answer("here") && !second.has_answer("")
        );
        messages[4]["content"] = json!("Hello other.");
        let other = of(&messages);
        assert_eq!(other.previous, Some(first.id));
        assert_ne!(other.id, second.id);
    }

    #[test]
    fn the_transcripts_of_users_are_different() {
        let messages: Vec<CompletionMessage> =
            serde_json::from_value(json!([{ "role": "user", "content": "Hi" }])).unwrap();
        assert_ne!(Transcript::of(&messages, "a"), Transcript::of(&messages, "b"));
    }
}
