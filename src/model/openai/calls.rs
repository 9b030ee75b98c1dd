//! Puts the pieces of tool calls together. By the protocol each piece names the place of its
//! call, and the first one its id and its function; many servers leave out one or the other, send
//! whole calls at once, or count all of them as the first.

use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;

use super::decode::CallPiece;
use crate::domain::ids::CallId;
use crate::model::Progress;

/// The longest id that is kept.
const MAX_ID: usize = 128;

/// The calls of a reply, in the order in which they began.
#[derive(Debug)]
pub(super) struct Calls {
    /// The request: ids in it are taken.
    sent: Bytes,
    pub(super) all: Vec<Call>,
}

/// One call.
#[derive(Debug)]
pub(super) struct Call {
    index: Option<u64>,
    /// The server's id, which another call may have as well.
    given: Option<String>,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
    is_told: bool,
}

impl Calls {
    pub(super) fn new(sent: Bytes) -> Self {
        Self { sent, all: Vec::new() }
    }

    /// Takes in a piece; `first` is the place in the reply of the first call.
    pub(super) fn push(&mut self, piece: &CallPiece, first: usize) -> Vec<Progress> {
        let place = self.place(piece).unwrap_or_else(|| {
            let id = self.id(piece);
            let given = piece.id().map(str::to_owned);
            self.all.push(Call::new(piece.index, given, id));
            self.all.len() - 1
        });
        match self.all.get_mut(place) {
            Some(call) => call.push(piece, first + place),
            None => Vec::new(),
        }
    }

    /// The call that a piece goes on with; none if it begins one.
    fn place(&self, piece: &CallPiece) -> Option<usize> {
        let place = match piece.index {
            Some(index) => self.all.iter().rposition(|call| call.index == Some(index)),
            None => self.all.len().checked_sub(1),
        }?;
        let call = self.all.get(place)?;
        (!call.is_over(piece)).then_some(place)
    }

    /// The server's id if it has a good one. The history must not have an id twice.
    fn id(&self, piece: &CallPiece) -> String {
        let is_good = |id: &&str| id.len() <= MAX_ID && !id.chars().any(char::is_control);
        match piece.id().filter(is_good).filter(|id| !self.is_taken(id)) {
            Some(id) => id.to_owned(),
            None => CallId::new().to_string(),
        }
    }

    fn is_taken(&self, id: &str) -> bool {
        let mut answered = String::from(r#""tool_call_id":"#);
        let _ = write!(answered, "{}", serde_json::Value::from(id));
        let sent = std::str::from_utf8(&self.sent).unwrap_or_default();
        self.all.iter().any(|call| call.id == id) || sent.contains(&answered)
    }
}

impl Call {
    fn new(index: Option<u64>, given: Option<String>, id: String) -> Self {
        let (name, arguments) = (String::new(), String::new());
        Self { index, given, id, name, arguments, is_told: false }
    }

    /// Whether a piece that claims this place belongs to another call.
    fn is_over(&self, piece: &CallPiece) -> bool {
        let is_same = match (piece.id(), self.given.as_deref()) {
            (Some(id), Some(given)) if id != given => return true,
            (Some(_), Some(_)) => true,
            (Some(_), None) | (None, _) => piece.index.is_some(),
        };
        let Some(name) = piece.name().filter(|_| !self.name.is_empty()) else {
            return false;
        };
        // It names a function again: some servers do that in every piece.
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
        let mut told = Vec::new();
        let mut text: Arc<str> = arguments.into();
        if !self.is_told {
            let (id, name) = (self.id.clone(), self.name.clone());
            told.push(Progress::ToolUseStarted { index, id, name });
            text = self.arguments.as_str().into();
            self.is_told = true;
        }
        if !text.is_empty() {
            told.push(Progress::Delta { index, text });
        }
        told
    }
}
