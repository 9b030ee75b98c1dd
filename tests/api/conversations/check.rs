//! Checks of the requests of one session, byte by byte.

pub(super) mod repairs;
pub(super) mod runs;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::texts::unreadable;
use crate::support::media::WORD;
use crate::support::upstream::{without_budget, without_marks};

/// A message and its blocks, as the original text.
#[derive(Debug, Clone)]
pub(super) struct Message {
    role: String,
    /// The whole message.
    raw: String,
    blocks: Vec<String>,
}

/// A request, without the parts that do not belong to the conversation.
#[derive(Debug)]
struct Request {
    /// The text up to the end of the messages, without the output budget.
    text: String,
    /// The text before the messages.
    head: String,
    messages: Vec<Message>,
    max_tokens: u64,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    role: String,
    #[serde(borrow)]
    content: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Tag {
    #[serde(rename = "type")]
    kind: String,
    id: Option<String>,
    tool_use_id: Option<String>,
}

impl Message {
    /// Reads a message of a request.
    pub(super) fn read(raw: &str) -> Self {
        let Envelope { role, content } = serde_json::from_str(raw).unwrap();
        let blocks = content.into_iter().map(|block| block.get().to_owned()).collect();
        Self { role, raw: raw.to_owned(), blocks }
    }

    /// Reads the messages of a page of the history.
    pub(super) fn of_page(page: &str) -> Vec<Self> {
        #[derive(Deserialize)]
        struct Page<'a> {
            #[serde(borrow)]
            data: Vec<Item<'a>>,
        }
        #[derive(Deserialize)]
        struct Item<'a> {
            #[serde(borrow)]
            message: StoredMessage<'a>,
        }
        #[derive(Deserialize)]
        struct StoredMessage<'a> {
            role: String,
            #[serde(borrow)]
            content: &'a RawValue,
        }
        let page: Page<'_> = serde_json::from_str(page).unwrap();
        let as_sent = |StoredMessage { role, content }: &StoredMessage<'_>| {
            format!(r#"{{"role":"{role}","content":{content}}}"#)
        };
        page.data.iter().map(|item| Self::read(&as_sent(&item.message))).collect()
    }

    /// The message without some of its blocks, or `None` if only thinking is left.
    fn without(&self, omitted: &[String]) -> Option<Self> {
        let mut blocks = self.blocks.clone();
        blocks.retain(|block| !omitted.contains(block));
        if blocks.len() == self.blocks.len() {
            return Some(self.clone());
        }
        let raw = format!(r#"{{"role":"{}","content":[{}]}}"#, self.role, blocks.join(","));
        let is_thinking =
            |block: &String| matches!(tag(block).kind.as_str(), "thinking" | "redacted_thinking");
        (!blocks.iter().all(is_thinking)).then(|| Self { raw, blocks, ..self.clone() })
    }

    /// Whether it is a summary, which replaces earlier messages.
    fn is_summary(&self) -> bool {
        self.role == "assistant"
            && self.blocks.first().is_some_and(|block| tag(block).kind == "compaction")
    }

    fn is_of_results(&self) -> bool {
        self.role == "user" && self.blocks.iter().all(|block| tag(block).kind == "tool_result")
    }

    /// Whether it is a message of the user, not of results.
    fn is_from_user(&self) -> bool {
        self.role == "user" && !self.is_of_results()
    }
}

impl Request {
    fn read(body: &str) -> Self {
        #[derive(Deserialize)]
        struct Body<'a> {
            max_tokens: u64,
            #[serde(borrow)]
            messages: Vec<&'a RawValue>,
        }
        let text = without_marks(body);
        let Body { max_tokens, messages } = serde_json::from_str(&text).unwrap();
        // This is unique: texts escape their quotes, and no earlier member has this name.
        let start = text.find(r#","messages":["#).unwrap();
        let end =
            messages.last().map_or(start, |last| offset(&text, last.get()) + last.get().len());
        let messages = messages.iter().map(|message| Message::read(message.get())).collect();
        Self {
            head: without_budget(&text[..start], max_tokens),
            text: without_budget(&text[..end], max_tokens),
            messages,
            max_tokens,
        }
    }
}

