//! What can be asked of the service, and what a webhook is asked.

use serde_json::Value;

use super::html::{code, example, inline, paragraphs, table, text};
use super::schemas::brief;
use super::{list, members, resolve, said};

/// A method of a path.
pub(super) struct Operation<'a> {
    method: String,
    path: &'a str,
    pub(super) described: &'a Value,
}

/// All operations, in the order of their paths, and after them what the service asks of others.
pub(super) fn all(document: &Value) -> impl Iterator<Item = Operation<'_>> {
    let places = members(&document["paths"]).chain(members(&document["webhooks"]));
    places.flat_map(|(path, methods)| {
        members(methods).map(move |(method, described)| Operation {
            method: method.to_ascii_uppercase(),
            path,
            described,
        })
    })
}

impl Operation<'_> {
    pub(super) fn tag(&self) -> &str {
        list(&self.described["tags"]).first().and_then(Value::as_str).unwrap_or_default()
    }

    fn id(&self) -> &str {
        said(self.described, "operationId")
    }

    /// A line of the contents.
    pub(super) fn link(&self) -> String {
        let Self { method, path, .. } = self;
        format!("<li><a href=\"#{}\">{method} {}</a></li>\n", text(self.id()), text(path))
    }

    pub(super) fn article(&self, document: &Value) -> String {
        let id = text(self.id());
        format!(
            "<article aria-labelledby=\"{id}\">\n<h3 id=\"{id}\">{} {}</h3>\n{}{}{}{}{}</article>\n",
            self.method,
            code(self.path),
            paragraphs(said(self.described, "summary")),
            paragraphs(said(self.described, "description")),
            self.parameters(),
            self.body(document),
            self.answers(document),
        )
    }

    fn parameters(&self) -> String {
        let own = list(&self.described["parameters"]).iter().filter(|it| is_own(it));
        let rows: Vec<Vec<String>> = own.map(parameter).collect();
        let heading = if rows.is_empty() { "" } else { "<h4>Parameters</h4>\n" };
        format!("{heading}{}", table(&["Name", "Where", "Type", "What it is"], &rows))
    }

    fn body(&self, document: &Value) -> String {
        let body = &self.described["requestBody"];
        if body.is_null() {
            return String::new();
        }
        let optional = if body["required"] == true { "" } else { ", which may be left out" };
        format!(
            "<h4>Body{optional}</h4>\n<p>{}</p>\n{}",
            kinds(&body["content"]),
            examples(document, &body["content"]),
        )
    }

    fn answers(&self, document: &Value) -> String {
        let (own, shared): (Vec<_>, Vec<_>) =
            members(&self.described["responses"]).partition(|(_, it)| is_own(it));
        let rows: Vec<Vec<String>> = own.iter().map(|(status, it)| answer(status, it)).collect();
        let shown: String = own.iter().map(|(_, it)| examples(document, &it["content"])).collect();
        let shared: Vec<&str> = shared.iter().map(|(status, _)| status.as_str()).collect();
        let shared = if shared.is_empty() {
            String::new()
        } else {
            let statuses = shared.join(", ");
            format!("<p>And {statuses}, as <a href=\"#shared\">all requests</a>.</p>\n")
        };
        format!(
            "<h4>Answers</h4>\n{}{shared}{shown}",
            table(&["Status", "What it means", "Body", "Headers"], &rows)
        )
    }
}

/// Whether something is described here, and not once for all.
fn is_own(described: &Value) -> bool {
    described["$ref"].is_null()
}

pub(super) fn parameter(parameter: &Value) -> Vec<String> {
    let required = if parameter["required"] == true { ", required" } else { "" };
    vec![
        code(said(parameter, "name")),
        format!("{}{required}", text(said(parameter, "in"))),
        brief(&parameter["schema"]),
        inline(said(parameter, "description")),
    ]
}

pub(super) fn answer(status: &str, response: &Value) -> Vec<String> {
    let own = members(&response["headers"]).filter(|(_, it)| is_own(it));
    let headers: Vec<String> = own.map(|(name, _)| code(name)).collect();
    vec![
        text(status),
        inline(said(response, "description")),
        kinds(&response["content"]),
        headers.join(", "),
    ]
}

/// The media types of a body, and what it is in each.
fn kinds(content: &Value) -> String {
    let kind = |(media_type, it): (&String, &Value)| {
        format!("{}: {}", code(media_type), brief(&it["schema"]))
    };
    members(content).map(kind).collect::<Vec<_>>().join("<br>")
}

/// Examples of a body. Those of problems stand by their codes.
fn examples(document: &Value, content: &Value) -> String {
    let bodies = members(content).filter(|(kind, _)| *kind != "application/problem+json");
    let shown = bodies.filter_map(|(media_type, content)| {
        let named = members(&content["examples"]).next();
        let named = named.map(|(_, it)| &resolve(document, it)["value"]);
        Some(example(media_type, named.or_else(|| content.get("example"))?))
    });
    shown.collect()
}
