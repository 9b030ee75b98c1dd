//! What holds for all requests, and is not said of each.

use serde_json::Value;

use super::html::{code, inline, table};
use super::operations::{all, answer, parameter};
use super::{members, said};

/// The parameters, answers and headers that are described once.
pub(super) fn section(document: &Value) -> String {
    let components = &document["components"];
    let parameters = members(&components["parameters"]).map(|(_, it)| parameter(it));
    let answers = members(&components["responses"])
        .map(|(name, it)| answer(status_of(document, name).unwrap_or(name), it));
    let headers = members(&components["headers"]).map(|(name, it)| {
        let name = code(header_of(document, name).unwrap_or(name));
        vec![name, inline(said(it, "description"))]
    });
    format!(
        "<section aria-labelledby=\"shared\">\n<h2 id=\"shared\">All requests</h2>\n\
         <h3>Parameters</h3>\n{}<h3>Answers</h3>\n{}<h3>Headers of answers</h3>\n{}</section>\n",
        table(&["Name", "Where", "Type", "What it is"], &parameters.collect::<Vec<_>>()),
        table(&["Status", "What it means", "Body", "Headers"], &answers.collect::<Vec<_>>()),
        table(&["Name", "What it is"], &headers.collect::<Vec<_>>()),
    )
}

/// The status for which operations refer to a shared answer.
fn status_of<'a>(document: &'a Value, name: &str) -> Option<&'a str> {
    all(document).find_map(|operation| referring(&operation.described["responses"], name))
}

/// The header for which answers refer to a shared description.
fn header_of<'a>(document: &'a Value, name: &str) -> Option<&'a str> {
    let mut answers = all(document).flat_map(|it| members(&it.described["responses"]));
    answers.find_map(|(_, answer)| referring(&answer["headers"], name))
}

/// The member that refers to a component of this name.
fn referring<'a>(places: &'a Value, name: &str) -> Option<&'a str> {
    let is_it = |it: &Value| said(it, "$ref").rsplit('/').next() == Some(name);
    members(places).find(|(_, it)| is_it(it)).map(|(member, _)| member.as_str())
}
