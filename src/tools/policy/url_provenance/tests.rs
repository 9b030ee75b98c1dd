use serde_json::json;

use super::*;

const PAGE: &str = "https://example.com/a?b=c";
const MAX: usize = 3;

fn text(role: &str, text: &str) -> Value {
    json!({ "role": role, "content": [{ "type": "text", "text": text }] })
}

fn call_of(name: &str, input: &Value) -> Value {
    let block = json!({ "type": "tool_use", "id": "toolu_1", "name": name, "input": input });
    json!({ "role": "assistant", "content": [block] })
}

fn call(input: &Value) -> Value {
    call_of("search", input)
}

fn result(text: &str) -> Value {
    let content = json!([{ "type": "text", "text": text }]);
    let block = json!({ "type": "tool_result", "tool_use_id": "toolu_1", "content": content });
    json!({ "role": "user", "content": [block] })
}

/// A call and its result.
fn called(name: &str, answer: &str) -> [Value; 2] {
    [call_of(name, &json!({})), result(answer)]
}

fn facts(name: &str, input: &RawValue) -> CallFacts {
    let (origin, class) = match name {
        "WebFetch" | "search" => (ResultOrigin::PublicWeb, ToolClass::Pure),
        "service" => (ResultOrigin::Service, ToolClass::Pure),
        "Read" => (ResultOrigin::Workspace, ToolClass::Pure),
        "Edit" => (ResultOrigin::Workspace, ToolClass::Checkable),
        "Bash" => (ResultOrigin::Directed, ToolClass::Effect),
        "Task" => (ResultOrigin::Directed, ToolClass::SubAgent),
        // A sub-agent without a tool that reads private data.
        "Scout" => (ResultOrigin::Model, ToolClass::SubAgent),
        _ => (ResultOrigin::Model, ToolClass::Pure),
    };
    let input: Value = serde_json::from_str(input.get()).unwrap();
    let requested_url = input.get("url").and_then(Value::as_str).map(str::to_owned);
    CallFacts { origin, class, requested_url: requested_url.filter(|_| name == "WebFetch") }
}

fn joined(messages: &[Value]) -> String {
    messages.iter().map(Value::to_string).collect::<Vec<_>>().join(",")
}

fn history(messages: &[Value]) -> UrlHistory {
    let messages = joined(messages);
    UrlHistory::read(&source(&messages), &facts)
}

fn source(messages: &str) -> HistorySource<'_> {
    let (is_compacted, is_sub_agent, is_fork) = (false, false, false);
    HistorySource { messages, is_compacted, is_sub_agent, is_fork, task: None, current: &[] }
}

fn verdict(address: &str, messages: &[Value]) -> UrlVerdict {
    history(messages).verdict(address, [], MAX)
}

fn is_known(address: &str, messages: &[Value]) -> bool {
    verdict(address, messages) == UrlVerdict::Known
}

#[test]
fn a_url_is_found_despite_surrounding_punctuation() {
    for said in [
        "https://example.com/a?b=c",
        "Look at https://example.com/a?b=c, please",
        "It is (https://example.com/a?b=c).",
        "[a page](https://example.com/a?b=c) of **https://x.org**",
        "<https://example.com/a?b=c>",
        "**https://example.com/a?b=c**",
        "{\"url\":\"https://example.com/a?b=c\"}",
        "`https://example.com/a?b=c`",
        "HTTPS is https://EXAMPLE.com:443/a?b=c#part",
        "HTTPS://example.com/a?b=c",
        "https://example.com/a?b=c\nnext",
        "http://x.org/?https://example.com/a?b=c",
        "http://example.com/a?b=c",
        "What does (example.com/a?b=c) say?",
    ] {
        assert!(is_known(PAGE, &[text("user", said)]), "{said}");
    }
    let wiki = "https://en.wikipedia.org/wiki/Rust_(programming_language)";
    assert!(is_known(wiki, &[text("user", &format!("see {wiki}."))]));
    assert!(is_known("https://example.com", &[text("user", "https://example.com/#top")]));
}

#[test]
fn a_similar_url_does_not_match() {
    for said in [
        "https://example.com/a?b=cd",
        "https://example.com/a?b=",
        "http://example.com:8080/a?b=c",
        "www.example.com/a?b=c",
        "https://example.com/A?b=c",
        "xhttps:/example.com/a?b=c",
        "",
    ] {
        assert!(!is_known(PAGE, &[text("user", said)]), "{said}");
    }
}

