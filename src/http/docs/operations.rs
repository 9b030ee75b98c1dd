//! What can be asked of the service, and what a webhook is asked.

use serde_json::Value;

use super::html::{code, example, inline, paragraphs, table, text};
use super::schemas::brief;
use super::{list, members, resolve, said};

/// A method of a path.
pub(super) struct Operation<'a> {
    method: String,
    path: &'a str,
    described: &'a Value,
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
        self.described["tags"][0].as_str().unwrap_or_default()
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
            self.parameters(document),
            self.body(document),
            self.answers(document),
        )
    }

    fn parameters(&self, document: &Value) -> String {
        let all = list(&self.described["parameters"]).iter();
        let rows: Vec<Vec<String>> = all.map(|it| parameter(resolve(document, it))).collect();
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
        let all = || members(&self.described["responses"]);
        let rows: Vec<Vec<String>> =
            all().map(|(status, it)| answer(status, resolve(document, it))).collect();
        let shown: String =
            all().map(|(_, it)| examples(document, &resolve(document, it)["content"])).collect();
        format!(
            "<h4>Answers</h4>\n{}{shown}",
            table(&["Status", "What it means", "Body", "Headers"], &rows)
        )
    }
}

fn parameter(parameter: &Value) -> Vec<String> {
    let required = if parameter["required"] == true { ", required" } else { "" };
    vec![
        code(said(parameter, "name")),
        format!("{}{required}", text(said(parameter, "in"))),
        brief(&parameter["schema"]),
        inline(said(parameter, "description")),
    ]
}

fn answer(status: &str, response: &Value) -> Vec<String> {
    let headers: Vec<String> = members(&response["headers"]).map(|(name, _)| code(name)).collect();
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
