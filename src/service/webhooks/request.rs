//! Requests to create and change webhooks.

use reqwest::Url;
use serde::Deserialize;

use crate::domain::webhook::WebhookEvent;
use crate::service::error::{Error, FieldError};
use crate::service::json::{not_null, nullable};
use crate::service::state::Service;

/// Maximum length of a URL, in characters.
const MAX_URL: usize = 2000;
/// Maximum length of a description, in characters.
const MAX_DESCRIPTION: usize = 500;

/// A new webhook.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateWebhook {
    /// The URL that receives deliveries, at most 2000 characters: an https URL, or a URL of a host
    /// that the operator allows.
    #[schema(format = "uri", max_length = 2000)]
    pub(super) url: String,
    /// The events to deliver.
    #[schema(value_type = Vec<WebhookEvent>, min_items = 1)]
    events: Vec<String>,
    /// A description for users, at most 500 characters.
    #[schema(max_length = 500)]
    pub(super) description: Option<String>,
}

/// Changes of a webhook. Absent members stay unchanged.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UpdateWebhook {
    /// The URL that receives deliveries, including those that are already queued.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(value_type = String, format = "uri", max_length = 2000)]
    pub(super) url: Option<String>,
    /// The events to deliver.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(value_type = Vec<WebhookEvent>, min_items = 1)]
    events: Option<Vec<String>>,
    /// A description for users; null removes it.
    #[expect(clippy::option_option, reason = "null differs from an absent member")]
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<String>, max_length = 500)]
    pub(super) description: Option<Option<String>>,
    /// Enables or disables the webhook. Events that occur while it is disabled are not delivered.
    /// Deliveries that are already queued are sent when it is enabled again, unless they are older
    /// than 30 days.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(value_type = bool)]
    pub(super) enabled: Option<bool>,
}

impl CreateWebhook {
    /// Checks the request. Returns its events, sorted and without duplicates.
    pub(super) fn check(&self, service: &Service) -> Result<Vec<WebhookEvent>, Error> {
        let mut checks = Checks::default();
        checks.url(service, &self.url);
        checks.description(self.description.as_deref());
        let events = checks.events(&self.events);
        Error::if_any(checks.errors)?;
        Ok(events)
    }
}

impl UpdateWebhook {
    /// Checks the request. Returns its events, if any, sorted and without duplicates.
    pub(super) fn check(&self, service: &Service) -> Result<Option<Vec<WebhookEvent>>, Error> {
        let mut checks = Checks::default();
        if let Some(url) = &self.url {
            checks.url(service, url);
        }
        checks.description(self.description.as_ref().and_then(Option::as_deref));
        let events = self.events.as_ref().map(|events| checks.events(events));
        Error::if_any(checks.errors)?;
        Ok(events)
    }
}

#[derive(Default)]
struct Checks {
    errors: Vec<FieldError>,
}

impl Checks {
    fn refuse(&mut self, pointer: &str, message: impl Into<String>) {
        self.errors.push(FieldError::new(pointer, message));
    }

    fn url(&mut self, service: &Service, url: &str) {
        if let Some(problem) = url_problem(service, url) {
            self.refuse("/url", problem);
        }
    }

    fn description(&mut self, description: Option<&str>) {
        let Some(text) = description else { return };
        if text.chars().count() > MAX_DESCRIPTION {
            self.refuse("/description", "is longer than 500 characters");
        }
        if text.contains('\0') {
            self.refuse("/description", "has a NUL character");
        }
    }

    fn events(&mut self, names: &[String]) -> Vec<WebhookEvent> {
        if names.is_empty() {
            self.refuse("/events", "is empty");
        }
        let mut events = Vec::new();
        for (index, name) in names.iter().enumerate() {
            match WebhookEvent::parse(name) {
                Some(event) => events.push(event),
                None => {
                    self.refuse(&format!("/events/{index}"), format!("{name:?} is not an event"));
                }
            }
        }
        events.sort_unstable();
        events.dedup();
        events
    }
}

fn url_problem(service: &Service, text: &str) -> Option<String> {
    if text.chars().count() > MAX_URL {
        return Some("is longer than 2000 characters".to_owned());
    }
    let url: Url = match text.parse() {
        Ok(url) => url,
        Err(error) => return Some(format!("is not a URL: {error}")),
    };
    // The URL is stored as written. This parser ignores such characters, another one may not.
    if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Some("has whitespace or a control character".to_owned());
    }
    service.webhook_hosts.reach(&url).err().map(|refused| refused.to_string())
}
