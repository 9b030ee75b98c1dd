//! The fields of the body: required, known, in range, and allowed by model and version.

use serde_json::Value;

use super::{Checked, Endpoint, Rules, refuse};
use crate::betas;
use crate::headers::Version;
use crate::models::Model;
use crate::request::{ApiRequest, ToolChoice};

/// Maximum number of messages in one request.
const MAX_MESSAGES: usize = 100_000;

const COUNTED: [&str; 10] = [
    "model",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "thinking",
    "output_config",
    "cache_control",
    "speed",
    "inference_geo",
];

const SENT: [&str; 12] = [
    "max_tokens",
    "stream",
    "stop_sequences",
    "metadata",
    "service_tier",
    "container",
    "diagnostics",
    "output_format",
    "temperature",
    "top_p",
    "top_k",
    "user_profile_id",
];

/// The beta features with tools of MCP servers.
pub(super) const MCP: [&str; 2] = ["mcp-client-2025-11-20", "mcp-client-2026-09-15"];

/// The fields that need a beta feature. `compaction` has rules of its own.
const BETA: [(&str, &[&str]); 7] = [
    ("compaction", &[betas::ON_REQUEST]),
    ("context_management", &[betas::EDITING, betas::AUTOMATIC]),
    ("thread", &["message-threads-2026-08-12"]),
    ("mcp_servers", &MCP),
    ("fallbacks", &["server-side-fallback-2026-07-01"]),
    ("billing_policy", &["server-side-fallback-2026-07-01", "fallback-credit-2026-07-01"]),
    ("fallback_credit_token", &["fallback-credit-2026-07-01"]),
];

/// The required fields, and the types of the common ones.
pub(super) fn required(request: ApiRequest<'_>, rules: &Rules) -> Checked {
    typed(request, "model", true, "string", Value::is_string)?;
    typed(request, "messages", true, "list", Value::is_array)?;
    let sends = rules.endpoint == Endpoint::Messages;
    typed(request, "max_tokens", sends, "integer", Value::is_u64)?;
    typed(request, "stream", false, "boolean", Value::is_boolean)?;
    typed(request, "tools", false, "list", Value::is_array)?;
    typed(request, "stop_sequences", false, "list", Value::is_array)?;
    typed(request, "tool_choice", false, "dictionary", Value::is_object)?;
    typed(request, "thinking", false, "dictionary", Value::is_object)?;
    typed(request, "metadata", false, "dictionary", Value::is_object)?;
    typed(request, "output_config", false, "dictionary", Value::is_object)?;
    system(request)?;
    match request.messages().len() {
        0 => refuse("messages: at least one message is required"),
        count if count > MAX_MESSAGES => {
            refuse(format!("messages: List should have at most {MAX_MESSAGES} items, not {count}"))
        }
        _ => Ok(()),
    }
}

fn typed(
    request: ApiRequest<'_>,
    field: &str,
    required: bool,
    kind: &str,
    fits: fn(&Value) -> bool,
) -> Checked {
    match request.get(field) {
        None if required => refuse(format!("{field}: Field required")),
        Some(value) if !fits(value) => refuse(format!("{field}: Input should be a valid {kind}")),
        _ => Ok(()),
    }
}

/// The system prompt: a string, or text blocks that are not empty.
fn system(request: ApiRequest<'_>) -> Checked {
    let parts = match request.get("system") {
        None | Some(Value::String(_)) => return Ok(()),
        Some(Value::Array(parts)) => parts,
        Some(_) => return refuse("system: Input should be a valid list"),
    };
    for (at, part) in parts.iter().enumerate() {
        if part.get("type").is_none_or(|kind| kind != "text") {
            return refuse(format!("system.{at}.type: Input should be 'text'"));
        }
        match part.get("text").and_then(Value::as_str) {
            None => return refuse(format!("system.{at}.text: Field required")),
            Some("") if part.get("cache_control").is_some() => {
                return refuse(format!(
                    "system.{at}: cache_control cannot be set for empty text blocks"
                ));
            }
            Some("") => return refuse("system: text content blocks must be non-empty"),
            Some(_) => {}
        }
    }
    Ok(())
}

/// Refuses unknown fields, and beta fields without their feature.
pub(super) fn known(request: ApiRequest<'_>, rules: &Rules) -> Checked {
    let sends = rules.endpoint == Endpoint::Messages;
    let has =
        |(beta, names): &(&str, &[&str]), field: &str| *beta == field && rules.betas.any(names);
    let knows = |field: &str| {
        COUNTED.contains(&field)
            || (sends && SENT.contains(&field))
            || BETA.iter().any(|beta| has(beta, field))
    };
    match request.0.keys().find(|field| !knows(field)) {
        Some(field) => refuse(format!("{field}: Extra inputs are not permitted")),
        None => Ok(()),
    }
}

/// The range of `max_tokens`. Zero asks for no reply, so settings for the reply are refused.
pub(super) fn max_tokens(request: ApiRequest<'_>, model: Model<'_>) -> Checked {
    let Some(asked) = request.get("max_tokens").and_then(Value::as_u64) else {
        return Ok(());
    };
    let most = model.most_output();
    if asked > most {
        return refuse(format!(
            "max_tokens: {asked} > {most}, which is the maximum allowed number of output tokens \
             for {}",
            model.name
        ));
    }
    let forced = matches!(request.choice(), ToolChoice::Any | ToolChoice::Tool(_));
    let formatted =
        request.get("output_config").is_some_and(|config| config.get("format").is_some());
    let shaped = request.streams() || forced || formatted || request.thinking() == Some("enabled");
    if asked == 0 && shaped {
        return refuse("max_tokens: Input should be greater than or equal to 1");
    }
    Ok(())
}

/// `temperature`, `top_p` and `top_k`: removed in the newer version, refused by newer models.
pub(super) fn sampling(request: ApiRequest<'_>, model: Model<'_>, rules: &Rules) -> Checked {
    for field in ["temperature", "top_p", "top_k"] {
        let Some(value) = request.get(field) else {
            continue;
        };
        if rules.version == Version::Y2026 {
            return refuse(format!("{field}: Extra inputs are not permitted"));
        }
        let Some(number) = value.as_f64() else {
            return refuse(format!("{field}: Input should be a valid number"));
        };
        let default = field != "top_k" && number.to_bits() == 1f64.to_bits();
        if !model.takes_sampling() && !default {
            return refuse(format!("`{field}` is deprecated for this model."));
        }
        if field == "temperature" && !(0.0..=1.0).contains(&number) {
            return refuse("temperature: range: 0..1");
        }
    }
    if request.get("temperature").is_some()
        && request.get("top_p").is_some()
        && !model.takes_temperature_with_top_p()
    {
        return refuse(
            "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
        );
    }
    sampling_with_thinking(request)
}

/// The limits of sampling with thinking. Source: the page of the API on extended thinking, and the
/// texts of its errors in public issues.
fn sampling_with_thinking(request: ApiRequest<'_>) -> Checked {
    if !matches!(request.thinking(), Some("enabled" | "adaptive")) {
        return Ok(());
    }
    let number = |field| request.get(field).and_then(Value::as_f64);
    if number("temperature").is_some_and(|value| value.to_bits() != 1f64.to_bits()) {
        return refuse(
            "`temperature` may only be set to 1 when thinking is enabled or in adaptive mode.",
        );
    }
    if number("top_p").is_some_and(|value| value < 0.95) {
        return refuse(
            "`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled.",
        );
    }
    if request.get("top_k").is_some() {
        return refuse("`top_k` must be unset when thinking is enabled.");
    }
    Ok(())
}
