//! The codes of problem documents, with an example of each.

use std::collections::BTreeSet;

use http::StatusCode;
use serde_json::{Value, json};
use utoipa::openapi::example::ExampleBuilder;
use utoipa::openapi::{OpenApi, Ref, RefOr, Response, Schema};

use super::samples::{Problem, Samples};
use super::schemas::object;
use super::walk::{operations, own, own_responses};
use crate::http::auth::problem;

const INTERNAL: &str = "Internal";
const UNAVAILABLE: &str = "Unavailable";
/// The codes of `503` that every operation can return.
const ALWAYS: [&str; 3] = ["database_unavailable", "draining", "too_many_unknown_keys"];

/// Lists the codes in the schema of problems, adds an example wherever a response names a code, and
/// adds `500` and `503` to every operation of the API.
pub(super) fn complete(document: &mut OpenApi, samples: &Samples) {
    let components = document.components.get_or_insert_default();
    let codes: Vec<&str> = samples.problems.keys().map(String::as_str).collect();
    if let Some(problem) = object(&mut components.schemas, "Problem")
        && let Some(RefOr::T(Schema::Object(code))) = problem.properties.get_mut("code")
    {
        code.enum_values = Some(codes.iter().copied().map(Value::from).collect());
    }
    let failures = [
        ("500", INTERNAL, "`internal`: an internal error; the log of the service has the cause"),
        (
            "503",
            UNAVAILABLE,
            "`database_unavailable`: the database is unreachable; `draining`: the service is \
             stopping; `too_many_unknown_keys`: too many unknown keys are being looked up",
        ),
    ];
    for (_, name, description) in failures {
        components.responses.insert(name.to_owned(), problem(description).build().into());
    }
    let mut shown = BTreeSet::new();
    components.responses.values_mut().filter_map(own).for_each(|it| show(it, &codes, &mut shown));
    for operation in operations(document) {
        if operation.security.is_some() {
            let unavailable = own_responses(operation).find(|(status, _)| *status == "503");
            if let Some((_, response)) = unavailable {
                name_always(response);
            }
        }
        own_responses(operation).for_each(|(_, response)| show(response, &codes, &mut shown));
        if operation.security.is_some() {
            for (status, name, _) in failures {
                let response = RefOr::Ref(Ref::from_response_name(name));
                let responses = &mut operation.responses.responses;
                responses.entry(status.to_owned()).or_insert(response);
            }
        }
    }
    let examples = &mut document.components.get_or_insert_default().examples;
    for (code, problem) in samples.problems.iter().filter(|(code, _)| shown.contains(*code)) {
        let example = ExampleBuilder::new().value(Some(example(code, problem))).build();
        examples.insert(code.clone(), example.into());
    }
}

/// Adds the codes that the operation does not name itself.
fn name_always(response: &mut Response) {
    for code in ALWAYS.map(|code| format!("`{code}`")) {
        if !response.description.contains(&code) {
            response.description.push_str(", ");
            response.description.push_str(&code);
        }
    }
}

/// Refers to an example for each code that the description names, and records these codes.
fn show(response: &mut Response, codes: &[&str], shown: &mut BTreeSet<String>) {
    let Some(RefOr::T(content)) = response.content.get_mut("application/problem+json") else {
        return;
    };
    let words = response.description.split('`').skip(1).step_by(2);
    for code in words.filter(|word| codes.contains(word)) {
        let reference = Ref::new(format!("#/components/examples/{code}"));
        content.examples.insert(code.to_owned(), RefOr::Ref(reference));
        shown.insert(code.to_owned());
    }
}

fn example(code: &str, Problem { status, detail, members }: &Problem) -> Value {
    let title = StatusCode::from_u16(*status).ok().and_then(|status| status.canonical_reason());
    let mut problem = json!({
        "type": "about:blank",
        "title": title,
        "status": status,
        "detail": detail,
        "instance": "/v1/sessions",
        "code": code,
        "request_id": "req_0193a7c2b8f07d3c9e41f2a6b5c8d7e0",
    });
    if let Value::Object(all) = &mut problem {
        all.extend(members.clone());
    }
    problem
}
