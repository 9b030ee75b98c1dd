//! Identifiers: UUID v7, generated only here, with a prefix on the wire.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use uuid::Uuid;

/// A text that is not an id of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an id of the form {prefix}_ and 32 hexadecimal digits")]
pub struct BadId {
    prefix: &'static str,
    text: String,
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Uuid);

        impl $name {
            /// The prefix on the wire, without the underscore.
            pub const PREFIX: &'static str = $prefix;

            /// Generates an id; later ids of one process sort after earlier ones.
            #[expect(clippy::new_without_default, reason = "a new id is never a default value")]
            pub fn new() -> Self {
                Self(Uuid::now_v7())
            }

            /// The id as stored in the database.
            pub const fn as_uuid(self) -> Uuid {
                self.0
            }
        }

        impl From<Uuid> for $name {
            fn from(uuid: Uuid) -> Self {
                Self(uuid)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}_{}", $prefix, self.0.simple())
            }
        }

        impl FromStr for $name {
            type Err = BadId;

            fn from_str(text: &str) -> Result<Self, BadId> {
                text.strip_prefix(concat!($prefix, "_"))
                    .filter(|digits| digits.len() == 32)
                    .and_then(|digits| Uuid::try_parse(digits).ok())
                    .map(Self)
                    .ok_or_else(|| BadId { prefix: $prefix, text: text.to_owned() })
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
    )+};
}

ids! {
    /// The owner of sessions.
    TenantId = "ten";
    /// One conversation.
    SessionId = "ses";
    /// The work that one user message starts.
    RunId = "run";
    /// One entry of the history.
    MessageId = "msg";
    /// A numbered fact of a session.
    EventId = "evt";
    /// One worker process, the owner of leases.
    WorkerId = "wrk";
    /// An API key. The id is the first part of the key and does not reveal the secret.
    KeyId = "tsk";
    /// A browser token. The id is the first part of the token and does not reveal the secret.
    BrowserTokenId = "tbt";
    /// A tool call to which the model server gave no id.
    CallId = "call";
    /// A webhook endpoint.
    WebhookId = "whk";
    /// A delivery of a notification to a webhook.
    DeliveryId = "dlv";
    /// An uploaded file.
    FileId = "file";
    /// A diagnostic stream that checks the proxies between client and service.
    ProbeId = "prb";
    /// A course that agents search.
    CourseId = "crs";
    /// An environment of the protocol of Claude Managed Agents.
    EnvironmentId = "env";
}

impl TenantId {
    /// The tenant of a service without keys; the first migration inserts it.
    pub const DEFAULT: Self = Self(Uuid::from_u128(0x0000_0000_0000_7000_8000_0000_0000_0001));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_the_wire() {
        let id = SessionId::new();
        let text = serde_json::to_string(&id).unwrap();
        assert!(text.starts_with("\"ses_"));
        assert_eq!(serde_json::from_str::<SessionId>(&text).unwrap(), id);
    }

    #[test]
    fn an_id_of_another_kind_is_refused_and_named() {
        let run = RunId::new().to_string();
        let error = run.parse::<SessionId>().unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("{run:?} is not an id of the form ses_ and 32 hexadecimal digits")
        );
    }

    #[test]
    fn later_ids_sort_after_earlier_ones() {
        let ids: Vec<_> = (0..100).map(|_| EventId::new()).collect();
        assert!(ids.is_sorted());
    }
}