/// The position of a part in its text.
fn offset(text: &str, part: &str) -> usize {
    part.as_ptr().addr() - text.as_ptr().addr()
}

fn tag(block: &str) -> Tag {
    serde_json::from_str(block).unwrap()
}

/// The placeholder that is sent instead of a block that the model cannot read.
fn placeholder() -> String {
    format!(r#"{{"type":"text","text":"{WORD}"}}"#)
}

/// The rest of a text after the part that was sent before. The text may have the placeholder
/// instead of a block that the model could not read, but not the reverse.
fn rest_after<'a>(text: &'a str, before: &str) -> Option<&'a str> {
    let (block, placeholder) = (unreadable().to_string(), placeholder());
    let mut parts = before.split(&block);
    let mut rest = text.strip_prefix(parts.next()?)?;
    for part in parts {
        let after = rest.strip_prefix(&block).or_else(|| rest.strip_prefix(&placeholder));
        rest = after?.strip_prefix(part)?;
    }
    Some(rest)
}

/// Whether `messages` begin with `before`.
fn begins_with(messages: &[Message], before: &[Message]) -> bool {
    let is_same = |(one, other): (&Message, &Message)| rest_after(&one.raw, &other.raw) == Some("");
    messages.len() >= before.len() && messages.iter().zip(before).all(is_same)
}

/// The calls of server tools without a result in a turn of the assistant.
fn open_server_calls(turn: &[Message]) -> Vec<String> {
    let blocks = || turn.iter().flat_map(|message| &message.blocks);
    let is_answered =
        |id: &Option<String>| blocks().any(|block| id.is_some() && tag(block).tool_use_id == *id);
    let is_open = |block: &&String| {
        let Tag { kind, id, .. } = tag(block);
        kind == "server_tool_use" && !is_answered(&id)
    };
    blocks().filter(is_open).cloned().collect()
}

/// A history as it is sent: without calls of server tools that have no result when the next user
/// message follows.
fn as_sent(history: &[Message]) -> Vec<Message> {
    let turns: Vec<&[Message]> = history.chunk_by(|one, next| one.role == next.role).collect();
    let mut sent = Vec::new();
    for (index, turn) in turns.iter().enumerate() {
        let next = turns.get(index + 1);
        let user_follows = next.is_some_and(|next| !next.iter().all(Message::is_of_results));
        if turn[0].role == "assistant" && user_follows {
            let open = open_server_calls(turn);
            sent.extend(turn.iter().filter_map(|message| message.without(&open)));
        } else {
            sent.extend(turn.iter().cloned());
        }
    }
    sent
}

fn raw(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(|message| message.raw.as_str()).collect()
}

/// Whether a request is the first one with a new summary, that is, without a reply after it.
fn has_new_summary(before: &Request, after: &Request) -> bool {
    let Some((summary, since)) = after.messages.split_first() else { return false };
    let is_new = before.messages.first().is_none_or(|first| first.raw != summary.raw);
    is_new && summary.is_summary() && since.iter().all(|message| message.role == "user")
}

