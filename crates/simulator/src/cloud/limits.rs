//! The features of the Messages API that the clouds lack.
//!
//! Source: the overview of features and the pages of the clouds in Anthropic's documentation: server
//! tools run on the own API only, except for web search on Google Cloud; media by URL are not fetched;
//! an image has at most 5 MB; the page on prompt caching: automatic caching is not available.

use serde_json::{Map, Value};

use crate::refusal::Refusal;
use crate::request::ApiRequest;

/// The length of an image in base64.
const MAX_IMAGE: usize = 5 * 1024 * 1024;
/// The beginnings of the types of server tools.
const SERVER_TOOLS: [&str; 3] = ["web_search_", "web_fetch_", "code_execution_"];

/// Refuses a request with a feature that a cloud lacks. `runs` is true for the server tools that it has.
pub(super) fn check_features(
    fields: &Map<String, Value>,
    runs: fn(&str) -> bool,
) -> Result<(), Refusal> {
    let request = ApiRequest(fields);
    if request.get("cache_control").is_some() {
        return Err(Refusal::invalid("cache_control: Extra inputs are not permitted"));
    }
    for (index, tool) in request.tools().iter().enumerate() {
        let kind = tool["type"].as_str().unwrap_or_default();
        if SERVER_TOOLS.iter().any(|name| kind.starts_with(name)) && !runs(kind) {
            return Err(Refusal::invalid(format!(
                "tools.{index}: Input tag '{kind}' found using 'type' does not match any of the \
                 expected tags"
            )));
        }
    }
    for (at, message) in request.messages().iter().enumerate() {
        if let Some(content) = message.get("content") {
            check_media(content, &format!("messages.{at}.content"))?;
        }
    }
    Ok(())
}

/// Checks the media of a content, also those inside results of tools and documents.
fn check_media(content: &Value, at: &str) -> Result<(), Refusal> {
    for (index, block) in content.as_array().into_iter().flatten().enumerate() {
        let kind = block["type"].as_str().unwrap_or_default();
        let path = format!("{at}.{index}.{kind}");
        check_media(&block["content"], &format!("{path}.content"))?;
        let source = &block["source"];
        check_media(&source["content"], &format!("{path}.source.content"))?;
        if source["type"] == "url" {
            return Err(Refusal::invalid(format!("{path}.source: URL sources are not supported")));
        }
        let length = source["data"].as_str().map_or(0, str::len);
        if kind == "image" && length > MAX_IMAGE {
            return Err(Refusal::invalid(format!(
                "{path}.source.base64: image exceeds 5 MB maximum: {length} bytes > {MAX_IMAGE} bytes"
            )));
        }
    }
    Ok(())
}
