//! The script of the simulated model. The text of a user begins with the kind of the conversation
//! and a dot, as in `effect.m0`.

use serde_json::{Value, json};
use simulator::Script;

/// The kinds from which clients choose at random.
pub(crate) const KINDS: [&str; 10] =
    ["say", "look", "quick", "write", "effect", "mixed", "rounds", "busy", "input", "tasks"];

/// The kinds of which most take 12 seconds.
pub(crate) const LONG_KINDS: &[&str] = &["patient", "patient", "patient", "patient", "mixed"];

const TEXT: &str = "It was a long story with many turns, and no reader who saw it for the first \
    time could guess how it would end, although every reader had a guess and most were wrong.";

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn call(name: &str, input: &Value) -> Value {
    json!({ "type": "tool_use", "name": name, "input": input })
}

fn reply(content: &[Value]) -> Value {
    json!({ "content": content, "chunk": 6, "pace_ms": 3 })
}

fn says(said: &str) -> Value {
    reply(&[text(said)])
}

fn look() -> Vec<Value> {
    vec![
        call("get_time", &json!({})),
        call("dawdle", &json!({ "ms": 40 })),
        call("dawdle", &json!({ "ms": 150 })),
        call("list_files", &json!({})),
        call("dawdle", &json!({ "ms": 300 })),
    ]
}

/// Calls that end at once, also on a busy machine.
fn instant() -> Vec<Value> {
    vec![call("get_time", &json!({})), call("get_time", &json!({ "timezone": "Asia/Tokyo" }))]
}

fn quick() -> Vec<Value> {
    vec![call("get_time", &json!({})), call("list_files", &json!({}))]
}

fn write(suffix: &str) -> Value {
    let path = format!("out/{{{{user}}}}{suffix}.txt");
    call("write_file", &json!({ "path": path, "content": format!("{TEXT} {{{{user}}}}") }))
}

fn effect(before_ms: u64, after_ms: u64) -> Value {
    call("witness", &json!({ "before_ms": before_ms, "after_ms": after_ms }))
}

/// A call that starts a sub-agent with a conversation of this kind.
fn task(kind: &str) -> Value {
    call("Task", &json!({ "description": kind, "prompt": format!("{kind}.{{{{user}}}}") }))
}

/// The script of all kinds.
pub(crate) fn script() -> anyhow::Result<Script> {
    let mixed = [
        text("Many things at once."),
        call("dawdle", &json!({ "ms": 20 })),
        effect(20, 20),
        write("-mixed"),
        effect(0, 60),
        call("get_time", &json!({})),
        call("dawdle", &json!({ "ms": 30 })),
    ];
    let overloaded = json!([{ "status": 529 }, { "status": 529 }]);
    let mut busy = says("At last. {{user}}");
    busy["fail_first"] = overloaded;
    let mut slow = says(TEXT);
    slow["pace_ms"] = json!(60);
    let mut patient = says(TEXT);
    patient["pace_ms"] = json!(400);
    let conversation =
        |kind: &str, replies: &[Value]| json!({ "when": format!("{kind}."), "replies": replies });
    let conversations = [
        // Before `tasks`: the texts of sub-agents contain that of their parent (`left.tasks.m0`).
        conversation("left", &[reply(&[effect(30, 30)]), says("Left is done.")]),
        conversation("right", &[reply(&[write("-right"), effect(10, 0)]), says("Right is done.")]),
        conversation("tasks", &[reply(&[task("left"), task("right")]), says("Both are done.")]),
        conversation("say", &[says(TEXT)]),
        conversation("slow", &[slow]),
        conversation("patient", &[reply(&[effect(20, 20)]), patient]),
        conversation("look", &[reply(&look()), says("Looked.")]),
        conversation("quick", &[reply(&instant()), reply(&quick()), says("Quick.")]),
        conversation("write", &[reply(&[write("")]), says("Written.")]),
        conversation("effect", &[reply(&[effect(60, 60)]), says("Done.")]),
        conversation("mixed", &[reply(&mixed), says("All of it.")]),
        conversation(
            "rounds",
            &[
                reply(&[text("First."), effect(10, 10)]),
                reply(&[text("Then."), call("get_time", &json!({})), write("-rounds")]),
                reply(&[effect(0, 10), effect(10, 0)]),
                says("That was it."),
            ],
        ),
        // So long that a summary is shorter.
        conversation("long", &[json!({ "content": [text(&TEXT.repeat(30))] })]),
        conversation("ask", &[reply(&[text("May I?"), effect(20, 20)]), says("Allowed.")]),
        conversation("busy", &[busy]),
        conversation("input", &[reply(&[write("-a"), write("-b")]), says("Both.")]),
    ];
    let script = json!({ "conversations": conversations, "otherwise": "refuse" });
    Ok(Script::from_json(&script.to_string())?)
}
