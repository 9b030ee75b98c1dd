//! Strict tools: documentation of structured outputs, "Schema complexity limits" and "JSON Schema
//! limitations". The texts of the limits are not documented.

use serde_json::Value;

use super::output::grammar;
use super::{Checked, refuse};
use crate::models::Model;
use crate::request::ApiRequest;

/// Maximum number of strict tools of a request.
const MAX_STRICT: usize = 20;

/// Checks the strict tools of a request.
pub(super) fn check(request: ApiRequest<'_>, model: Model<'_>) -> Checked {
    let is_strict = |tool: &&Value| tool.get("strict") == Some(&Value::Bool(true));
    let strict: Vec<&Value> = request.tools().iter().filter(is_strict).collect();
    if strict.is_empty() {
        return Ok(());
    }
    if !model.takes_format() {
        return refuse("tools: strict tools are not supported for this model.");
    }
    if strict.len() > MAX_STRICT {
        return refuse(format!("tools: at most {MAX_STRICT} tools can be strict"));
    }
    for (at, tool) in request.tools().iter().enumerate().filter(|(_, tool)| is_strict(tool)) {
        if let Some(schema) = tool.get("input_schema") {
            grammar(&format!("tools.{at}.custom"), schema)?;
        }
    }
    Ok(())
}
