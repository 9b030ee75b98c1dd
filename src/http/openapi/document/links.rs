//! Links from responses to further operations.

use utoipa::openapi::OpenApi;
use utoipa::openapi::link::LinkBuilder;

use super::walk::{operations, own_responses};

/// The linked operations, and the values of their parameters.
type Links = &'static [(&'static str, &'static [(&'static str, &'static str)])];

const SESSION: &str = "$response.body#/id";
const OF_RUN: &[(&str, &str)] =
    &[("session_id", "$response.body#/session_id"), ("run_id", "$response.body#/id")];
const OF_SESSION: &[(&str, &str)] = &[("session_id", SESSION)];
const OF_WEBHOOK: &[(&str, &str)] = &[("webhook_id", SESSION)];

const TO_SESSION: Links = &[
    ("get_session", OF_SESSION),
    ("update_session", OF_SESSION),
    ("create_message", OF_SESSION),
    ("list_messages", OF_SESSION),
    ("list_events", OF_SESSION),
    ("list_runs", OF_SESSION),
    ("create_fork", OF_SESSION),
    ("export_session", OF_SESSION),
    ("create_ticket", OF_SESSION),
    ("delete_session", OF_SESSION),
];
const TO_RUN: Links = &[
    ("get_run", OF_RUN),
    ("stream_run", OF_RUN),
    ("explain_run", OF_RUN),
    ("list_requests", OF_RUN),
    ("cancel_run", OF_RUN),
];
const TO_WEBHOOK: Links = &[
    ("get_webhook", OF_WEBHOOK),
    ("update_webhook", OF_WEBHOOK),
    ("test_webhook", OF_WEBHOOK),
    ("list_deliveries", OF_WEBHOOK),
    ("rotate_webhook_secret", OF_WEBHOOK),
    ("delete_webhook", OF_WEBHOOK),
];

pub(super) fn complete(document: &mut OpenApi) {
    for operation in operations(document) {
        let (made, links) = match operation.operation_id.as_deref() {
            Some("create_session" | "create_fork" | "import_session") => ("201", TO_SESSION),
            Some("create_message") => ("202", TO_RUN),
            Some("create_webhook") => ("201", TO_WEBHOOK),
            _ => continue,
        };
        for (_, response) in own_responses(operation).filter(|(status, _)| *status == made) {
            for (to, parameters) in links {
                let mut link = LinkBuilder::new().operation_id(*to);
                for (name, expression) in *parameters {
                    link = link.parameter(*name, *expression);
                }
                response.links.insert((*to).to_owned(), link.build().into());
            }
        }
    }
}
