//! A JSON object whose members keep their order and their exact text.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// The members, in their original order.
#[derive(Debug, Clone, Default)]
pub(super) struct RawObject(Vec<(String, Box<RawValue>)>);

impl RawObject {
    pub(super) fn get(&self, key: &str) -> Option<&RawValue> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_ref())
    }

    /// Deserializes a member; `None` if it is absent, null or of another type.
    pub(super) fn read<'a, T: Deserialize<'a>>(&'a self, key: &str) -> Option<T> {
        self.get(key).and_then(|value| serde_json::from_str(value.get()).ok())
    }

    /// Replaces a member at its position, or appends it.
    pub(super) fn set(&mut self, key: &str, value: Box<RawValue>) {
        match self.0.iter_mut().find(|(name, _)| name == key) {
            Some((_, old)) => *old = value,
            None => self.0.push((key.to_owned(), value)),
        }
    }

    /// Sets all members of another object except those that are null.
    pub(super) fn merge(&mut self, other: Self) {
        for (key, value) in other.0 {
            if value.get() != "null" {
                self.set(&key, value);
            }
        }
    }
}

impl<'de> Deserialize<'de> for RawObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = RawObject;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawObject, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(RawObject(members))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

impl Serialize for RawObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}
