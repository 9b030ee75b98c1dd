//! The prompt cache: marks in requests, and tokens that are written and read, with a simulator that
//! has a cache.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};
use twostep::domain::prompt_cache::CacheTtl;
use twostep::service::ModelRules;

use crate::support::kept_output::MODEL_KEY;
use crate::support::media::pixel;
use crate::support::{SYSTEM, Session, Setup, TestApp, binary, calls, data_dir, replies, says};

/// A service whose simulator has a cache.
async fn cached(script: Value) -> TestApp {
    TestApp::start_with(script, Setup { simulates_cache: true, ..Setup::default() }).await
}

/// The usage of each request of a session.
async fn usages(session: &Session<'_>) -> Vec<Value> {
    let events = session.events().await;
    let ends = events.iter().filter(|event| event["type"] == "span.model_request_end");
    ends.map(|event| event["model_usage"].clone()).collect()
}

fn count(usage: &Value, field: &str) -> i64 {
    usage[field].as_i64().unwrap()
}

fn input(usage: &Value) -> i64 {
    let fields = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
    fields.iter().map(|field| count(usage, field)).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tools_the_system_prompt_and_the_end_of_the_messages_are_marked() {
    for (ttl, mark) in [
        (CacheTtl::FiveMinutes, json!({ "type": "ephemeral" })),
        (CacheTtl::Hour, json!({ "type": "ephemeral", "ttl": "1h" })),
    ] {
        let setup = Setup { prompt_cache: Some(ttl), simulates_cache: true, ..Setup::default() };
        let app = TestApp::start_with(replies(&[says("Yes.")]), setup).await;
        let session = app.session().await;
        session.ask("Are you there?").await;
        let body = app.upstream().body(0);
        assert_eq!((&body["cache_control"], &body["system"][0]["cache_control"]), (&mark, &mark));
        assert_eq!(body["tools"].as_array().unwrap().last().unwrap()["cache_control"], mark);
        assert_eq!(app.upstream().text(0).matches("cache_control").count(), 3);
        let usage = &usages(&session).await[0];
        let for_an_hour = usage["cache_creation_1h_input_tokens"].as_i64().unwrap_or_default();
        let written = count(usage, "cache_creation_input_tokens");
        assert!(written > 0);
        assert_eq!(for_an_hour, if ttl == CacheTtl::Hour { written } else { 0 });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_sets_the_ttl_or_turns_the_cache_off() {
    let system = json!([{ "type": "text", "text": SYSTEM,
                          "cache_control": { "type": "ephemeral", "ttl": "1h" } }]);
    for (args, marks, system) in
        [(["--prompt-cache-ttl", "1h"], 3, system), (["--prompt-cache", "false"], 0, json!(SYSTEM))]
    {
        let setup = Setup { no_worker: true, ..Setup::default() };
        let app = TestApp::start_with(replies(&[says("Yes.")]), setup).await;
        let folder = data_dir();
        let mut command = binary(&["worker", "--data-dir", folder.path().to_str().unwrap()]);
        command.args(["--anthropic-base-url", &app.simulator.base_url()]).args(args);
        command.env("DATABASE_URL", app.database.url()).env("ANTHROPIC_API_KEY", MODEL_KEY);
        let mut worker = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        assert_eq!(app.session().await.ask("Are you there?").await["output_text"], "Yes.");
        let upstream = app.upstream();
        assert_eq!(upstream.text(0).matches("cache_control").count(), marks);
        assert_eq!(upstream.body(0)["system"], system);
        worker.kill().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_with_equal_settings_share_the_cache() {
    let app = cached(replies(&[says("Yes.")])).await;
    let (first, second) = (app.session().await, app.session().await);
    first.ask("The one").await;
    second.ask("The other").await;
    let (wrote, read) = (&usages(&first).await[0], &usages(&second).await[0]);
    assert_eq!(count(wrote, "cache_read_input_tokens"), 0);
    assert!(count(read, "cache_read_input_tokens") * 10 > input(wrote) * 9, "{wrote} {read}");
    app.simulator.advance_cache_clock(std::time::Duration::from_mins(6));
    let third = app.session().await;
    third.ask("A third").await;
    assert_eq!(count(&usages(&third).await[0], "cache_read_input_tokens"), 0);
}

/// Fifty rounds of calls. Every fifth round has so many calls that a mark at the end alone is too
/// far from the cached prefix.
fn fifty_rounds() -> Value {
    let call = json!({ "type": "tool_use", "name": "get_time", "input": { "timezone": "UTC" } });
    let said = "I will look at the clock once more, because the time may have changed since. ";
    let round = |number: i32| {
        let times = if number % 5 == 0 { 15 } else { 1 };
        let mut content = vec![json!({ "type": "text", "text": said.repeat(20) })];
        content.extend(vec![call.clone(); times]);
        json!({ "content": content })
    };
    let mut rounds: Vec<Value> = (1..50).map(round).collect();
    rounds.push(says("It is late."));
    replies(&rounds)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_fifty_rounds_reads_at_least_95_percent_of_what_the_cache_has() {
    let app = cached(fifty_rounds()).await;
    let session = app.session().await;
    let message = json!({ "content": "What time is it?", "limits": { "rounds": 60 } });
    assert_eq!(session.ask_with(message).await["output_text"], "It is late.");
    let usages = usages(&session).await;
    assert_eq!(usages.len(), 50);
    // A request can read at most the input of the request before it: nothing else is in the cache.
    let possible: i64 = usages.iter().take(49).map(input).sum();
    let read: i64 = usages.iter().map(|usage| count(usage, "cache_read_input_tokens")).sum();
    let total: i64 = usages.iter().map(input).sum();
    let percent =
        |part: i64, whole: i64| format!("{}.{}%", part * 100 / whole, part * 1000 / whole % 10);
    let figures = format!(
        "prompt cache, 50 rounds: {read} of {possible} possible tokens read ({}), of {total} in \
         all ({})\n",
        percent(read, possible),
        percent(read, total)
    );
    // Not with `eprint!`: the test harness hides its output when the test passes.
    std::io::stderr().write_all(figures.as_bytes()).unwrap();
    assert!(read * 100 >= possible * 95, "{usages:?}");
    let upstream = app.upstream();
    let marks = (0..50).map(|index| upstream.text(index).matches("\"cache_control\"").count());
    assert_eq!(marks.max(), Some(4));
}

/// The API invalidates everything after other tools, and the messages after another tool choice.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_changed_request_can_read_is_read_and_what_it_cannot_is_reported() {
    let long =
        "I will look at the clock once more, because the time may have changed. ".repeat(100);
    let looks = json!({ "content": [{ "type": "text", "text": long },
        { "type": "tool_use", "name": "get_time", "input": {} }], "when_forbidden": "Noon." });
    let app = cached(replies(&[looks, says("Noon.")])).await;
    let session = app.session_with(json!({ "system": "Be brief. ".repeat(1000) })).await;
    let tool = json!({ "name": "open_door", "description": "Opens a door.", "client": true,
                       "input_schema": { "type": "object" } });
    let plain = json!({ "content": "What time is it?" });
    let limited = json!({ "content": "What time is it?", "limits": { "rounds": 1 } });
    let with_tool = json!({ "content": "What time is it?", "tools": [tool] });
    for message in [plain, limited, with_tool] {
        session.ask_with(message).await;
    }
    let usages = usages(&session).await;
    let read: Vec<i64> = usages.iter().map(|it| count(it, "cache_read_input_tokens")).collect();
    let share = |index: usize| read[index] * 100 / input(&usages[index]);
    // The same tools and tool choice: all but the newest message.
    assert!(share(1) > 60 && share(2) > 90, "{usages:?}");
    // The forced answer: tools and system prompt. Own tools: the pinned tools.
    let body = app.upstream().body(0);
    let tokens = |name: &str| i64::try_from(body[name].to_string().len() / 4).unwrap();
    let [tools, system] = ["tools", "system"].map(tokens);
    assert!(read[3] > (tools + system) * 9 / 10 && read[3] < tools + system + 100, "{usages:?}");
    assert!(read[4] > tools * 8 / 10 && read[4] < tools + 100, "{usages:?}");
    let events = session.events().await;
    let ends = events.iter().filter(|event| event["type"] == "span.model_request_end");
    let levels: Vec<&Value> = ends.map(|event| &event["prefix_changed"]["level"]).collect();
    let none = &Value::Null;
    assert_eq!(levels, [none, none, none, &json!("tool_choice"), &json!("tools"), none]);
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_prefix_of_a_request_is_reported_with_its_level() {
    let app = TestApp::start(replies(&[calls("get_time", json!({})), says("Noon.")])).await;
    let session = app.session().await;
    let tool = json!({ "name": "open_door", "description": "Opens a door.", "client": true,
                       "input_schema": { "type": "object" } });
    for tools in [json!([]), json!([tool]), json!([tool]), json!([])] {
        session.ask_with(json!({ "content": "What time is it?", "tools": tools })).await;
    }
    let events = session.events().await;
    let ends = events.iter().filter(|event| event["type"] == "span.model_request_end");
    let changes: Vec<&Value> = ends.map(|event| &event["prefix_changed"]).collect();
    let (none, tools) = (&Value::Null, &json!({ "level": "tools" }));
    assert_eq!(changes, [none, none, tools, none, none, none, tools, none]);
    let metrics = app.get("/metrics").send().await.unwrap().text().await.unwrap();
    let changes =
        metrics.lines().filter_map(|line| line.strip_prefix("twostep_prefix_changes_total"));
    let counted: Vec<&str> = changes.filter(|line| !line.ends_with(" 0")).collect();
    let expected = [r#"{level="tools"} 2"#];
    assert_eq!(counted, expected);
    app.end_refused(&[]);
}

/// Twenty messages with three requests each: thinking, parallel calls, pictures, documents, searches of
/// the server, failed calls and requests that are sent again.
fn conversation() -> Value {
    let look =
        |id: &str| json!({ "type": "tool_use", "name": "get_time", "input": { "timezone": id } });
    let says_more = |text: &str| json!({ "type": "text", "text": text.repeat(10) });
    let thinks = json!({ "type": "thinking", "thinking": "Which clock is right? ".repeat(20) });
    let read =
        |path: &str| json!({ "type": "tool_use", "name": "read_file", "input": { "path": path } });
    let search = json!({ "type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search",
        "input": { "query": "the time" } });
    let found = json!({ "type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [
        { "type": "web_search_result", "url": "https://example.com/", "title": "Time",
          "encrypted_content": "Eo8".repeat(200) }] });
    let busy = json!([{ "status": 529 }]);
    json!({ "conversations": [
        { "when": "clocks", "replies": [
            { "content": [thinks, says_more("I look at both clocks. "), look("UTC"), look("Asia/Tokyo")] },
            { "content": [look("Nowhere/Land")] },
            says("They agree."),
        ] },
        { "when": "picture", "replies": [
            { "content": [says_more("I compare it with the notes. "), read("notes.txt")] },
            { "content": [thinks, read("missing.txt")], "fail_first": busy },
            says("It is red."),
        ] },
        { "when": "search", "replies": [
            { "content": [search, found, says_more("There is one page. "), look("UTC")] },
            { "content": [read("notes.txt"), look("UTC"), look("Europe/Oslo")] },
            says("The page is right."),
        ] },
        { "when": "document", "replies": [
            { "content": [thinks, read("notes.txt")] },
            { "content": [look("UTC")] },
            says("It is a list."),
        ] },
    ], "otherwise": "refuse" })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_of_sixty_requests_with_all_kinds_of_content_reads_98_percent() {
    let server_tools = ["web_search_20250305"].map(|name| name.parse().unwrap()).into();
    let model_rules = ModelRules { server_tools, ..ModelRules::default() };
    let setup = Setup { simulates_cache: true, model_rules, ..Setup::default() };
    let app = TestApp::start_with(conversation(), setup).await;
    app.write_file("notes.txt", &"milk and bread\n".repeat(30));
    let session = app
        .session_with(json!({
            "thinking": { "type": "adaptive" }, "effort": "high", "system": "Be brief. ".repeat(300),
            "tools": ["get_time", "read_file", "web_search"],
        }))
        .await;
    let document = json!({ "type": "document", "title": "A list",
        "source": { "type": "text", "media_type": "text/plain", "data": "bread\n".repeat(300) } });
    let text = |text: &str| json!({ "type": "text", "text": text });
    for _ in 0..5 {
        for content in [
            json!("Compare the clocks"),
            json!([pixel(), text("What is in the picture?")]),
            json!("Please search"),
            json!([document, text("What is the document?")]),
        ] {
            let run = session.ask_with(json!({ "content": content })).await;
            assert_eq!(run["status"], "completed", "{run}");
        }
    }
    let usages = usages(&session).await;
    assert_eq!(usages.len(), 60);
    let possible: i64 = usages.iter().take(59).map(input).sum();
    let read: i64 = usages.iter().map(|usage| count(usage, "cache_read_input_tokens")).sum();
    let figures = format!("60 requests with all content: {read} of {possible} tokens read\n");
    std::io::stderr().write_all(figures.as_bytes()).unwrap();
    assert!(read * 100 >= possible * 98, "{usages:?}");

    let total = session.read().await["usage"].clone();
    for bucket in
        ["input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"]
    {
        let sum: i64 = usages.iter().map(|usage| count(usage, bucket)).sum();
        assert_eq!(count(&total, bucket), sum, "{bucket}");
    }
}
