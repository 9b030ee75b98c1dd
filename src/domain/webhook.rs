//! Webhooks: who is told of what, and how it is signed (Standard Webhooks, version 1).

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

/// What a webhook can be told of. The words are those of runs.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
pub enum WebhookEvent {
    /// A run has its answer.
    #[serde(rename = "run.completed")]
    RunCompleted,
    /// A run has failed.
    #[serde(rename = "run.failed")]
    RunFailed,
    /// A run was cancelled.
    #[serde(rename = "run.cancelled")]
    RunCancelled,
    /// A run waits for decisions, or for results of calls that the client runs.
    #[serde(rename = "run.requires_action")]
    RunRequiresAction,
    /// Somebody has decided on a call.
    #[serde(rename = "approval.decided")]
    ApprovalDecided,
}

impl WebhookEvent {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::RunCompleted,
        Self::RunFailed,
        Self::RunCancelled,
        Self::RunRequiresAction,
        Self::ApprovalDecided,
    ];
    /// What is sent when somebody asks for a test.
    pub const TEST: &str = "webhook.test";

    /// The word on the wire and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RunCompleted => "run.completed",
            Self::RunFailed => "run.failed",
            Self::RunCancelled => "run.cancelled",
            Self::RunRequiresAction => "run.requires_action",
            Self::ApprovalDecided => "approval.decided",
        }
    }

    /// The event of this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.as_str() == word)
    }
}

/// What signs deliveries. Nothing prints it by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret([u8; Self::LEN]);

impl WebhookSecret {
    const LEN: usize = 32;

    /// A new one, of random bits that the operating system gives.
    pub fn generate() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; Self::LEN];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// What is stored of it, which is all of it.
    pub const fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The secret as its owner holds it.
    pub fn reveal(&self) -> String {
        format!("whsec_{}", STANDARD.encode(self.0))
    }

    /// The signature of what is sent by this id at a moment.
    #[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
    #[expect(clippy::missing_panics_doc, reason = "HMAC takes keys of any length")]
    pub fn sign(&self, id: impl fmt::Display, timestamp: i64, body: &str) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("any length is taken");
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

/// A text that is no secret. It is not told which.
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

/// Why nothing is sent to a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Disabled {
    /// Its owner wants it so.
    ByOwner,
    /// Its address has answered 410: nobody is there any more.
    Gone,
}

impl Disabled {
    /// The word on the wire and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ByOwner => "by_owner",
            Self::Gone => "gone",
        }
    }

    /// The reason of this word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::ByOwner, Self::Gone].into_iter().find(|reason| reason.as_str() == word)
    }
}

/// Somewhere to be told.
#[derive(Debug, Clone)]
pub struct Webhook {
    /// The id.
    pub id: WebhookId,
    /// Where.
    pub url: String,
    /// A name for people.
    pub description: Option<String>,
    /// Of what.
    pub events: Vec<WebhookEvent>,
    /// Why nothing is sent, if nothing is.
    pub disabled: Option<Disabled>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// How far a delivery is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// It is to be sent, again if it was sent before.
    Pending,
    /// The receiver has taken it.
    Delivered,
    /// It is sent no more, unless somebody asks for it.
    Failed,
}

impl DeliveryState {
    /// The word on the wire and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
        }
    }

    /// The state of this word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Pending, Self::Delivered, Self::Failed]
            .into_iter()
            .find(|state| state.as_str() == word)
    }
}

/// Something that a webhook is told.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The id: the same at each attempt, for receivers to know it again.
    pub id: DeliveryId,
    /// What it is about, if it is no test.
    pub session_id: Option<SessionId>,
    /// Of what it tells.
    pub event: String,
    /// How far it is.
    pub state: DeliveryState,
    /// How often it was sent.
    pub attempts: i32,
    /// When it is sent next.
    pub next_attempt_at: Option<Timestamp>,
    /// What the last attempt was answered with.
    pub last_status: Option<i32>,
    /// Why the last attempt was not taken.
    pub last_error: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was taken, or given up.
    pub ended_at: Option<Timestamp>,
}

/// The pauses before the attempts that follow the first, in seconds: about a day in all.
const PAUSES: [u64; 7] = [5, 5 * 60, 30 * 60, 2 * 3600, 5 * 3600, 8 * 3600, 8 * 3600];

/// The pause after so many attempts that have failed, before a random part; none when it is time to
/// give up.
pub fn pause_after(attempts: i32) -> Option<Duration> {
    let index = usize::try_from(attempts).ok()?.checked_sub(1)?;
    PAUSES.get(index).copied().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_the_one_that_the_standard_computes() {
        // The same by a tool of another make:
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
    fn a_secret_that_is_printed_by_accident_is_not_told() {
        assert_eq!(format!("{:?}", WebhookSecret::generate().unwrap()), "WebhookSecret(…)");
    }

    #[test]
    fn words_are_those_of_the_wire() {
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
    fn pauses_grow_to_about_a_day_and_end() {
        let pauses: Vec<Duration> = (1..).map_while(pause_after).collect();
        assert!(pauses.is_sorted());
        assert_eq!(pauses.len(), 7);
        let all: Duration = pauses.iter().sum();
        assert!(Duration::from_hours(20) < all && all < Duration::from_hours(30), "{all:?}");
        assert_eq!([pause_after(0), pause_after(-1)], [None, None]);
    }
}
