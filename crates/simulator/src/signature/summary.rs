//! Signatures of summaries, which say what the summary stands for.
//!
//! A signature is `simc1.<check>.<text>.<settings>.<end>.<number>.<role>`: hashes of the rest of
//! the signature, of the summary, of the system prompt and tools, and of the whole conversation that
//! was summed up; how many summaries were made before; and the role of the last message in it.
//!
//! So a simulator that remembers nothing knows which thinking was valid before the summary was made:
//! what followed right after what was summed up. It stays valid behind the summary, as long as
//! system prompt and tools stay the same, and what is kept begins a turn.

use serde_json::{Value, json};

use super::{Prefix, hash};
use crate::request::{Ask, blocks, role};

const SCHEME: &str = "simc1.";

/// What a signature says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Summary<'a> {
    text: &'a str,
    /// The hash of system prompt and tools.
    settings: &'a str,
    /// The hash of the conversation that was summed up.
    end: &'a str,
    /// How many summaries were made before it.
    number: usize,
    /// The role of the last message that was summed up.
    role: &'a str,
}

impl<'a> Summary<'a> {
    /// The signed summary that a request begins with.
    pub(crate) fn of(ask: Ask<'a>) -> Option<Self> {
        let (_, first) = ask.sent().next()?;
        Self::read(first.block.str("signature").filter(|_| first.block.is("compaction"))?)
    }

    /// Reads a signature, unless somebody else wrote in it.
    pub(crate) fn read(signature: &'a str) -> Option<Self> {
        let (check, rest) = signature.strip_prefix(SCHEME)?.split_once('.')?;
        let parts: Vec<&str> = rest.split('.').collect();
        let &[text, settings, end, number, role] = parts.as_slice() else {
            return None;
        };
        let number = number.parse().ok()?;
        (check == hash(rest)).then_some(Self { text, settings, end, number, role })
    }

    /// Whether the signature is of this text.
    pub(crate) fn is_of(&self, text: &str) -> bool {
        self.text == hash(text)
    }

    /// Where the conversation stood that was summed up, if the rest of the request goes on there:
    /// with the same settings, and with a turn of its own.
    pub(super) fn earlier(&self, ask: Ask<'_>, settings: &Prefix) -> Option<Prefix> {
        let (next, _) = ask.sent().nth(1)?;
        let goes_on = self.settings == settings.hash && self.role != next;
        goes_on.then(|| Prefix { hash: self.end.to_owned(), ..settings.clone() })
    }
}

/// How many summaries this conversation had so far.
pub(crate) fn number(ask: Ask<'_>) -> usize {
    let unsigned =
        || ask.messages().iter().flat_map(blocks).filter(|block| block.is("compaction")).count();
    Summary::of(ask).map_or_else(unsigned, |summary| summary.number + 1)
}

/// The block with the summary of everything in a request.
pub(crate) fn block(ask: Ask<'_>, text: &str) -> Value {
    let (settings, end) = (Prefix::settings(ask).hash, Prefix::of(ask).hash);
    let (text_hash, number) = (hash(text), number(ask));
    let role = ask.messages().last().map(role).unwrap_or_default();
    let rest = format!("{text_hash}.{settings}.{end}.{number}.{role}");
    let signature = format!("{SCHEME}{}.{rest}", hash(&rest));
    json!({ "type": "compaction", "content": text, "signature": signature })
}
