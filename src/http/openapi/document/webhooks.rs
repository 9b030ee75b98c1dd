//! The requests that the service sends to webhook receivers.

use utoipa::openapi::path::{OperationBuilder, Parameter, ParameterBuilder, ParameterIn, Paths};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::{
    ContentBuilder, HttpMethod, Object, OpenApi, PathItem, Ref, Required, Response, Type,
};
use utoipa::{PartialSchema, ToSchema};

use super::deliveries::WebhookDelivery;
use super::samples::Samples;

/// A header of every delivery.
struct DeliveryHeader {
    name: &'static str,
    description: &'static str,
    example: &'static str,
}

const HEADERS: [DeliveryHeader; 3] = [
    DeliveryHeader {
        name: "webhook-id",
        description: "The id of the delivery. A delivery can arrive twice, with the same id.",
        example: "dlv_0193a7c2b8f07d3c9e41f2a6b5c8d7e0",
    },
    DeliveryHeader {
        name: "webhook-timestamp",
        description: "The time at which this attempt was sent, in seconds since 1970. Refuse \
            deliveries older than five minutes.",
        example: "1795356000",
    },
    DeliveryHeader {
        name: "webhook-signature",
        description: "`v1,` and the Base64 of the HMAC-SHA256 of `webhook-id`, `.`, \
            `webhook-timestamp`, `.` and the body, keyed with the secret. While a secret is \
            rotated there are several, separated by spaces.",
        example: "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=",
    },
];

/// The meaning of the status that a receiver returns.
const ANSWERS: [(&str, &str); 3] = [
    ("2XX", "The delivery is accepted."),
    ("410", "The webhook is disabled."),
    ("default", "The delivery is retried later, a limited number of times."),
];

/// Describes the request of a delivery.
pub(super) fn complete(document: &mut OpenApi, samples: &Samples) {
    let schemas = &mut document.components.get_or_insert_default().schemas;
    let mut parts = Vec::new();
    WebhookDelivery::schemas(&mut parts);
    schemas.extend(parts);
    let name = WebhookDelivery::name();
    schemas.insert(name.to_string(), WebhookDelivery::schema());
    let content = ContentBuilder::new()
        .schema(Some(Ref::from_schema_name(name.as_ref())))
        .example(samples.of(&name));
    let body = RequestBodyBuilder::new()
        .required(Some(Required::True))
        .content("application/json", content.build());
    let mut operation = OperationBuilder::new()
        .operation_id(Some("receive_delivery"))
        .tag("webhooks")
        .summary(Some("Notifies a webhook receiver about a run."))
        .parameters(Some(HEADERS.map(header)))
        .request_body(Some(body.build()));
    for (status, description) in ANSWERS {
        operation = operation.response(status, Response::new(description));
    }
    let item = PathItem::new(HttpMethod::Post, operation.build());
    let webhooks = document.webhooks.get_or_insert_with(Paths::new);
    webhooks.paths.insert("delivery".to_owned(), item);
}

fn header(DeliveryHeader { name, description, example }: DeliveryHeader) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Header)
        .required(Required::True)
        .description(Some(description))
        .schema(Some(Object::with_type(Type::String)))
        .example(Some(example.into()))
        .build()
}
