//! The messages between processes, encoded as JSON that fits into the payload of a notification.

use serde::{Deserialize, Serialize};

use crate::domain::event::PreviewKind;
use crate::domain::ids::{RunId, SessionId, WorkerId};

/// Maximum size of a payload, in bytes. Postgres aborts the transaction if it exceeds 7,999 bytes.
pub(super) const MAX_PAYLOAD: usize = 7_900;
/// Maximum size of the text in one message, in bytes. JSON escapes expand an ASCII character to at
/// most six bytes and no other character.
const MAX_TEXT: usize = 1_200;

/// Maximum number of previews that one message ends. The ID of a tool call has about 30 bytes.
const MAX_ENDED: usize = 100;

/// The topic of the lists of sessions: an id that no session has.
pub(super) fn lists() -> SessionId {
    SessionId::from(uuid::Uuid::nil())
}

/// A message to other processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "snake_case")]
pub(super) enum Message {
    /// A process is alive. If it is new, or has missed messages, it needs the open previews.
    Hello { is_new: bool },
    /// A process stops.
    Bye,
    /// A run is waiting for a worker.
    Work,
    /// A run must be cancelled.
    Cancel { run: RunId },
    /// The sending process has readers of a session.
    Watch { session: SessionId, is_new: bool },
    /// Events up to a sequence number were stored, and these previews ended.
    Stored { session: SessionId, seq: i64, ended: Vec<String> },
    /// A preview starts, for all processes or for one.
    Start {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<WorkerId>,
        session: SessionId,
        run: RunId,
        id: String,
        kind: PreviewKind,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// A preview has further text.
    Delta {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<WorkerId>,
        session: SessionId,
        id: String,
        index: usize,
        text: String,
    },
    /// All previews of a run ended.
    End { session: SessionId, run: RunId },
    /// A message of a later version.
    #[serde(other)]
    Unknown,
}

impl Message {
    /// Returns the session that the message is about.
    pub(super) fn session(&self) -> Option<SessionId> {
        match self {
            Self::Watch { session, .. }
            | Self::Stored { session, .. }
            | Self::Start { session, .. }
            | Self::Delta { session, .. }
            | Self::End { session, .. } => Some(*session),
            Self::Hello { .. } | Self::Bye | Self::Work | Self::Cancel { .. } | Self::Unknown => {
                None
            }
        }
    }

    /// Returns `true` if the loss of the message affects only previews.
    pub(super) fn is_preview(&self) -> bool {
        matches!(self, Self::Start { .. } | Self::Delta { .. } | Self::End { .. })
    }

