//! The built-in demonstration: it recognizes a few intents, calls the tools that the request
//! offers, and answers from their results. It never poses as a model: its first reply says that it
//! is the simulator.

mod explain;
mod findings;
mod intents;
mod listing;
mod paths;
mod verbatim;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

use super::phrases::join;
use super::request::{ApiRequest, ToolChoice};
use super::script::{Block, Reply};
use super::selection::Position;
use intents::Intent;

/// The model name in the demonstration's replies.
const NAME: &str = "simulator";

const INTRODUCTION: &str = "This is the simulator, not a model.";

/// The beginning of the system prompt in requests for the title of a conversation.
const TITLE_PROMPT: &str = "Write a title for the conversation";
/// The most words in a title.
const TITLE_WORDS: usize = 6;

/// Returns the demonstration's reply to a request.
pub(crate) fn reply(request: ApiRequest<'_>, position: &Position) -> Reply {
    let mut reply = Reply::of(content(request, position));
    reply.model = Some(NAME.to_owned());
    reply
}

fn content(request: ApiRequest<'_>, position: &Position) -> Vec<Block> {
    if request.tools().is_empty() && request.system().starts_with(TITLE_PROMPT) {
        return vec![Block::text(title(&position.user))];
    }
    let mut intents = intents::step(&position.user, position.round);
    intents.retain(|intent| request.offers(intent.tool()));
    match request.choice() {
        ToolChoice::None => intents.clear(),
        ToolChoice::Any if intents.is_empty() => return sample(request.tools().first()),
        ToolChoice::Any | ToolChoice::Auto => {}
        ToolChoice::Tool(name) => {
            intents.retain(|intent| intent.tool() == name);
            if intents.is_empty() {
                let named = |tool: &&Value| tool.get("name").is_some_and(|other| other == name);
                return sample(request.tools().iter().find(named));
            }
        }
    }
    if request.forbids_parallel() {
        intents.truncate(1);
    }
    if intents.is_empty() {
        return vec![Block::text(closing(request, position))];
    }
    calls(request, position, &intents)
}

/// Returns the first words of the first quoted text.
fn title(user: &str) -> String {
    let quoted = user.lines().find(|line| !line.starts_with('<') && !line.trim().is_empty());
    let words = quoted.unwrap_or("Conversation").split_whitespace();
    words.take(TITLE_WORDS).collect::<Vec<_>>().join(" ")
}

fn calls(request: ApiRequest<'_>, position: &Position, intents: &[Intent]) -> Vec<Block> {
    let plans: Vec<String> = intents.iter().map(Intent::plan).collect();
    let first = if position.round == 0 { "I will" } else { "Next, I will" };
    let text = introduced(request, position, &format!("{first} {}.", join(&plans)));
    let calls = intents.iter().map(|intent| Block::call(intent.tool(), intent.input()));
    std::iter::once(Block::text(text)).chain(calls).collect()
}

fn closing(request: ApiRequest<'_>, position: &Position) -> String {
    let findings = findings::findings(request, position);
    if findings.is_empty() {
        introduced(request, position, &help(request))
    } else {
        findings.join("\n\n")
    }
}

/// Prefixes `text` with an introduction in the first reply of a conversation.
fn introduced(request: ApiRequest<'_>, position: &Position, text: &str) -> String {
    if position.round == 0 && request.messages().len() == 1 {
        format!("{INTRODUCTION} {text}")
    } else {
        text.to_owned()
    }
}

/// Describes the intents that the tools of this request support.
fn help(request: ApiRequest<'_>) -> String {
    let examples = [
        ("read_file", "\"Read src/main.rs and explain it\""),
        ("list_files", "\"List the files in src\""),
        ("get_time", "\"What time is it in Europe/Oslo?\""),
        ("write_file", "\"Write hello to notes.txt\""),
        ("search_course_content", "\"Search the courses for recursion\""),
        ("get_course_outline", "\"Outline of the course Prompt Compression\""),
        ("WebFetch", "\"Fetch https://example.com/\""),
        ("Task", "\"Ask a sub-agent to list the files in src\""),
    ];
    let possible: Vec<String> = examples
        .iter()
        .filter(|(tool, _)| request.offers(tool) && request.choice() != ToolChoice::None)
        .map(|(_, example)| (*example).to_owned())
        .chain(example_call(request))
        .collect();
    if possible.is_empty() {
        return "I follow simple rules, and this request offers no tool that I can use.".to_owned();
    }
    format!(
        "I follow simple rules and understand requests such as {}. I call the tools for one \
         message together; \"and then\" starts another step.",
        join(&possible)
    )
}

/// Returns an example call of a tool from an MCP server; its schema is not known here.
fn example_call(request: ApiRequest<'_>) -> Option<String> {
    let mut names = request.tools().iter().filter_map(|tool| tool.get("name")?.as_str());
    let name = names.find(|name| name.starts_with("mcp__"))?;
    (request.choice() != ToolChoice::None).then(|| format!("\"Call {name} with {{}}\""))
}

/// Returns a call of a tool that the request forces although no intent names it. Every required
/// field gets a value of its type.
fn sample(tool: Option<&Value>) -> Vec<Block> {
    let Some(name) = tool.and_then(|tool| tool.get("name")?.as_str()) else {
        return Vec::new();
    };
    let schema = tool.and_then(|tool| tool.get("input_schema"));
    let properties = schema.and_then(|schema| schema.get("properties"));
    let required = schema.and_then(|schema| schema.get("required")?.as_array());
    let input: Map<String, Value> = required
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(|field| (field.to_owned(), example(field, properties.and_then(|p| p.get(field)))))
        .collect();
    vec![Block::call(name, Value::Object(input))]
}

fn example(field: &str, schema: Option<&Value>) -> Value {
    if let Some(allowed) = schema.and_then(|schema| schema.get("enum")?.as_array()?.first()) {
        return allowed.clone();
    }
    match schema.and_then(|schema| schema.get("type")?.as_str()) {
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(false),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => match field {
            "path" => json!("README.md"),
            "timezone" => json!("UTC"),
            _ => json!("example"),
        },
    }
}
