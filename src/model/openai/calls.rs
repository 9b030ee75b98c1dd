//! Assembles tool calls from the pieces of a stream. By the protocol each piece has the index of
//! its call, and the first piece its id and function name. Many servers omit one of them, send
//! whole calls at once, or send index 0 for all calls.

use std::fmt::Write as _;
use std::mem::take;
use std::sync::Arc;

use bytes::Bytes;

use super::decode::CallPiece;
use crate::domain::call_syntax::{MAX_WORD, is_word};
use crate::domain::ids::CallId;
use crate::model::raw_object::RawObject;
use crate::model::reply::Progress;

/// The calls of a reply, in the order in which they began.
#[derive(Debug)]
pub(super) struct Calls {
    /// The body of the request, in which ids of earlier calls occur.
    sent: Bytes,
    pub(super) all: Vec<Call>,
}

/// One call.
#[derive(Debug)]
pub(super) struct Call {
    index: Option<u64>,
    /// The server's id, which may not be unique.
    given: Option<String>,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
    /// Other members, which the server gets back.
    pub(super) members: RawObject,
    is_announced: bool,
}

impl Calls {
    pub(super) fn new(sent: Bytes) -> Self {
        Self { sent, all: Vec::new() }
    }

    /// Adds a piece; `first` is the block index of the first call.
    pub(super) fn push(&mut self, mut piece: CallPiece, first: usize) -> Vec<Progress> {
        let members = take(&mut piece.members);
        let place = self.place(&piece).unwrap_or_else(|| {
            let id = self.id(&piece);
            let given = piece.id().map(str::to_owned);
            self.all.push(Call::new(piece.index, given, id));
            self.all.len() - 1
        });
        match self.all.get_mut(place) {
            Some(call) => {
                call.members.continue_with(members);
                call.push(&piece, first + place)
            }
            None => Vec::new(),
        }
    }

    /// The position of the call that a piece continues; `None` if the piece begins a call.
    fn place(&self, piece: &CallPiece) -> Option<usize> {
        let place = match piece.index {
            Some(index) => self.all.iter().rposition(|call| call.index == Some(index)),
            None => self.all.len().checked_sub(1),
        }?;
        let call = self.all.get(place)?;
        (!call.is_followed_by(piece)).then_some(place)
    }

    /// The server's id if it is valid and unused, else a new one: an id must be unique in the
    /// history.
    fn id(&self, piece: &CallPiece) -> String {
        let is_good = |id: &&str| is_word(id, MAX_WORD);
        match piece.id().filter(is_good).filter(|id| !self.is_used(id)) {
            Some(id) => id.to_owned(),
            None => CallId::new().to_string(),
        }
    }

    fn is_used(&self, id: &str) -> bool {
        let mut answered = String::from(r#""tool_call_id":"#);
        let _ = write!(answered, "{}", serde_json::Value::from(id));
        let sent = std::str::from_utf8(&self.sent).unwrap_or_default();
        self.all.iter().any(|call| call.id == id) || sent.contains(&answered)
    }
}

impl Call {
    fn new(index: Option<u64>, given: Option<String>, id: String) -> Self {
        let (name, arguments, members) = (String::new(), String::new(), RawObject::default());
        Self { index, given, id, name, arguments, members, is_announced: false }
    }

    /// Returns true if a piece with the index of this call begins another call.
    fn is_followed_by(&self, piece: &CallPiece) -> bool {
        let is_same = match (piece.id(), self.given.as_deref()) {
            (Some(id), Some(given)) if id != given => return true,
            (Some(_), Some(_)) => true,
            (Some(_), None) | (None, _) => piece.index.is_some(),
        };
        let Some(name) = piece.name().filter(|_| !self.name.is_empty()) else {
            return false;
        };
        // Some servers repeat the function name in every piece.
        let is_whole = || serde_json::from_str::<serde_json::Value>(&self.arguments).is_ok();
        name != self.name || !is_same || (!piece.arguments().is_empty() && is_whole())
    }

    fn push(&mut self, piece: &CallPiece, index: usize) -> Vec<Progress> {
        if let Some(name) = piece.name().filter(|_| self.name.is_empty()) {
            name.clone_into(&mut self.name);
        }
        let arguments = piece.arguments();
        self.arguments.push_str(&arguments);
        if self.name.is_empty() {
            return Vec::new();
        }
        let mut progress = Vec::new();
        let mut text: Arc<str> = arguments.into();
        if !self.is_announced {
            let (id, name) = (self.id.clone(), self.name.clone());
            progress.push(Progress::ToolUseStarted { index, id, name });
            text = self.arguments.as_str().into();
            self.is_announced = true;
        }
        if !text.is_empty() {
            progress.push(Progress::Delta { index, text });
        }
        progress
    }
}
