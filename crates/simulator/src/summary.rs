//! Summaries: on request, and automatic.

use serde_json::{Map, Value, json};

use super::Shared;
use super::cache::Input;
use super::context::View;
use super::ids;
use super::message::{Message, Part};
use super::models::COMPACT;
use super::phrases::{count, join, shorten};
use super::render::{self, tokens_of};
use super::request::{ApiRequest, blocks, role};
use super::script::{Placeholders, Reply, Script};
use super::selection::Position;
use super::signature::summary;

/// Maximum length of a quoted text in characters.
const QUOTED: usize = 80;

/// Returns the message that answers a request.
pub(crate) fn compose(
    shared: &Shared,
    script: &Script,
    reply: &Reply,
    request: ApiRequest<'_>,
    position: &Position,
    view: &View<'_>,
) -> Message {
    let values = render::placeholders(request, &position.user);
    let input = shared.input(view.request(), view.size);
    let mut message = if request.compaction().is_some() {
        on_request(reply, request, &values, input)
    } else if view.is_due() {
        let scripted = script.summary(summary::number(request));
        let text = scripted.and_then(|reply| text(reply, request, &values));
        let text = text.unwrap_or_else(|| generated_summary(request));
        let spent = iteration("compaction", &usage(&text, input));
        automatic(shared, reply, &values, view, text, &spent)
    } else {
        render::message(reply, request, &values, input)
    };
    message.context_management = view.report();
    message.container = shared.containers.of_reply(script, reply, request, &message.content);
    message
}

/// The reply to a request for a summary: the summary only.
fn on_request(
    reply: &Reply,
    request: ApiRequest<'_>,
    values: &Placeholders,
    input: Input,
) -> Message {
    let text = text(reply, request, values);
    let reason = if text.is_some() { "compaction" } else { "end_turn" };
    let output = tokens_of(text.as_ref().map_or(0, String::len));
    let spent = iteration("compaction", &render::usage(&reply.usage, output, input));
    let content = text.map(|text| Part::Raw(summary::block(request, &text))).into_iter().collect();
    let mut message = bare(request, content, json!([spent]));
    message.stop_reason = reply.stop_reason.clone().unwrap_or_else(|| reason.to_owned());
    message.stop_details.clone_from(&reply.stop_details);
    message
}

/// A reply that begins with a summary, and ends there if the request asks for a pause.
fn automatic(
    shared: &Shared,
    reply: &Reply,
    values: &Placeholders,
    view: &View<'_>,
    text: String,
    spent: &Value,
) -> Message {
    let edit = view.request().edit(COMPACT);
    if edit.is_some_and(|edit| edit["pause_after_compaction"] == true) {
        return bare(view.request(), vec![Part::Compaction(text)], json!([spent]));
    }
    let view = view.summed_up(&Part::Compaction(text.clone()).to_json());
    let input = shared.input(view.request(), view.size);
    let mut message = render::message(reply, view.request(), values, input);
    let own = iteration("message", &message.usage);
    message.usage.insert("iterations".to_owned(), json!([spent, own]));
    message.content.insert(0, Part::Compaction(text));
    message
}

/// A message that ends with its summary. Its own counts do not include the summary.
fn bare(request: ApiRequest<'_>, content: Vec<Part>, iterations: Value) -> Message {
    let mut usage = usage("", Input::default());
    usage.insert("iterations".to_owned(), iterations);
    Message {
        id: ids::message(),
        model: request.model().to_owned(),
        content,
        stop_reason: "compaction".to_owned(),
        stop_sequence: None,
        stop_details: None,
        usage,
        context_management: None,
        container: None,
    }
}

fn usage(text: &str, input: Input) -> Map<String, Value> {
    render::usage(&Map::new(), tokens_of(text.len()), input)
}

fn iteration(kind: &str, usage: &Map<String, Value>) -> Value {
    let count = |field: &str| usage.get(field).cloned().unwrap_or_default();
    json!({
        "type": kind,
        "input_tokens": count("input_tokens"),
        "output_tokens": count("output_tokens"),
        "cache_read_input_tokens": count("cache_read_input_tokens"),
        "cache_creation_input_tokens": count("cache_creation_input_tokens"),
    })
}

/// The text of the summary in a scripted reply, if it has one.
fn text(reply: &Reply, request: ApiRequest<'_>, values: &Placeholders) -> Option<String> {
    let block = reply.summary()?;
    let scripted = block.get("content").and_then(Value::as_str);
    Some(scripted.map_or_else(|| generated_summary(request), |text| values.fill(text)))
}

/// Generates a summary: the number of messages, and the first and last texts.
fn generated_summary(request: ApiRequest<'_>) -> String {
    let messages = count(request.messages().len(), "message", "messages");
    let texts = |from: &'static str| {
        let messages = request.messages().iter().filter(move |message| role(message) == from);
        let texts = messages.flat_map(blocks).filter(|block| block.is("text"));
        texts.filter_map(|block| block.str("text"))
    };
    let quote = |text: &str| format!("\"{}\"", shorten(text, QUOTED));
    let first = texts("user").next().map(|text| format!(" It starts with {}.", quote(text)));
    let last = [texts("user").last(), texts("assistant").last()];
    let last: Vec<String> = last.into_iter().flatten().map(quote).collect();
    let last =
        if last.is_empty() { String::new() } else { format!(" It ends with {}.", join(&last)) };
    format!("A summary of {messages}.{}{last}", first.unwrap_or_default())
}