/// Whether a request begins with the bytes of the previous one. There are three exceptions: the
/// placeholder replaces a block that the model could not read, a summary replaces the messages
/// before a run, and an open call of a server tool is left out when a user message follows.
fn continues(before: &Request, after: &Request) -> bool {
    if rest_after(&after.text, &before.text).is_some() {
        return true;
    }
    if has_new_summary(before, after) {
        return after.head == before.head;
    }
    let mut closed = before.messages.clone();
    closed.push(Message::read(r#"{"role":"user","content":[{"type":"text","text":"And?"}]}"#));
    let mut closed = as_sent(&closed);
    closed.pop();
    after.head == before.head
        && begins_with(&after.messages, &closed)
        && after.messages.get(closed.len()).is_some_and(Message::is_from_user)
}

/// Whether a request was dropped: the first request of a run may be sent while its message is accepted,
/// and another message may be accepted before it.
fn is_dropped(before: &Request, request: &Request, later: &[Request]) -> bool {
    let Some((own, known)) = request.messages.split_last() else { return false };
    let Some((history, run)) = before.messages.split_at_checked(known.len()) else { return false };
    let is_own = |message: &Message| message.raw == own.raw;
    request.head == before.head
        && own.is_from_user()
        && run.first().is_some_and(Message::is_from_user)
        && raw(history) == raw(known)
        && later.iter().any(|request| request.messages.iter().any(is_own))
}

/// The first difference of two texts.
fn difference(one: &str, other: &str) -> String {
    let same = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    let around = |text: &str| {
        let start = text.floor_char_boundary(same.saturating_sub(80));
        let end = text.ceil_char_boundary((same + 160).min(text.len()));
        text[start.min(end)..end].to_owned()
    };
    format!("at byte {same}\n  {}\n  {}", around(one), around(other))
}

/// The faults of the requests of a session with this history.
pub(super) fn faults<B: AsRef<str>>(bodies: &[B], history: &[Message]) -> Vec<String> {
    let requests: Vec<Request> = bodies.iter().map(|body| Request::read(body.as_ref())).collect();
    let mut faults = Vec::new();
    let mut before = requests.first();
    for (index, after) in requests.iter().enumerate().skip(1) {
        let Some(previous) = before else { break };
        let continued = continues(previous, after);
        if !continued && is_dropped(previous, after, &requests[index + 1..]) {
            continue;
        }
        if !continued {
            let difference = difference(&previous.text, &after.text);
            faults
                .push(format!("request {index} does not continue the previous one, {difference}"));
        }
        if after.max_tokens != requests[0].max_tokens && after.text != previous.text {
            faults.push(format!("request {index} has another max_tokens"));
        }
        before = Some(after);
    }
    let expected = match history.split_last() {
        Some((reply, expected)) if reply.role == "assistant" => expected,
        _ => history,
    };
    let (mut expected, mut sent) =
        (as_sent(expected), requests.last().map_or(&[][..], |last| &last.messages));
    if let Some((_, since)) = sent.split_first().filter(|(first, _)| first.is_summary()) {
        expected.drain(..expected.len().saturating_sub(since.len()));
        sent = since;
    }
    if expected.len() != sent.len() || !begins_with(sent, &expected) {
        let difference = difference(&raw(&expected).join(","), &raw(sent).join(","));
        faults.push(format!("the stored history differs from the sent one, {difference}"));
    }
    faults
}

/// A fault if there are too many refusals of unreadable blocks.
///
/// Each such block may cause one refusal. A run that stops before it has stored a refusal may cause
/// two more: of a summary, and of the next request.
pub(super) fn excess_refusals(
    refusals: usize,
    history: &[Message],
    interruptions: usize,
) -> Option<String> {
    let block = unreadable().to_string();
    let blocks: usize = history.iter().map(|message| message.raw.matches(&block).count()).sum();
    let most = blocks + 2 * interruptions;
    (refusals > most).then(|| {
        format!("{refusals} refusals with {blocks} blocks and {interruptions} interruptions")
    })
}

/// A fault for each of these messages that is in the history more than once.
pub(super) fn duplicates<'a>(
    history: &[Message],
    keys: impl Iterator<Item = &'a str>,
) -> Vec<String> {
    let times = |key: &str| {
        history.iter().filter(|message| message.is_from_user() && message.raw.contains(key)).count()
    };
    keys.filter(|key| times(key) > 1)
        .map(|key| format!("{key} is in the history more than once"))
        .collect()
}

#[cfg(test)]
mod tests;
