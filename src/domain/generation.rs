//! Parameters of the generation of replies: sampling, and members that clients add to requests.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::storable::storable_json;

/// Maximum size of `extra_body` in bytes.
const MAX_EXTRA: usize = 16 * 1024;
/// Maximum depth of `extra_body`: the number of nested objects and arrays.
const MAX_DEPTH: usize = 10;
/// Maximum temperature of any protocol.
const MAX_TEMPERATURE: f64 = 2.0;

/// The members of requests that the service sends itself or that change the protocol of the reply, in
/// the Messages API and in Chat Completions.
const RESERVED: [&str; 36] = [
    "cache_control",
    "compaction",
    "container",
    "context_management",
    "diagnostics",
    "function_call",
    "functions",
    "max_completion_tokens",
    "max_tokens",
    "mcp_servers",
    "messages",
    "metadata",
    "model",
    "n",
    "output_format",
    "parallel_tool_calls",
    "previous_response_id",
    "reasoning_effort",
    "response_format",
    "seed",
    "service_tier",
    "stop",
    "stop_sequences",
    "stream",
    "stream_options",
    "system",
    "temperature",
    "thinking",
    "thread",
    "tool_choice",
    "tools",
    "top_k",
    "top_p",
    "betas",
    "anthropic_beta",
    "anthropic_version",
];
/// The object that the service and a client may both fill, and the members of the service.
pub const SHARED: &str = "output_config";
const OF_SERVICE: [&str; 2] = ["effort", "format"];

/// A parameter that no model and no protocol accepts.
#[derive(Debug, PartialEq, Eq)]
pub struct InvalidParameter {
    /// The member, as a JSON pointer.
    pub pointer: String,
    /// The reason.
    pub reason: String,
}

/// The parameters of the generation of replies. Absent ones are not sent; the model's defaults apply.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Generation {
    /// The temperature of sampling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The probability mass of nucleus sampling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// The number of tokens that are sampled from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_k: Option<u32>,
    /// The seed of sampling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// Members to add to each request, an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra_body: Option<Box<RawValue>>,
}

impl Generation {
    /// Returns `true` if no parameter is set.
    pub fn is_unset(&self) -> bool {
        let Self { temperature, top_p, top_k, seed, extra_body } = self;
        temperature.is_none()
            && top_p.is_none()
            && top_k.is_none()
            && seed.is_none()
            && extra_body.is_none()
    }

    /// Returns these parameters, with absent ones taken from `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            temperature: self.temperature.or(other.temperature),
            top_p: self.top_p.or(other.top_p),
            top_k: self.top_k.or(other.top_k),
            seed: self.seed.or(other.seed),
            extra_body: self.extra_body.or(other.extra_body),
        }
    }

    /// Returns the members to add to a request; none if there are none or they cannot be parsed.
    pub fn extra(&self) -> Map<String, Value> {
        let extra = self.extra_body.as_deref().map(RawValue::get);
        extra.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// Returns the parameters that no model and no protocol accepts.
    pub fn problems(&self) -> Vec<InvalidParameter> {
        let mut found = Vec::new();
        let mut refuse = |is_wrong: bool, pointer: &'static str, reason: &str| {
            if is_wrong {
                found.push(InvalidParameter {
                    pointer: pointer.to_owned(),
                    reason: reason.to_owned(),
                });
            }
        };
        let is_hot = |value: f64| !(0.0..=MAX_TEMPERATURE).contains(&value);
        refuse(self.temperature.is_some_and(is_hot), "/temperature", "is not 0 to 2");
        let is_share = |value: f64| value > 0.0 && value <= 1.0;
        refuse(
            self.top_p.is_some_and(|value| !is_share(value)),
            "/top_p",
            "is not more than 0 and at most 1",
        );
        refuse(self.top_k == Some(0), "/top_k", "is less than 1");
        found.extend(self.extra_body.as_deref().and_then(extra_problem));
        found
    }
}

/// The reason why `extra_body` cannot be added to requests.
fn extra_problem(extra: &RawValue) -> Option<InvalidParameter> {
    let refused = |pointer: String, reason: String| Some(InvalidParameter { pointer, reason });
    let whole = || "/extra_body".to_owned();
    if extra.get().len() > MAX_EXTRA {
        return refused(whole(), format!("is larger than {MAX_EXTRA} bytes"));
    }
    let Ok(members) = serde_json::from_str::<Map<String, Value>>(extra.get()) else {
        return refused(whole(), "is not an object that can be read".to_owned());
    };
    if depth(extra.get()) > MAX_DEPTH {
        return refused(whole(), format!("is nested more deeply than {MAX_DEPTH} levels"));
    }
    if matches!(storable_json(extra.get()), Cow::Owned(_)) {
        return refused(whole(), "has a NUL character or a lone surrogate".to_owned());
    }
    let reserved = "is set by the service and cannot be overridden";
    if let Some(name) = members.keys().find(|name| RESERVED.contains(&name.as_str())) {
        return refused(format!("/extra_body/{name}"), reserved.to_owned());
    }
    match members.get(SHARED) {
        None => None,
        Some(Value::Object(shared)) => {
            let name = shared.keys().find(|name| OF_SERVICE.contains(&name.as_str()))?;
            refused(format!("/extra_body/{SHARED}/{name}"), reserved.to_owned())
        }
        Some(_) => refused(format!("/extra_body/{SHARED}"), "is not an object".to_owned()),
    }
}

/// The number of nested objects and arrays of valid JSON.
fn depth(json: &str) -> usize {
    let (mut depth, mut most, mut is_text, mut is_escaped) = (0_usize, 0, false, false);
    for byte in json.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_text,
            b'"' => is_text = !is_text,
            b'[' | b'{' if !is_text => {
                depth += 1;
                most = most.max(depth);
            }
            b']' | b'}' if !is_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(extra: &str) -> Option<(String, String)> {
        let extra_body = Some(RawValue::from_string(extra.to_owned()).unwrap());
        let generation = Generation { extra_body, ..Generation::default() };
        let found = generation.problems().into_iter().next();
        found.map(|found| (found.pointer, found.reason))
    }

    #[test]
    fn members_of_the_service_and_unbounded_objects_are_refused() {
        for (extra, pointer) in [
            (r#"{"speed":"fast","output_config":{"task_budget":{"total":1}}}"#, None),
            (r#"{"speed":"fast","messages":[]}"#, Some("/extra_body/messages")),
            (r#"{"output_config":{"effort":"low"}}"#, Some("/extra_body/output_config/effort")),
            (r#"{"output_config":1}"#, Some("/extra_body/output_config")),
            (r#"{"a":"\u0000"}"#, Some("/extra_body")),
            ("[]", Some("/extra_body")),
            (r#"{"a":[[[[[[[[[[1]]]]]]]]]]}"#, Some("/extra_body")),
            (r#"{"a":[[[[[[[[["[[[["]]]]]]]]]}"#, None),
        ] {
            let found = problem(extra).map(|(pointer, _)| pointer);
            assert_eq!(found.as_deref(), pointer, "{extra}");
        }
        let large = format!(r#"{{"a":"{}"}}"#, "x".repeat(MAX_EXTRA));
        assert!(problem(&large).unwrap().1.starts_with("is larger"));
    }
}
