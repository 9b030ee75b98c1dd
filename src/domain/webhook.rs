//! Webhooks: endpoints, events and signatures (Standard Webhooks, version 1).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use super::ids::{DeliveryId, SessionId, WebhookId};

/// Maximum number of webhooks of a tenant: each costs a row for each event that it receives.
pub const MAX_WEBHOOKS: i64 = 20;

/// An event that a webhook can subscribe to. The names are those of run states.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
pub enum WebhookEvent {
    /// A run has completed.
    #[serde(rename = "run.completed")]
    RunCompleted,
    /// A run has failed.
    #[serde(rename = "run.failed")]
    RunFailed,
    /// A run was cancelled.
    #[serde(rename = "run.cancelled")]
    RunCancelled,
    /// A run waits for decisions, or for the results of calls that the client runs.
    #[serde(rename = "run.requires_action")]
    RunRequiresAction,
    /// A decision on a call was made.
    #[serde(rename = "approval.decided")]
    ApprovalDecided,
    /// A user gave feedback on a reply, or removed it.
    #[serde(rename = "message.feedback")]
    MessageFeedback,
}

impl WebhookEvent {
    /// All events.
    pub const ALL: [Self; 6] = [
        Self::RunCompleted,
        Self::RunFailed,
        Self::RunCancelled,
        Self::RunRequiresAction,
        Self::ApprovalDecided,
        Self::MessageFeedback,
    ];
    /// The event type of a test delivery.
    pub const TEST: &str = "webhook.test";

    /// The event as text, on the wire and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RunCompleted => "run.completed",
            Self::RunFailed => "run.failed",
            Self::RunCancelled => "run.cancelled",
            Self::RunRequiresAction => "run.requires_action",
            Self::ApprovalDecided => "approval.decided",
            Self::MessageFeedback => "message.feedback",
        }
    }

    /// Parses the text of an event.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.as_str() == word)
    }
}

/// The secret that signs deliveries. `Debug` does not print it.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret([u8; Self::LEN]);

impl WebhookSecret {
    const LEN: usize = 32;

    /// Generates a secret from the operating system's random numbers.
    pub fn generate() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; Self::LEN];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// Returns the bytes, which are stored.
    pub const fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the secret as text, for its owner.
    pub fn reveal(&self) -> String {
        format!("whsec_{}", STANDARD.encode(self.0))
    }

    /// Signs a delivery with this id, time and body.
    #[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
    #[expect(clippy::missing_panics_doc, reason = "HMAC takes keys of any length")]
    pub fn sign(&self, id: impl fmt::Display, timestamp: i64, body: &str) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes any length");
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body.as_bytes());
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret(…)")
    }
}

/// A text that is not a secret. The error does not repeat it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is not `whsec_` and {} bytes in Base64", WebhookSecret::LEN)]
pub struct BadSecret;

impl FromStr for WebhookSecret {
    type Err = BadSecret;

    fn from_str(text: &str) -> Result<Self, BadSecret> {
        let encoded = text.strip_prefix("whsec_").ok_or(BadSecret)?;
        let bytes = STANDARD.decode(encoded).map_err(|_| BadSecret)?;
        bytes.try_into().map_err(|_: String| BadSecret)
    }
}

impl TryFrom<Vec<u8>> for WebhookSecret {
    type Error = String;

    fn try_from(bytes: Vec<u8>) -> Result<Self, String> {
        let bytes: [u8; Self::LEN] =
            bytes.try_into().map_err(|bytes: Vec<u8>| format!("{} bytes", bytes.len()))?;
        Ok(Self(bytes))
    }
}

/// The reason why a webhook is disabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Disabled {
    /// Disabled by its owner.
    ByOwner,
    /// Disabled because its address answered 410 Gone.
    Gone,
}

impl Disabled {
    /// The value on the wire and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ByOwner => "by_owner",
            Self::Gone => "gone",
        }
    }

    /// Parses the text of a reason.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::ByOwner, Self::Gone].into_iter().find(|reason| reason.as_str() == word)
    }
}