#[test]
fn urls_from_users_and_results_count_and_those_from_the_model_do_not() {
    let own = call(&json!({ "url": PAGE }));
    let cases = [
        (vec![text("user", PAGE), own.clone()], true),
        (vec![text("user", "hi"), call(&json!({})), result(PAGE), own.clone()], true),
        (vec![text("user", "hi"), call(&json!({})), result("example.com/a?b=c")], false),
        (vec![text("user", "hi"), text("assistant", PAGE), own.clone()], false),
        (vec![text("user", "hi"), own.clone()], false),
        // The tool echoes its input, in another notation.
        (vec![text("user", "hi"), call(&json!({ "thought": PAGE })), result(PAGE)], false),
        (vec![call(&json!({ "a": "HTTPS://EXAMPLE.com/a?b=c" })), result(PAGE)], false),
        (vec![call(&json!({ PAGE: 1 })), result(PAGE)], false),
        (vec![text("user", "hi"), text("assistant", PAGE), text("user", PAGE)], true),
        (vec![], false),
    ];
    for (messages, expected) in cases {
        assert_eq!(is_known(PAGE, &messages), expected, "{messages:?}");
    }
}

#[test]
fn a_failed_call_and_an_unknown_call_name_no_url() {
    let mut failed = result(PAGE);
    failed["content"][0]["is_error"] = json!(true);
    assert!(!is_known(PAGE, &[call(&json!({})), failed]));
    assert!(!is_known(PAGE, &[result(PAGE)]));
}

#[test]
fn urls_from_server_side_search_results_count_and_those_from_programs_do_not() {
    let found = |kind: &str| {
        let block = json!({ "type": kind, "tool_use_id": "srvtoolu_1",
            "content": [{ "type": "x", "url": PAGE, "title": "A" }] });
        [text("user", "hi"), json!({ "role": "assistant", "content": [block] })]
    };
    assert!(is_known(PAGE, &found("web_search_tool_result")));
    assert!(!is_known(PAGE, &found("code_execution_tool_result")));
}

#[test]
fn text_that_a_model_or_a_program_composed_names_no_url() {
    for (name, expected) in [
        ("search", true),
        ("service", true),
        ("Read", true),
        ("Edit", false),
        ("Bash", false),
        ("Task", false),
        ("paraphrase_query", false),
    ] {
        assert_eq!(is_known(PAGE, &called(name, PAGE)), expected, "{name}");
    }
}

#[test]
fn files_name_no_url_after_the_model_could_write() {
    for writer in ["Edit", "Bash", "Task"] {
        let [write, written] = called(writer, "Done.");
        let [read, found] = called("Read", PAGE);
        let later = [write.clone(), written.clone(), read.clone(), found.clone()];
        assert_eq!(verdict(PAGE, &later), UrlVerdict::ModelOnly, "{writer}");
        let earlier = [read, found, write, written];
        assert_ne!(verdict(PAGE, &earlier), UrlVerdict::ModelOnly, "{writer}");
    }
}

#[test]
fn files_of_a_fork_name_no_url() {
    let messages = joined(&called("Read", PAGE));
    let source = HistorySource { is_fork: true, ..source(&messages) };
    let history = UrlHistory::read(&source, &facts);
    assert_eq!(history.verdict(PAGE, [], MAX), UrlVerdict::ModelOnly);
    assert!(history.task(PAGE, MAX, 1).has_written);
}

#[test]
fn messages_that_cannot_be_parsed_contain_no_url() {
    let broken = UrlHistory::read(&source(PAGE), &facts);
    assert_eq!(broken.verdict(PAGE, [], MAX), UrlVerdict::ModelOnly);
    assert!(!is_known("no address", &[text("user", "no address")]));
}

fn fetched(url: &str) -> [Value; 2] {
    [call_of("WebFetch", &json!({ "url": url })), result("A page.")]
}

fn link(n: usize) -> String {
    format!("https://example.com/{n}")
}

fn links() -> String {
    (0..9).map(link).collect::<Vec<_>>().join(" ")
}

#[test]
fn links_are_limited_after_private_data_was_read() {
    let start = "https://example.com/";
    let mut messages = vec![text("user", &format!("Read {start}"))];
    messages.extend([call_of("WebFetch", &json!({ "url": start })), result(&links())]);
    for n in 0..MAX {
        assert!(is_known(&link(n), &messages));
        messages.extend(fetched(&link(n)));
    }
    // Nothing private was read.
    assert!(is_known(&link(MAX), &messages));
    messages.extend(called("Read", "secret"));
    let too_many = UrlVerdict::TooManyLinks { max: MAX };
    assert_eq!(verdict(&link(MAX), &messages), too_many);
    assert_eq!(verdict(start, &messages), UrlVerdict::Known);
    // The next message of the user permits as many again.
    messages.push(text("user", "Go on"));
    let history = history(&messages);
    assert_eq!(history.verdict(&link(4), [], MAX), UrlVerdict::Known);
    let (one, two) = (link(1), link(2));
    let earlier = [start, &one, &two];
    assert_eq!(history.verdict(&link(4), earlier, MAX), UrlVerdict::Known);
    assert_eq!(history.verdict(&link(4), [&*one, &two, &one], MAX), too_many);
}

