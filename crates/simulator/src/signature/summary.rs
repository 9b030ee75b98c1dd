//! Signatures of summaries, which identify the summarized conversation.
//!
//! A signature is `simc1.<check>.<text>.<settings>.<end>.<number>.<role>`: hashes of the rest of
//! the signature, of the summary, of system prompt and tools, and of the whole summarized
//! conversation; the number of earlier summaries; and the role of the last summarized message.
//!
//! With it a simulator without state knows which thinking was valid before the summary: the
//! thinking directly after the summarized messages. It stays valid after the summary if system
//! prompt and tools are unchanged and the kept messages begin with a new turn.

use serde_json::{Value, json};

use super::{Prefix, hash};
use crate::request::{ApiRequest, blocks, role};

const SCHEME: &str = "simc1.";

/// The content of a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Summary<'a> {
    text: &'a str,
    /// The hash of system prompt and tools.
    settings: &'a str,
    /// The hash of the summarized conversation.
    end: &'a str,
    /// The number of earlier summaries.
    number: usize,
    /// The role of the last summarized message.
    role: &'a str,
}

impl<'a> Summary<'a> {
    /// The signed summary at the beginning of a request.
    pub(crate) fn of(request: ApiRequest<'a>) -> Option<Self> {
        let (_, first) = request.sent().next()?;
        Self::read(first.block.str("signature").filter(|_| first.block.is("compaction"))?)
    }

    /// Parses a signature. Returns `None` if its check fails.
    pub(crate) fn read(signature: &'a str) -> Option<Self> {
        let (check, rest) = signature.strip_prefix(SCHEME)?.split_once('.')?;
        let parts: Vec<&str> = rest.split('.').collect();
        let &[text, settings, end, number, role] = parts.as_slice() else {
            return None;
        };
        let number = number.parse().ok()?;
        (check == hash(rest)).then_some(Self { text, settings, end, number, role })
    }

    /// True if the signature belongs to this text.
    pub(crate) fn is_of(&self, text: &str) -> bool {
        self.text == hash(text)
    }

    /// Returns the prefix before the summary, if the rest of the request continues from there: with
    /// the same settings and a new turn.
    pub(super) fn earlier(&self, request: ApiRequest<'_>, settings: &Prefix) -> Option<Prefix> {
        let (next, _) = request.sent().nth(1)?;
        let goes_on = self.settings == settings.hash && self.role != next;
        goes_on.then(|| Prefix { hash: self.end.to_owned(), ..settings.clone() })
    }
}

/// The number of summaries in this conversation so far.
pub(crate) fn number(request: ApiRequest<'_>) -> usize {
    let unsigned = || {
        request.messages().iter().flat_map(blocks).filter(|block| block.is("compaction")).count()
    };
    Summary::of(request).map_or_else(unsigned, |summary| summary.number + 1)
}

/// The block with the summary of a whole request.
pub(crate) fn block(request: ApiRequest<'_>, text: &str) -> Value {
    let (settings, end) = (Prefix::settings(request).hash, Prefix::of(request).hash);
    let (text_hash, number) = (hash(text), number(request));
    let role = request.messages().last().map(role).unwrap_or_default();
    let rest = format!("{text_hash}.{settings}.{end}.{number}.{role}");
    let signature = format!("{SCHEME}{}.{rest}", hash(&rest));
    json!({ "type": "compaction", "content": text, "signature": signature })
}
