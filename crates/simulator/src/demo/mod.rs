//! The built-in demonstration: it understands a few plain wishes, uses the tools that the request
//! offers, and answers from their results. It never passes for a model: it says what it is.

mod answer;
mod asking;
mod explain;
mod listing;
mod paths;
mod wishes;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

use super::conversation::Cue;
use super::request::{Ask, Choice};
use super::script::{Block, Reply};
use super::words::join;
use wishes::Wish;

/// The model that the demonstration's replies name.
const NAME: &str = "simulator";

const INTRODUCTION: &str = "This is the simulator, not a model.";

/// The demonstration's reply to a request.
pub(crate) fn reply(ask: Ask<'_>, cue: &Cue) -> Reply {
    let mut reply = Reply::of(content(ask, cue));
    reply.model = Some(NAME.to_owned());
    reply
}

fn content(ask: Ask<'_>, cue: &Cue) -> Vec<Block> {
    let mut wishes = wishes::step(&cue.user, cue.round);
    wishes.retain(|wish| ask.offers(wish.tool()));
    match ask.choice() {
        Choice::None => wishes.clear(),
        Choice::Any if wishes.is_empty() => return sample(ask.tools().first()),
        Choice::Any | Choice::Auto => {}
        Choice::Tool(name) => {
            wishes.retain(|wish| wish.tool() == name);
            if wishes.is_empty() {
                let named = |tool: &&Value| tool.get("name").is_some_and(|other| other == name);
                return sample(ask.tools().iter().find(named));
            }
        }
    }
    if one_at_a_time(ask) {
        wishes.truncate(1);
    }
    if wishes.is_empty() {
        return vec![Block::text(closing(ask, cue))];
    }
    calls(ask, cue, &wishes)
}

fn calls(ask: Ask<'_>, cue: &Cue, wishes: &[Wish]) -> Vec<Block> {
    let plans: Vec<String> = wishes.iter().map(Wish::plan).collect();
    let first = if cue.round == 0 { "I will" } else { "Next, I will" };
    let text = introduced(ask, cue, &format!("{first} {}.", join(&plans)));
    let calls = wishes.iter().map(|wish| Block::call(wish.tool(), wish.input()));
    std::iter::once(Block::text(text)).chain(calls).collect()
}

fn closing(ask: Ask<'_>, cue: &Cue) -> String {
    let findings = answer::findings(ask, cue);
    if findings.is_empty() { introduced(ask, cue, &help(ask)) } else { findings.join("\n\n") }
}

/// `text`, after an introduction when the conversation has just begun.
fn introduced(ask: Ask<'_>, cue: &Cue, text: &str) -> String {
    if cue.round == 0 && ask.messages().len() == 1 {
        format!("{INTRODUCTION} {text}")
    } else {
        text.to_owned()
    }
}

/// What the demonstration can do with the tools of this request.
fn help(ask: Ask<'_>) -> String {
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
        .filter(|(tool, _)| ask.offers(tool) && ask.choice() != Choice::None)
        .map(|(_, example)| (*example).to_owned())
        .chain(example_call(ask))
        .collect();
    if possible.is_empty() {
        return "I follow simple rules and have no tool here that I know how to use, so this is \
                all that I can say."
            .to_owned();
    }
    format!(
        "I follow simple rules and understand requests such as {}. Several wishes in one message \
         are done together; \"and then\" puts one after the other.",
        join(&possible)
    )
}

/// A call of a tool of a server, of which nothing else is known.
fn example_call(ask: Ask<'_>) -> Option<String> {
    let mut names = ask.tools().iter().filter_map(|tool| tool.get("name")?.as_str());
    let name = names.find(|name| name.starts_with("mcp__"))?;
    (ask.choice() != Choice::None).then(|| format!("\"Call {name} with {{}}\""))
}

fn one_at_a_time(ask: Ask<'_>) -> bool {
    let choice = ask.get("tool_choice");
    choice.and_then(|choice| choice.get("disable_parallel_tool_use")).is_some_and(|off| off == true)
}

/// A call of a tool that the request forces and the user's text says nothing about: every
/// required field gets a value of its type.
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
