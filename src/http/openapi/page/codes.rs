//! The codes of problems.

use serde_json::Value;

use super::html::{code, inline, table};
use super::{list, said, within};

/// All codes, with the status of each and an example of what it says.
pub(super) fn section(document: &Value) -> String {
    let components = &document["components"];
    let codes = list(within(components, "/schemas/Problem/properties/code/enum"));
    let rows = codes.iter().filter_map(Value::as_str).map(|name| {
        let example = within(components, &format!("/examples/{name}/value"));
        vec![code(name), example["status"].to_string(), inline(said(example, "detail"))]
    });
    format!(
        "<section aria-labelledby=\"codes\">\n<h2 id=\"codes\">Codes of problems</h2>\n\
         <p>Every error is a problem document (RFC 9457) with one of these codes.</p>\n{}</section>\n",
        table(&["Code", "Status", "For example"], &rows.collect::<Vec<_>>()),
    )
}
