//! The input of a call in the form that rules match. It preserves repeated keys.

use std::fmt;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// A JSON value of the input.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    Object(Vec<(String, Node)>),
    Array(Vec<Node>),
    Text(String),
    /// A number or a boolean, as JSON text.
    Other(String),
    Null,
}

/// The input of a call.
#[derive(Debug, Clone)]
pub(super) struct CallInput {
    root: Option<Node>,
    is_ambiguous: bool,
}

impl CallInput {
    pub(super) fn read(raw: &RawValue) -> Self {
        let root: Option<Node> = serde_json::from_str(raw.get()).ok();
        let is_ambiguous = root.as_ref().is_none_or(Node::repeats_a_key);
        Self { root, is_ambiguous }
    }

    /// Returns `true` if two JSON parsers could read different values: the input is not valid
    /// JSON or repeats a key.
    pub(super) fn is_ambiguous(&self) -> bool {
        self.is_ambiguous
    }

    /// Returns `true` if the input is not a JSON object.
    pub(super) fn is_unreadable(&self) -> bool {
        !matches!(self.root, Some(Node::Object(_)))
    }

    /// Returns the values of a member: several if its key is repeated. The path `a.b` names the
    /// member `b` of `a`.
    pub(super) fn find(&self, member: &str) -> Vec<&Node> {
        let mut found = Vec::new();
        if let Some(root) = &self.root {
            root.find(member, &mut found);
        }
        found
    }
}

impl Node {
    fn find<'a>(&'a self, member: &str, found: &mut Vec<&'a Self>) {
        let Self::Object(members) = self else { return };
        for (name, value) in members {
            if name == member {
                found.push(value);
            } else if let Some(rest) =
                member.strip_prefix(name.as_str()).and_then(|rest| rest.strip_prefix('.'))
            {
                value.find(rest, found);
            }
        }
    }

    /// Returns the scalar values of a value as texts. Returns `None` if the value is, or
    /// contains, an object or null.
    pub(super) fn texts(&self) -> Option<Vec<&str>> {
        match self {
            Self::Text(text) | Self::Other(text) => Some(vec![text]),
            Self::Array(items) => {
                let mut texts = Vec::new();
                for item in items {
                    texts.extend(item.texts()?);
                }
                Some(texts)
            }
            Self::Object(_) | Self::Null => None,
        }
    }

    fn repeats_a_key(&self) -> bool {
        match self {
            Self::Object(members) => {
                let mut names: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
                names.sort_unstable();
                names.array_windows().any(|[one, next]| one == next)
                    || members.iter().any(|(_, value)| value.repeats_a_key())
            }
            Self::Array(items) => items.iter().any(Self::repeats_a_key),
            Self::Text(_) | Self::Other(_) | Self::Null => false,
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Other(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Other(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Other(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Other(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Node, E> {
        Ok(Node::Text(value))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut nodes = Vec::new();
        while let Some(item) = items.next_element()? {
            nodes.push(item);
        }
        Ok(Node::Array(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Node::Object(members))
    }
}
