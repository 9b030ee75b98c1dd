use serde_json::{Value, json};

use super::reply;
use crate::request::ApiRequest;
use crate::script::{Block, Reply, Script};
use crate::selection::Position;

const TOOLS: [&str; 9] = [
    "read_file",
    "write_file",
    "list_files",
    "get_time",
    "search_course_content",
    "get_course_outline",
    "WebFetch",
    "Task",
    "mcp__time__convert",
];

fn request(messages: &Value, tools: &[&str]) -> Value {
    let tools: Vec<Value> = tools
        .iter()
        .map(|name| {
            json!({ "name": name, "input_schema": { "type": "object", "required": ["path", "n"],
                    "properties": { "path": {}, "n": { "type": "integer" } } } })
        })
        .collect();
    json!({ "model": "claude-opus-5", "messages": messages, "tools": tools })
}

fn play(body: &Value) -> Reply {
    let request = ApiRequest(body.as_object().unwrap());
    reply(request, &Position::of(&Script::demo(), request))
}

fn said(reply: &Reply) -> String {
    let texts = reply.content.iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(text.as_str()),
        Block::Thinking { .. } | Block::Call { .. } | Block::Raw(_) => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn called(reply: &Reply) -> Vec<(String, Value)> {
    let calls = reply.content.iter().filter_map(|block| match block {
        Block::Call { name, input, .. } => Some((name.clone(), input.clone())),
        Block::Text { .. } | Block::Thinking { .. } | Block::Raw(_) => None,
    });
    calls.collect()
}

fn first(text: &str) -> Reply {
    play(&request(&json!([{ "role": "user", "content": text }]), &TOOLS))
}

fn calls(text: &str) -> Vec<(String, Value)> {
    called(&first(text))
}

/// The reply after one round in which `tool` returned `result`.
fn answer(tool: &str, input: &Value, result: &str, is_error: bool) -> String {
    let messages = json!([
        { "role": "user", "content": "please" },
        { "role": "assistant", "content": [
            { "type": "tool_use", "id": "t", "name": tool, "input": input }] },
        { "role": "user", "content": [
            { "type": "tool_result", "tool_use_id": "t", "content": result, "is_error": is_error }] },
    ]);
    said(&play(&request(&messages, &TOOLS)))
}

#[test]
fn the_demonstration_introduces_itself_and_names_the_simulator_as_the_model() {
    let reply = first("Read src/main.rs and explain it");
    assert_eq!(reply.model.as_deref(), Some("simulator"));
    let text = "This is the simulator, not a model. I will read src/main.rs.";
    assert_eq!(said(&reply), text);
    let later = json!([
        { "role": "user", "content": "hello" },
        { "role": "assistant", "content": "hi" },
        { "role": "user", "content": "read a.rs" },
    ]);
    assert_eq!(said(&play(&request(&later, &TOOLS))), "I will read a.rs.");
}

#[test]
fn intents_become_calls() {
    let read = |path: &str| vec![("read_file".to_owned(), json!({ "path": path }))];
    let list = |input: Value| vec![("list_files".to_owned(), input)];
    let time = |zone: &str| vec![("get_time".to_owned(), json!({ "timezone": zone }))];
    let write = |path: &str, content: &str| {
        vec![("write_file".to_owned(), json!({ "path": path, "content": content }))]
    };
    for (text, expected) in [
        ("Read src/main.rs and explain it", read("src/main.rs")),
        ("what is in notes.txt?", read("notes.txt")),
        ("what do the files say, \"a/b.md\"?", read("a/b.md")),
        ("Explain the Makefile.", read("Makefile")),
        ("look at .gitignore", read(".gitignore")),
        ("list the files", list(json!({}))),
        ("What files are in the src folder?", list(json!({ "path": "src" }))),
        ("show me this directory", list(json!({}))),
        ("list everything in src/simulator/", list(json!({ "path": "src/simulator/" }))),
        ("What time is it in Europe/Oslo?", time("Europe/Oslo")),
        ("What time is it?", time("UTC")),
        ("write hello world to out.txt", write("out.txt", "hello world")),
        ("Please write notes/a.md: # Title: one", write("notes/a.md", "# Title: one")),
        ("write \"to be or not to be\" to be.txt.", write("be.txt", "to be or not to be")),
        ("Hello there, e.g. at 3.5 or https://example.com/a.html", vec![]),
    ] {
        assert_eq!(calls(text), expected, "{text}");
    }
}

#[test]
fn queries_urls_and_inputs_go_to_their_tools_unchanged() {
    let search = |query: &str| ("search_course_content".to_owned(), json!({ "query": query }));
    let outline =
        |course: &str| ("get_course_outline".to_owned(), json!({ "course_name": course }));
    let fetch = |url: &str| ("WebFetch".to_owned(), json!({ "url": url }));
    let task =
        |prompt: &str| ("Task".to_owned(), json!({ "description": "One task", "prompt": prompt }));
    let call = |input: Value| ("mcp__time__convert".to_owned(), input);
    for (text, expected) in [
        ("Search the courses for the time zone of a.rs.", vec![search("the time zone of a.rs")]),
        ("Please search the courses for \"recursion\"?", vec![search("recursion")]),
        ("Outline of course MCP", vec![outline("MCP")]),
        (
            "What is the outline of the course Prompt Compression?",
            vec![outline("Prompt Compression")],
        ),
        ("Fetch https://example.com/a.html", vec![fetch("https://example.com/a.html")]),
        (
            "Call mcp__time__convert with {\"a\": {\"b\": \"c.rs\"}}",
            vec![call(json!({ "a": { "b": "c.rs" } }))],
        ),
        ("call `mcp__time__convert`", vec![call(json!({}))]),
        ("Call mcp__time__convert with {broken", vec![call(json!({}))]),
        ("Ask a sub-agent to read a.rs.", vec![task("read a.rs")]),
        (
            "Ask a sub-agent to read a.rs and ask a sub-agent to read b.rs",
            vec![task("read a.rs"), task("read b.rs")],
        ),
        (
            "Ask a sub-agent to read a.rs. Ask a sub-agent to read b.rs.",
            vec![task("read a.rs"), task("read b.rs")],
        ),
        ("Call me tomorrow", vec![]),
        ("Do you search the courses?", vec![]),
    ] {
        assert_eq!(calls(text), expected, "{text}");
    }
    let both = calls("Fetch https://a.example/ and call mcp__time__convert with {\"n\": 1}");
    assert_eq!(both, [call(json!({ "n": 1 })), fetch("https://a.example/")]);
    assert_eq!(
        said(&first("Search the courses for loops")),
        "This is the simulator, not a model. I will search the courses for \"loops\"."
    );
}

#[test]
fn an_absolute_path_is_a_file_to_read_or_a_folder_to_list() {
    let read = |path: &str| vec![("read_file".to_owned(), json!({ "path": path }))];
    let list = |path: &str| vec![("list_files".to_owned(), json!({ "path": path }))];
    for (text, expected) in [
        ("Read /srv/files/src/main.rs and explain it", read("/srv/files/src/main.rs")),
        ("Read /srv/files/NOTES", read("/srv/files/NOTES")),
        ("what is in /srv/files/notes.txt?", read("/srv/files/notes.txt")),
        ("List the files in /srv/files", list("/srv/files")),
        ("List the files in /srv/files.a1B2c3D4e5", list("/srv/files.a1B2c3D4e5")),
        ("what is 1 / 2, and/or 3?", vec![]),
    ] {
        assert_eq!(calls(text), expected, "{text}");
    }
}

#[test]
fn intents_run_together_and_then_starts_the_next_step() {
    let names =
        |text: &str| -> Vec<String> { calls(text).into_iter().map(|(name, _)| name).collect() };
    let both = "Read a.rs and b.rs, and what time is it?";
    assert_eq!(names(both), ["read_file", "read_file", "get_time"]);
    assert_eq!(names("Be kind, then list the files and then rest"), ["list_files"]);
    let text = "Write hi to a.txt and then read a.txt";
    assert_eq!(names(text), ["write_file"]);
    let messages = |round: usize| {
        let mut messages = vec![json!({ "role": "user", "content": text })];
        for n in 0..round {
            let id = format!("t{n}");
            let call = json!({ "type": "tool_use", "id": id, "name": "read_file",
                               "input": { "path": "a.txt" } });
            let result = json!({ "type": "tool_result", "tool_use_id": id, "content": "hi" });
            messages.push(json!({ "role": "assistant", "content": [call] }));
            messages.push(json!({ "role": "user", "content": [result] }));
        }
        request(&json!(messages), &TOOLS)
    };
    let second = play(&messages(1));
    assert_eq!(called(&second), [("read_file".to_owned(), json!({ "path": "a.txt" }))]);
    assert_eq!(said(&second), "Next, I will read a.txt.");
    let last = said(&play(&messages(2)));
    assert_eq!(last.matches("`a.txt` is plain text, 1 line long.").count(), 2);
}

#[test]
fn only_offered_tools_are_used() {
    let messages = json!([{ "role": "user", "content": "Read a.rs, what time is it?" }]);
    let few = play(&request(&messages, &["get_time"]));
    assert_eq!(called(&few).len(), 1);
    let none = play(&request(&messages, &[]));
    assert_eq!(called(&none), []);
    assert!(said(&none).contains("offers no tool"));
}

#[test]
fn without_an_intent_the_reply_lists_examples() {
    let help = said(&first("hello"));
    assert!(help.contains("\"Read src/main.rs and explain it\""), "{help}");
}

#[test]
fn tool_choice_forbids_forces_and_limits() {
    let with = |text: &str, choice: Value| {
        let mut body = request(&json!([{ "role": "user", "content": text }]), &TOOLS);
        body["tool_choice"] = choice;
        called(&play(&body))
    };
    let both = "Read a.rs and b.rs";
    assert_eq!(with(both, json!({ "type": "none" })), []);
    let single = json!({ "type": "auto", "disable_parallel_tool_use": true });
    assert_eq!(with(both, single).len(), 1);
    let sample = json!({ "path": "README.md", "n": 1 });
    let any = with("hello", json!({ "type": "any" }));
    assert_eq!(any, [("read_file".to_owned(), sample.clone())]);
    let named = with(both, json!({ "type": "tool", "name": "list_files" }));
    assert_eq!(named, [("list_files".to_owned(), sample)]);
}

#[test]
fn a_source_file_is_described() {
    let plain = "//! Parse, run one command.\n\nuse std::fs;\n\npub struct Cli;\n\n\
                 pub(crate) async fn run() {}\nfn main() {\n    run()\n}\n";
    let numbered: Vec<String> =
        plain.lines().enumerate().map(|(n, line)| format!("{:>6}→{line}", n + 1)).collect();
    let input = json!({ "path": "src/main.rs" });
    let expected = "`src/main.rs` is Rust, 10 lines long. It describes itself: \"Parse, run one \
                    command\". It has the type `Cli`, and the functions `run` and `main`.";
    assert_eq!(answer("read_file", &input, plain, false), expected);
    assert_eq!(answer("read_file", &input, &numbered.join("\n"), false), expected);
}

#[test]
fn other_files_are_described_without_copying_them() {
    let read = |path: &str, text: &str| answer("read_file", &json!({ "path": path }), text, false);
    let notes = format!("Buy milk\n{}Call home", "secret line\n".repeat(50));
    let expected = "`notes.txt` is plain text, 52 lines long. It begins with \"Buy milk\". It ends \
                    with \"Call home\".";
    assert_eq!(read("notes.txt", &notes), expected);
    let readme = read("README.md", "# Twostep\n\nText.\n\n## Use\n#tag\n");
    let expected = "`README.md` is Markdown, 6 lines long. It describes itself: \"Twostep\". It \
                    has the headings `Twostep` and `Use`.";
    assert_eq!(readme, expected);
    assert_eq!(read("a.py", ""), "`a.py` is empty.");
    let long = read("a.txt", &"word ".repeat(1000));
    assert!(long.len() < 300, "{long}");
}

#[test]
fn listings_times_writes_and_errors_become_sentences() {
    let list = answer("list_files", &json!({ "path": "src" }), "a.rs\nb.rs\ndemo/\n", false);
    assert_eq!(list, "`src` has 2 files and 1 folder: `a.rs`, `b.rs` and `demo/`.");
    let many: Vec<String> = (0..40).map(|n| format!("f{n}")).collect();
    let list = answer("list_files", &json!({}), &many.join("\n"), false);
    assert!(list.ends_with("`f5` and 34 more."), "{list}");
    let zone = json!({ "timezone": "Europe/Oslo" });
    for time in ["2026-11-21T23:00:00+01:00", r#"{"a": 1, "now": "2026-11-21T23:00:00+01:00"}"#] {
        let expected = "In Europe/Oslo it is 2026-11-21T23:00:00+01:00.";
        assert_eq!(answer("get_time", &zone, time, false), expected);
    }
    let written = json!({ "path": "a.txt", "content": "one\ntwo" });
    assert_eq!(answer("write_file", &written, "ok", false), "I wrote 2 lines to `a.txt`.");
    let failed = answer("read_file", &json!({ "path": "a.txt" }), "no such file", true);
    assert_eq!(failed, "`read_file` on `a.txt` failed: no such file");
    let other = answer("search", &json!({}), "one\ntwo", false);
    assert_eq!(other, "`search` returned 2 lines; the first is \"one\".");
}
