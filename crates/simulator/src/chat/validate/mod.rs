//! The rules of Chat Completions: the simulator refuses what the original API refuses, with the
//! same messages.

mod messages;
mod options;
mod pairing;
mod tools;

use serde_json::{Map, Value};

use crate::Options;
use crate::refusal::Refusal;

/// The outcome of a rule. The first broken rule is the response.
type Checked = Result<(), Refusal>;

const KNOWN: [&str; 28] = [
    "model",
    "messages",
    "max_tokens",
    "max_completion_tokens",
    "stream",
    "stream_options",
    "stop",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "response_format",
    "reasoning_effort",
    "verbosity",
    "temperature",
    "top_p",
    "n",
    "seed",
    "user",
    "metadata",
    "store",
    "service_tier",
    "frequency_penalty",
    "presence_penalty",
    "logit_bias",
    "logprobs",
    "top_logprobs",
    "safety_identifier",
    "prompt_cache_key",
];

/// Maximum number of stop sequences.
const MAX_STOPS: usize = 4;

/// Checks a whole request, except for its length.
pub(super) fn check(request: &Map<String, Value>, rules: &Options) -> Checked {
    let name = model(request, rules)?;
    budget(request, name)?;
    stops(request)?;
    streaming(request)?;
    options::check(request)?;
    tools::check(request)?;
    messages::check(request, rules.refuse_unknown_fields)?;
    pairing::check(request)
}

/// Checks the names of the members and the model, and returns the name of the model.
fn model<'a>(request: &'a Map<String, Value>, rules: &Options) -> Result<&'a str, Refusal> {
    let Some(name) = request.get("model").and_then(Value::as_str) else {
        return Err(Refusal::invalid("you must provide a model parameter"));
    };
    if rules.refuse_unknown_fields
        && let Some(field) = request.keys().find(|field| !KNOWN.contains(&field.as_str()))
    {
        return Err(Refusal::invalid(format!("Unknown parameter: '{field}'.")));
    }
    if !["simulator", "gpt-", "o"].iter().any(|start| name.starts_with(start)) {
        return Err(Refusal::not_found(format!(
            "The model `{name}` does not exist or you do not have access to it."
        )));
    }
    Ok(name)
}

/// Checks the members that Chat Completions and Responses share, in the form of the former.
pub(super) fn shared(request: &Map<String, Value>, rules: &Options) -> Checked {
    model(request, rules)?;
    streaming(request)?;
    options::check(request)?;
    tools::check(request)
}

/// Returns true for a model that sends its reasoning as `reasoning_content` and accepts it in requests, as
/// many compatible servers do. Those of the original API do neither.
pub(super) fn returns_reasoning(model: &str) -> bool {
    model.starts_with("simulator")
}

/// Checks the output budget. Newer models accept only `max_completion_tokens`.
fn budget(request: &Map<String, Value>, model: &str) -> Checked {
    let is_new = ["gpt-5", "o"].iter().any(|start| model.starts_with(start));
    if request.contains_key("max_tokens") && is_new {
        return refuse(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use \
             'max_completion_tokens' instead.",
        );
    }
    if request.contains_key("max_tokens") && request.contains_key("max_completion_tokens") {
        return refuse(
            "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
        );
    }
    for field in ["max_tokens", "max_completion_tokens"] {
        match request.get(field).map(Value::as_u64) {
            Some(None) => {
                return refuse(format!("Invalid type for '{field}': expected an integer."));
            }
            Some(Some(0)) => {
                return refuse(format!(
                    "Invalid '{field}': integer below minimum value. Expected a value >= 1, but \
                     got 0 instead."
                ));
            }
            None | Some(Some(_)) => {}
        }
    }
    Ok(())
}

fn streaming(request: &Map<String, Value>) -> Checked {
    let streams = match request.get("stream") {
        None => false,
        Some(Value::Bool(streams)) => *streams,
        Some(_) => return refuse("Invalid type for 'stream': expected a boolean."),
    };
    if request.contains_key("stream_options") && !streams {
        return refuse("The 'stream_options' parameter is only allowed when 'stream' is enabled.");
    }
    Ok(())
}

fn stops(request: &Map<String, Value>) -> Checked {
    match request.get("stop") {
        None | Some(Value::Null | Value::String(_)) => Ok(()),
        Some(Value::Array(stops)) if stops.len() > MAX_STOPS => refuse(format!(
            "Invalid 'stop': array too long. Expected an array with maximum length {MAX_STOPS}, \
             but got an array with length {} instead.",
            stops.len()
        )),
        Some(Value::Array(stops)) if stops.iter().all(Value::is_string) => Ok(()),
        Some(_) => {
            refuse("Invalid type for 'stop': expected one of an array of strings or a string.")
        }
    }
}

/// Checks that a prompt of `tokens` tokens, together with the output budget, fits into the context window:
/// OpenAI and vLLM refuse a request whose reply could exceed it.
pub(super) fn window(options: &Options, request: &Map<String, Value>, tokens: usize) -> Checked {
    let most = options.max_input_tokens;
    let budget = request.get("max_completion_tokens").or_else(|| request.get("max_tokens"));
    let completion = budget.and_then(Value::as_u64).unwrap_or(0);
    let messages = u64::try_from(tokens).unwrap_or(u64::MAX);
    let all = messages.saturating_add(completion);
    if all > most {
        return refuse(format!(
            "This model's maximum context length is {most} tokens. However, you requested {all} tokens \
             ({messages} in the messages, {completion} in the completion). Please reduce the length of \
             the messages or completion."
        ));
    }
    Ok(())
}

fn refuse(message: impl Into<String>) -> Checked {
    Err(Refusal::invalid(message))
}
