//! What must hold of the requests of one session, looked at as bytes.

pub(super) mod repairs;
pub(super) mod runs;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::words::unreadable;
use crate::support::media::WORD;
use crate::support::upstream::{without_budget, without_marks};

/// A message, and its blocks as they stand in it.
#[derive(Debug, Clone)]
pub(super) struct Message {
    role: String,
    /// The whole message.
    raw: String,
    blocks: Vec<String>,
}

/// A request, without what is no part of the conversation.
#[derive(Debug)]
struct Request {
    /// All up to the end of its messages, but for the output budget.
    text: String,
    /// All before its messages.
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

    /// Reads a page of the history, as the service shows it.
    pub(super) fn of_page(page: &str) -> Vec<Self> {
        #[derive(Deserialize)]
        struct Page<'a> {
            #[serde(borrow)]
            data: Vec<Item<'a>>,
        }
        #[derive(Deserialize)]
        struct Item<'a> {
            #[serde(borrow)]
            message: Shown<'a>,
        }
        #[derive(Deserialize)]
        struct Shown<'a> {
            role: String,
            #[serde(borrow)]
            content: &'a RawValue,
        }
        let page: Page<'_> = serde_json::from_str(page).unwrap();
        let sent = |Shown { role, content }: &Shown<'_>| {
            format!(r#"{{"role":"{role}","content":{content}}}"#)
        };
        page.data.iter().map(|item| Self::read(&sent(&item.message))).collect()
    }

    /// The message without some of its blocks; none if it then says nothing.
    fn without(&self, left_out: &[String]) -> Option<Self> {
        let mut blocks = self.blocks.clone();
        blocks.retain(|block| !left_out.contains(block));
        if blocks.len() == self.blocks.len() {
            return Some(self.clone());
        }
        let raw = format!(r#"{{"role":"{}","content":[{}]}}"#, self.role, blocks.join(","));
        let is_thinking =
            |block: &String| matches!(tag(block).kind.as_str(), "thinking" | "redacted_thinking");
        (!blocks.iter().all(is_thinking)).then(|| Self { raw, blocks, ..self.clone() })
    }

    /// Whether it stands for messages that are sent no more.
    fn is_summary(&self) -> bool {
        self.role == "assistant"
            && self.blocks.first().is_some_and(|block| tag(block).kind == "compaction")
    }

    fn is_of_results(&self) -> bool {
        self.role == "user" && self.blocks.iter().all(|block| tag(block).kind == "tool_result")
    }

    /// Whether the user says something with it.
    fn goes_on(&self) -> bool {
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
        // In a text its quotes would be escaped, and nothing before the messages has the name.
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

/// Where a part of a text begins.
fn offset(text: &str, part: &str) -> usize {
    part.as_ptr().addr() - text.as_ptr().addr()
}

fn tag(block: &str) -> Tag {
    serde_json::from_str(block).unwrap()
}

/// What is sent in place of a block that the model's side could not read.
fn word() -> String {
    format!(r#"{{"type":"text","text":"{WORD}"}}"#)
}

/// What follows in a text behind the beginning that was sent before. Where a block stood that the
/// model's side could not read, a word may stand now, and stays.
fn behind<'a>(text: &'a str, before: &str) -> Option<&'a str> {
    let (block, word) = (unreadable().to_string(), word());
    let mut parts = before.split(&block);
    let mut rest = text.strip_prefix(parts.next()?)?;
    for part in parts {
        let behind = rest.strip_prefix(&block).or_else(|| rest.strip_prefix(&word));
        rest = behind?.strip_prefix(part)?;
    }
    Some(rest)
}

/// Whether messages begin with others.
fn begins_with(messages: &[Message], before: &[Message]) -> bool {
    let is_same = |(one, other): (&Message, &Message)| behind(&one.raw, &other.raw) == Some("");
    messages.len() >= before.len() && messages.iter().zip(before).all(is_same)
}

/// The calls of the model's own tools that a turn of the assistant leaves open.
fn open_calls(turn: &[Message]) -> Vec<String> {
    let blocks = || turn.iter().flat_map(|message| &message.blocks);
    let is_answered =
        |id: &Option<String>| blocks().any(|block| id.is_some() && tag(block).tool_use_id == *id);
    let is_open = |block: &&String| {
        let Tag { kind, id, .. } = tag(block);
        kind == "server_tool_use" && !is_answered(&id)
    };
    blocks().filter(is_open).cloned().collect()
}

/// A history as the model takes it: what is still open of its own tools when the user goes on is
/// left out, and nothing else.
fn seen(history: &[Message]) -> Vec<Message> {
    let turns: Vec<&[Message]> = history.chunk_by(|one, next| one.role == next.role).collect();
    let mut seen = Vec::new();
    for (at, turn) in turns.iter().enumerate() {
        let next = turns.get(at + 1);
        let user_goes_on = next.is_some_and(|next| !next.iter().all(Message::is_of_results));
        if turn[0].role == "assistant" && user_goes_on {
            let open = open_calls(turn);
            seen.extend(turn.iter().filter_map(|message| message.without(&open)));
        } else {
            seen.extend(turn.iter().cloned());
        }
    }
    seen
}

fn raw(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(|message| message.raw.as_str()).collect()
}

/// Whether a request is the first one after what came before was summed up: the model has not
/// spoken since.
fn begins_anew(before: &Request, after: &Request) -> bool {
    let Some((summary, since)) = after.messages.split_first() else { return false };
    let is_new = before.messages.first().is_none_or(|first| first.raw != summary.raw);
    is_new && summary.is_summary() && since.iter().all(|message| message.role == "user")
}

/// Whether a request begins with the bytes of the one before it. There are three exceptions: a word
/// takes the place of what could not be read, a summary that of what came before a run, and what a
/// run left open that the model's side was to go on with is left out when the user goes on.
fn continues(before: &Request, after: &Request) -> bool {
    if behind(&after.text, &before.text).is_some() {
        return true;
    }
    if begins_anew(before, after) {
        return after.head == before.head;
    }
    let mut closed = before.messages.clone();
    closed.push(Message::read(r#"{"role":"user","content":[{"type":"text","text":"And?"}]}"#));
    let mut closed = seen(&closed);
    closed.pop();
    after.head == before.head
        && begins_with(&after.messages, &closed)
        && after.messages.get(closed.len()).is_some_and(Message::goes_on)
}

/// Where two texts begin to differ.
fn difference(one: &str, other: &str) -> String {
    let same = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    let around = |text: &str| {
        let start = text.floor_char_boundary(same.saturating_sub(80));
        let end = text.ceil_char_boundary((same + 160).min(text.len()));
        text[start.min(end)..end].to_owned()
    };
    format!("at byte {same}\n  {}\n  {}", around(one), around(other))
}

/// What is wrong with the requests of a session, whose history is this now.
pub(super) fn faults<B: AsRef<str>>(bodies: &[B], history: &[Message]) -> Vec<String> {
    let requests: Vec<Request> = bodies.iter().map(|body| Request::read(body.as_ref())).collect();
    let mut faults = Vec::new();
    for (at, pair) in requests.windows(2).enumerate() {
        let [before, after] = pair else { continue };
        if !continues(before, after) {
            let difference = difference(&before.text, &after.text);
            faults.push(format!("request {} begins otherwise, {difference}", at + 1));
        }
        if after.max_tokens != requests[0].max_tokens && after.text != before.text {
            faults.push(format!("request {} has a budget of its own", at + 1));
        }
    }
    let asked = match history.split_last() {
        Some((reply, asked)) if reply.role == "assistant" => asked,
        _ => history,
    };
    let (mut asked, mut sent) =
        (seen(asked), requests.last().map_or(&[][..], |last| &last.messages));
    if let Some((_, since)) = sent.split_first().filter(|(first, _)| first.is_summary()) {
        asked.drain(..asked.len().saturating_sub(since.len()));
        sent = since;
    }
    if asked.len() != sent.len() || !begins_with(sent, &asked) {
        let difference = difference(&raw(&asked).join(","), &raw(sent).join(","));
        faults.push(format!("what is stored is not what was sent, {difference}"));
    }
    faults
}

/// What is wrong with the refusals of what cannot be read, of which each such block may bring one.
/// A run that ends before it has noted a refusal is followed by two more: one of a summary, and one
/// of the next request.
pub(super) fn needless(refusals: usize, history: &[Message], ends: usize) -> Option<String> {
    let block = unreadable().to_string();
    let blocks: usize = history.iter().map(|message| message.raw.matches(&block).count()).sum();
    let most = blocks + 2 * ends;
    (refusals > most).then(|| format!("{refusals} refusals of {blocks} blocks and {ends} ends"))
}

/// What stands in the history more than once of these messages, each of which is said once.
pub(super) fn doubled<'a>(history: &[Message], keys: impl Iterator<Item = &'a str>) -> Vec<String> {
    let times = |key: &str| {
        history.iter().filter(|message| message.goes_on() && message.raw.contains(key)).count()
    };
    keys.filter(|key| times(key) > 1).map(|key| format!("{key} stands there twice")).collect()
}

#[cfg(test)]
mod tests;
