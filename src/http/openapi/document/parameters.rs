//! Parameters that many operations share.

use serde_json::Value;
use utoipa::Number;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::ArrayItems;
use utoipa::openapi::{Object, OpenApi, Ref, RefOr, Required, Schema, Type};

use super::nulls::one_type;
use super::walk::{operations, own};
use crate::domain::event::EventBody;
use crate::domain::ids::{DeliveryId, RunId, SessionId, WebhookId};
use crate::http::routes::{DEFAULT_LIMIT, MAX_LIMIT};

/// Ids in paths, and their prefixes.
const IDS: [(&str, &str); 4] = [
    ("session_id", SessionId::PREFIX),
    ("run_id", RunId::PREFIX),
    ("webhook_id", WebhookId::PREFIX),
    ("delivery_id", DeliveryId::PREFIX),
];

/// A header of every request.
struct RequestHeader {
    component: &'static str,
    name: &'static str,
    description: &'static str,
    example: &'static str,
}

const HEADERS: [RequestHeader; 2] = [
    RequestHeader {
        component: "RequestId",
        name: "X-Request-Id",
        description: "The id of the request in responses and logs: 1 to 128 letters, digits, `_`, \
            `.` or `-`. Otherwise the service generates one.",
        example: "checkout-42",
    },
    RequestHeader {
        component: "TraceParent",
        name: "traceparent",
        description: "The trace of the request (W3C Trace Context). Without a well-formed one the \
            service begins a trace.",
        example: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    },
];

/// The parameter of requests that can be answered with 304. The operations refer to it.
const CONDITION: &str = "The `ETag` of an earlier response: 304 if the content is still the same.";

pub(super) fn complete(document: &mut OpenApi) {
    let components = document.components.get_or_insert_default();
    for RequestHeader { component, name, description, example } in HEADERS {
        let parameter = ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Header)
            .required(Required::False)
            .description(Some(description))
            .schema(Some(Object::with_type(Type::String)))
            .example(Some(Value::from(example)));
        components.parameters.insert(component.to_owned(), parameter.build().into());
    }
    let condition = ParameterBuilder::new()
        .name("If-None-Match")
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(CONDITION))
        .schema(Some(Object::with_type(Type::String)))
        .example(Some(Value::from("\"0b5c8d7e00193a7c2b8f07d3c9e41f2a\"")));
    components.parameters.insert("IfNoneMatch".to_owned(), condition.build().into());
    for operation in operations(document) {
        // This protocol counts a larger limit as the maximum.
        let is_clamped = operation.tags.iter().flatten().any(|tag| tag == "managed_agents");
        let parameters = operation.parameters.get_or_insert_default();
        for parameter in parameters.iter_mut().filter_map(own) {
            describe(parameter, is_clamped);
        }
        let shared = HEADERS.map(|RequestHeader { component, .. }| {
            Ref::new(format!("#/components/parameters/{component}"))
        });
        parameters.extend(shared.map(RefOr::Ref));
    }
}

fn describe(parameter: &mut Parameter, is_clamped: bool) {
    if let Some(RefOr::T(Schema::Array(list))) = &mut parameter.schema {
        one_type(&mut list.schema_type);
        if parameter.name == "types" {
            let kinds = Object::builder()
                .schema_type(Type::String)
                .enum_values(Some(EventBody::KINDS.map(Value::from)));
            list.items = ArrayItems::RefOrSchema(Box::new(Schema::Object(kinds.build()).into()));
        }
        return;
    }
    let Some(RefOr::T(Schema::Object(schema))) = &mut parameter.schema else { return };
    // A parameter is present or absent, never null.
    one_type(&mut schema.schema_type);
    match (&parameter.parameter_in, parameter.name.as_str()) {
        (ParameterIn::Path, name) => identify(schema, name),
        (ParameterIn::Query, "limit") => {
            schema.minimum = Some(Number::Int(1));
            let maximum = isize::try_from(MAX_LIMIT).ok().filter(|_| !is_clamped);
            schema.maximum = maximum.map(Number::Int);
            schema.default = Some(Value::from(DEFAULT_LIMIT));
        }
        (ParameterIn::Header, "Idempotency-Key") => {
            (schema.min_length, schema.max_length) = (Some(1), Some(255));
            schema.pattern = Some("^[ -~]+$".to_owned());
        }
        _ => {}
    }
}

fn identify(schema: &mut Object, name: &str) {
    if name == "name" {
        schema.pattern = Some("^[a-z0-9][a-z0-9_-]{0,63}$".to_owned());
        schema.examples = vec![Value::from("coder")];
        return;
    }
    let prefix = IDS.iter().find(|(of, _)| *of == name).map(|(_, prefix)| prefix);
    let Some(prefix) = prefix else { return };
    schema.pattern = Some(format!("^{prefix}_[0-9a-f]{{32}}$"));
    schema.examples = vec![Value::from(format!("{prefix}_0193a7c2b8f07d3c9e41f2a6b5c8d7e0"))];
}
