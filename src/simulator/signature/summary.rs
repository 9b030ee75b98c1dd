//! Signatures of summaries, which say what the summary stands for.
//!
//! A signature is `simc1.<check>.<text>.<settings>.<end>.<number>.<thoughts>`: hashes of the rest of
//! the signature, of the summary, of the system prompt and tools, and of the whole conversation that
//! was summed up; how many summaries were made before; and a hash of each thinking block in it,
//! joined by `-`.
//!
//! So a simulator that remembers nothing knows which thinking was valid before the summary was made:
//! what it has seen there, and what was made right after it. Both stay valid behind the summary, as
//! long as system prompt and tools stay the same.

use serde_json::{Value, json};

use super::{Prefix, hash, is_signed};
use crate::simulator::request::{Ask, Sent};

const SCHEME: &str = "simc1.";

/// What a signature says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Summary<'a> {
    text: &'a str,
    /// The hash of system prompt and tools.
    pub(super) settings: &'a str,
    /// The hash of the conversation that was summed up.
    pub(super) end: &'a str,
    /// How many summaries were made before it.
    number: usize,
    thoughts: &'a str,
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
        let &[text, settings, end, number, thoughts] = parts.as_slice() else {
            return None;
        };
        let number = number.parse().ok()?;
        (check == hash(rest)).then_some(Self { text, settings, end, number, thoughts })
    }

    /// Whether the signature is of this text.
    pub(crate) fn is_of(&self, text: &str) -> bool {
        self.text == hash(text)
    }

    /// Whether a thinking block was part of what was summed up.
    pub(super) fn has_seen(&self, block: Sent<'_>) -> bool {
        let thought = thought(block).unwrap_or_default();
        is_signed(block) && self.thoughts.split('-').any(|seen| seen == thought)
    }
}

/// How many summaries this conversation had so far.
pub(crate) fn number(ask: Ask<'_>) -> usize {
    let unsigned = || {
        let blocks = ask.messages().iter().flat_map(crate::simulator::request::blocks);
        blocks.filter(|block| block.is("compaction")).count()
    };
    Summary::of(ask).map_or_else(unsigned, |summary| summary.number + 1)
}

/// The block with the summary of everything in a request.
pub(crate) fn block(ask: Ask<'_>, text: &str) -> Value {
    let thoughts: Vec<String> = ask.sent().filter_map(|(_, at)| thought(at.block)).collect();
    let (settings, end) = (Prefix::settings(ask), Prefix::of(ask));
    let rest = format!(
        "{}.{}.{}.{}.{}",
        hash(text),
        settings.hash,
        end.hash,
        number(ask),
        thoughts.join("-")
    );
    let signature = format!("{SCHEME}{}.{rest}", hash(&rest));
    json!({ "type": "compaction", "content": text, "signature": signature })
}

fn thought(block: Sent<'_>) -> Option<String> {
    let signature = block.str("signature").filter(|_| is_signed(block))?;
    Some(hash(&format!("{signature} {}", block.str("thinking").unwrap_or_default())))
}
