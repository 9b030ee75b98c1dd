//! The API as a page for people, made of the OpenAPI document: what a program may read there, a
//! browser shows, without a script and without anything from elsewhere.

mod codes;
mod html;
mod operations;
mod schemas;
mod shared;

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::http::openapi::document;
use html::{inline, paragraphs, text};

/// The page, which is the same as long as the program runs.
#[derive(Debug)]
pub(in crate::http) struct Page {
    pub(in crate::http) html: String,
    /// What a browser is to keep it from: all but its own style, known by its hash.
    pub(in crate::http) policy: String,
}

const STYLE: &str = include_str!("style.css");

/// The page.
pub(in crate::http) fn page() -> &'static Page {
    static PAGE: LazyLock<Page> = LazyLock::new(|| {
        let document = serde_json::to_value(document()).unwrap_or_default();
        let hash = STANDARD.encode(Sha256::digest(STYLE));
        let policy = format!(
            "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'"
        );
        Page { html: render(&document), policy }
    });
    &PAGE
}

fn render(document: &Value) -> String {
    let info = &document["info"];
    let (title, version) = (text(said(info, "title")), text(said(info, "version")));
    let groups: Vec<Group<'_>> =
        list(&document["tags"]).iter().map(|tag| Group::of(document, tag)).collect();
    let contents: String = groups.iter().map(Group::contents).collect();
    let body: String = groups.iter().map(|group| group.section(document)).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title} API</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#content\">Skip to the content</a>\n\
         <header>\n<h1>{title} {version}</h1>\n{}\
         <p>This page is made of <a href=\"openapi.json\">the OpenAPI document</a>.</p>\n</header>\n\
         <nav aria-label=\"Contents\">\n{contents}<ul>\n\
         <li><a href=\"#shared\">All requests</a></li>\n\
         <li><a href=\"#codes\">Codes of problems</a></li>\n\
         <li><a href=\"#schemas\">Schemas</a></li>\n</ul>\n</nav>\n\
         <main id=\"content\">\n{body}{}{}{}</main>\n</body>\n</html>\n",
        paragraphs(said(info, "description")),
        shared::section(document),
        codes::section(document),
        schemas::section(document),
    )
}

/// The operations under one tag.
struct Group<'a> {
    name: &'a str,
    description: &'a str,
    operations: Vec<operations::Operation<'a>>,
}

impl<'a> Group<'a> {
    fn of(document: &'a Value, tag: &'a Value) -> Self {
        let name = said(tag, "name");
        let operations =
            operations::all(document).filter(|operation| operation.tag() == name).collect();
        Self { name, description: said(tag, "description"), operations }
    }

    fn contents(&self) -> String {
        let links: String = self.operations.iter().map(operations::Operation::link).collect();
        format!("<h2>{}</h2>\n<ul>\n{links}</ul>\n", text(self.name))
    }

    fn section(&self, document: &Value) -> String {
        let all: String = self.operations.iter().map(|it| it.article(document)).collect();
        let name = text(self.name);
        format!(
            "<section aria-labelledby=\"tag-{name}\">\n<h2 id=\"tag-{name}\">{name}</h2>\n\
             <p>{}</p>\n{all}</section>\n",
            inline(self.description),
        )
    }
}

/// A member that is a text; an empty one where there is none.
fn said<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or_default()
}

/// What stands at a JSON pointer; null where nothing does.
fn within<'a>(value: &'a Value, pointer: &str) -> &'a Value {
    value.pointer(pointer).unwrap_or(&Value::Null)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

/// What is described here, or where it is referred to.
fn resolve<'a>(document: &'a Value, described: &'a Value) -> &'a Value {
    let target = described["$ref"].as_str().and_then(|path| path.strip_prefix('#'));
    target.and_then(|path| document.pointer(path)).unwrap_or(described)
}