    /// Encodes the message, split into parts that fit into a payload.
    fn parts(&self) -> Vec<String> {
        let encode = |message: &Self| serde_json::to_string(message).unwrap_or_default();
        if let Self::Stored { session, seq, ended } = self
            && ended.len() > MAX_ENDED
        {
            let (session, seq) = (*session, *seq);
            // Each part repeats `seq`: a receiver drops the previews of a part before it signals
            // the stored events.
            let ended = ended.chunks(MAX_ENDED).map(<[String]>::to_vec);
            return ended.map(|ended| encode(&Self::Stored { session, seq, ended })).collect();
        }
        let Self::Delta { text, to, session, id, index } = self else {
            return vec![encode(self)];
        };
        if text.len() <= MAX_TEXT {
            return vec![encode(self)];
        }
        let part = |text: String| {
            let (to, session, id, index) = (*to, *session, id.clone(), *index);
            encode(&Self::Delta { to, session, id, index, text })
        };
        pieces(text).map(|piece| part(piece.to_owned())).collect()
    }
}

/// Splits a text into pieces of at most [`MAX_TEXT`] bytes.
fn pieces(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let (piece, rest) = text.split_at_checked(text.floor_char_boundary(MAX_TEXT))?;
        text = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

/// The content of one notification.
#[derive(Debug, Deserialize)]
pub(super) struct Batch {
    pub(super) from: WorkerId,
    #[serde(rename = "m")]
    pub(super) messages: Vec<Message>,
}

/// An encoder that packs messages, in order, into as few payloads as possible.
#[derive(Debug)]
pub(super) struct Packer {
    from: WorkerId,
    /// A counter that makes payloads distinct, because Postgres delivers equal payloads of one
    /// transaction only once.
    number: u64,
}

impl Packer {
    pub(super) fn new(from: WorkerId) -> Self {
        Self { from, number: 0 }
    }

    pub(super) fn pack(&mut self, messages: &[Message]) -> Vec<String> {
        let mut payloads: Vec<String> = Vec::new();
        for part in messages.iter().flat_map(Message::parts) {
            match payloads.last_mut() {
                Some(last) if last.len() + part.len() + 3 <= MAX_PAYLOAD => {
                    last.push(',');
                    last.push_str(&part);
                }
                _ => {
                    self.number += 1;
                    payloads.push(format!(
                        r#"{{"from":"{}","n":{},"m":[{part}"#,
                        self.from, self.number
                    ));
                }
            }
        }
        for payload in &mut payloads {
            payload.push_str("]}");
        }
        // A single part can be too long only because of a huge preview ID. It is dropped.
        payloads.retain(|payload| payload.len() <= MAX_PAYLOAD);
        payloads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delta(text: &str) -> Message {
        let session = SessionId::new();
        Message::Delta {
            to: None,
            session,
            id: "evt_1".to_owned(),
            index: 0,
            text: text.to_owned(),
        }
    }

    fn unpacked(payloads: &[String]) -> Vec<Message> {
        let batches = payloads.iter().map(|text| serde_json::from_str::<Batch>(text).unwrap());
        batches.flat_map(|batch| batch.messages).collect()
    }

    #[test]
    fn messages_arrive_as_they_were_sent() {
        let session = SessionId::new();
        let sent = vec![
            Message::Hello { is_new: true },
            Message::Work,
            Message::Stored { session, seq: 7, ended: vec!["evt_1".to_owned()] },
            delta("Grüße \"\u{0}\""),
            Message::End { session, run: RunId::new() },
        ];
        let payloads = Packer::new(WorkerId::new()).pack(&sent);
        assert_eq!(payloads.len(), 1);
        assert_eq!(unpacked(&payloads), sent);
    }

    #[test]
    fn every_payload_is_within_the_size_limit() {
        for text in ["x".repeat(100_000), "\u{1}".repeat(20_000), "😀é\"".repeat(5_000)] {
            let payloads = Packer::new(WorkerId::new()).pack(&[delta(&text), Message::Work]);
            assert!(payloads.iter().all(|payload| payload.len() <= MAX_PAYLOAD));
            let arrived: String = unpacked(&payloads)
                .into_iter()
                .filter_map(|message| {
                    if let Message::Delta { text, .. } = message { Some(text) } else { None }
                })
                .collect();
            assert!(arrived == text);
        }
    }

    #[test]
    fn a_message_that_ends_many_previews_is_split() {
        let session = SessionId::new();
        let ended: Vec<String> = (0..500).map(|n| format!("toolu_{n:0>24}")).collect();
        let message = Message::Stored { session, seq: 7, ended: ended.clone() };
        let payloads = Packer::new(WorkerId::new()).pack(&[message]);
        let mut arrived = Vec::new();
        for message in unpacked(&payloads) {
            let Message::Stored { seq: 7, ended, .. } = message else {
                panic!("{message:?}");
            };
            arrived.extend(ended);
        }
        assert_eq!(arrived, ended);
    }

    #[test]
    fn unknown_messages_do_not_affect_other_messages_of_the_batch() {
        let (from, run) = (WorkerId::new(), RunId::new());
        let payload =
            format!(r#"{{"from":"{from}","m":[{{"t":"dance"}},{{"t":"cancel","run":"{run}"}}]}}"#);
        assert_eq!(unpacked(&[payload]), [Message::Unknown, Message::Cancel { run }]);
    }

    #[test]
    fn no_two_payloads_are_equal() {
        let payloads = Packer::new(WorkerId::new()).pack(&[delta(&"x".repeat(50_000))]);
        let distinct: std::collections::HashSet<_> = payloads.iter().collect();
        assert_eq!(distinct.len(), payloads.len());
    }
}