#[test]
fn private_data_is_anything_but_public_pages_and_text_of_models() {
    for (name, is_private) in [
        ("search", false),
        ("paraphrase_query", false),
        ("service", true),
        ("Read", true),
        ("Bash", true),
        ("Task", true),
    ] {
        assert_eq!(history(&called(name, "data")).has_read, is_private, "{name}");
    }
    let attached = json!({ "role": "user", "content": [{ "type": "document", "source": {} }] });
    assert!(history(&[attached]).has_read);
}

#[test]
fn the_calls_that_are_decided_on_are_not_earlier_calls() {
    let block = |n: usize| {
        json!({ "type": "tool_use", "id": format!("toolu_{n}"), "name": "WebFetch",
            "input": { "url": link(n) } })
    };
    let mut messages = vec![text("user", "hi"), call(&json!({})), result(&links())];
    messages.push(json!({ "role": "assistant", "content": [block(1), block(2)] }));
    let messages = joined(&messages);
    let current = [1, 2].map(|n| ToolCall {
        tool_use_id: format!("toolu_{n}"),
        name: "WebFetch".into(),
        input: RawValue::from_string("{}".into()).unwrap(),
    });
    let source = HistorySource { current: &current, ..source(&messages) };
    assert_eq!(UrlHistory::read(&source, &facts).links, 0);
    let source = HistorySource { current: &[], ..source };
    assert_eq!(UrlHistory::read(&source, &facts).links, 2);
}

#[test]
fn a_task_has_the_provenance_of_its_parent() {
    use UrlVerdict::{Known, ModelOnly};
    let mut messages = vec![text("user", &format!("Read {PAGE} and example.org/x"))];
    messages.extend(called("search", &link(1)));
    messages.extend(fetched(&link(1)));
    messages.extend(called("Read", "secret"));
    let prompt = format!("Read {PAGE}, {}, {} and https://example.org/x", link(1), link(2));
    let task = history(&messages).task(&prompt, MAX, 2);
    let expected = TaskProvenance {
        user_urls: vec![PAGE.to_owned(), "https://example.org/x".to_owned()],
        found_urls: vec![link(1)],
        has_read: true,
        has_written: true,
        links: 1,
    };
    assert_eq!(task, expected);

    let messages = joined(&[text("user", &prompt)]);
    let source = HistorySource { is_sub_agent: true, task: Some(&task), ..source(&messages) };
    let history = UrlHistory::read(&source, &facts);
    let verdicts = [PAGE, &link(1), &link(2)].map(|url| history.verdict(url, [], task.links));
    assert_eq!(verdicts, [Known, Known, ModelOnly]);
    let again = history.verdict(&link(1), [&*link(1)], task.links);
    assert_eq!(again, UrlVerdict::TooManyLinks { max: 1 });
    // Without the provenance, the task is the text of a model.
    let source = HistorySource { task: None, ..source };
    let history = UrlHistory::read(&source, &facts);
    assert_eq!(history.verdict(PAGE, [], MAX), ModelOnly);
}

#[test]
fn sub_agents_use_up_the_links_of_their_parent() {
    let mut messages = vec![text("user", "hi")];
    messages.extend(called("search", &links()));
    messages.extend(called("Task", "Done."));
    assert_eq!(verdict(&link(1), &messages), UrlVerdict::TooManyLinks { max: MAX });
    assert_eq!(history(&messages).task("", MAX, 1).links, 0);
}

#[test]
fn sub_agents_without_private_tools_use_up_the_links_once_private_data_was_read() {
    let document = json!({ "role": "user", "content": [{ "type": "document", "source": {} }] });
    let image = json!({ "role": "user", "content": [{ "type": "image", "source": {} }] });
    for (start, is_private) in [(document, true), (image, true), (text("user", "hi"), false)] {
        let mut messages = vec![start];
        messages.extend(called("search", &links()));
        assert_eq!(history(&messages).task("", MAX, 1).links, MAX);
        messages.extend(called("Scout", "Done."));
        assert_eq!(history(&messages).task("", MAX, 1).links, 0);
        let too_many = UrlVerdict::TooManyLinks { max: MAX };
        let expected = if is_private { too_many } else { UrlVerdict::Known };
        assert_eq!(verdict(&link(1), &messages), expected);
    }
}

#[test]
fn a_summary_may_replace_private_data_and_writes() {
    let messages = joined(&called("Read", PAGE));
    let source = HistorySource { is_compacted: true, ..source(&messages) };
    let history = UrlHistory::read(&source, &facts);
    assert!(history.has_read && history.has_written);
    assert_eq!(history.verdict(PAGE, [], MAX), UrlVerdict::ModelOnly);
}