/// A webhook endpoint.
#[derive(Debug, Clone)]
pub struct Webhook {
    /// The id.
    pub id: WebhookId,
    /// The address.
    pub url: String,
    /// A description for people.
    pub description: Option<String>,
    /// The subscribed events.
    pub events: Vec<WebhookEvent>,
    /// The reason why nothing is sent, if the webhook is disabled.
    pub disabled: Option<Disabled>,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
}

/// The state of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// Waits for its first or next attempt.
    Pending,
    /// The receiver accepted it.
    Delivered,
    /// Failed; it is sent again only on request.
    Failed,
}

impl DeliveryState {
    /// The state as text, on the wire and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
        }
    }

    /// Parses the text of a state.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Pending, Self::Delivered, Self::Failed]
            .into_iter()
            .find(|state| state.as_str() == word)
    }
}

/// A delivery to a webhook.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The id: the same in each attempt, so that receivers can detect duplicates.
    pub id: DeliveryId,
    /// The session, unless it is a test.
    pub session_id: Option<SessionId>,
    /// The event type.
    pub event: String,
    /// The state.
    pub state: DeliveryState,
    /// Number of attempts.
    pub attempts: i32,
    /// Time of the next attempt.
    pub next_attempt_at: Option<Timestamp>,
    /// The HTTP status of the last attempt.
    pub last_status: Option<i32>,
    /// The error of the last attempt.
    pub last_error: Option<String>,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of acceptance or of the final failure.
    pub ended_at: Option<Timestamp>,
}

/// The pauses between attempts, in seconds: about a day in total.
const PAUSES: [u64; 7] = [5, 5 * 60, 30 * 60, 2 * 3600, 5 * 3600, 8 * 3600, 8 * 3600];

/// Returns the pause after this many failed attempts, before jitter; none when no attempts remain.
pub fn pause_after(attempts: i32) -> Option<Duration> {
    let index = usize::try_from(attempts).ok()?.checked_sub(1)?;
    PAUSES.get(index).copied().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_matches_the_standard() {
        // Computed independently with:
        // printf '%s' "$id.1614265330.{\"test\": 2432232314}" |
        //     openssl dgst -sha256 -mac HMAC -macopt hexkey:000102…1f -binary | base64
        let secret: Vec<u8> = (0..32).collect();
        let secret = WebhookSecret::try_from(secret).unwrap();
        let id: DeliveryId = "dlv_0193a7c2b8f07d3c9e41f2a6b5c8d7e0".parse().unwrap();
        assert_eq!(
            secret.sign(id, 1_614_265_330, r#"{"test": 2432232314}"#),
            "v1,QE9IitVzYuZDOOguiquZso4PLqJ6i6hIXE6aHR61g4g="
        );
        assert_eq!(secret.reveal(), "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
        assert_eq!(secret.reveal().parse(), Ok(secret));
    }

    #[test]
    fn the_debug_output_of_a_secret_does_not_contain_it() {
        assert_eq!(format!("{:?}", WebhookSecret::generate().unwrap()), "WebhookSecret(…)");
    }

    #[test]
    fn texts_match_the_wire_names() {
        for event in WebhookEvent::ALL {
            assert_eq!(serde_json::to_value(event).unwrap(), event.as_str());
            assert_eq!(WebhookEvent::parse(event.as_str()), Some(event));
        }
        for state in [DeliveryState::Pending, DeliveryState::Delivered, DeliveryState::Failed] {
            assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
            assert_eq!(DeliveryState::parse(state.as_str()), Some(state));
        }
        for reason in [Disabled::ByOwner, Disabled::Gone] {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
            assert_eq!(Disabled::parse(reason.as_str()), Some(reason));
        }
    }

    #[test]
    fn pauses_grow_to_about_a_day_in_total() {
        let pauses: Vec<Duration> = (1..).map_while(pause_after).collect();
        assert!(pauses.is_sorted());
        assert_eq!(pauses.len(), 7);
        let all: Duration = pauses.iter().sum();
        assert!(Duration::from_hours(20) < all && all < Duration::from_hours(30), "{all:?}");
        assert_eq!([pause_after(0), pause_after(-1)], [None, None]);
    }
}
