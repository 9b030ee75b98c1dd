//! Tokens read and written, depending on the position of the markers.

use serde_json::{Map, Value, json};

use super::*;

/// A text of about a thousand tokens.
fn long(name: &str) -> String {
    format!("{name} {}", "x".repeat(5_000))
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn marked(mut block: Value, ttl: &str) -> Value {
    block["cache_control"] = json!({ "type": "ephemeral", "ttl": ttl });
    block
}

fn user(blocks: &[Value]) -> Value {
    json!({ "role": "user", "content": blocks })
}

/// A request with the automatic marker.
fn request(messages: &[Value]) -> Map<String, Value> {
    let Value::Object(request) = json!({
        "model": "simulator",
        "max_tokens": 10,
        "cache_control": { "type": "ephemeral" },
        "tools": [{ "name": "f", "description": long("a tool"), "input_schema": {} }],
        "system": [marked(text(&long("the system prompt")), "5m")],
        "messages": messages,
    }) else {
        unreachable!("an object")
    };
    request
}

fn take(cache: &Cache, request: &Map<String, Value>) -> Input {
    cache.take(ApiRequest(request), Value::Object(request.clone()).to_string().len())
}

/// The tokens that a request reads, in thousands, rounded.
fn thousands_read(cache: &Cache, request: &Map<String, Value>) -> usize {
    take(cache, request).read / 1_200
}

#[test]
fn a_request_reads_what_the_previous_one_wrote() {
    let cache = Cache::default();
    let asked = [user(&[text(&long("first"))])];
    let first = take(&cache, &request(&asked));
    assert_eq!((first.read, first.written_1h), (0, 0));
    assert!(first.written_5m > 3_600 && first.uncached < 60, "{first:?}");
    assert_eq!(take(&cache, &request(&asked)).read, first.written_5m);

    let answered = json!({ "role": "assistant", "content": [text("yes")] });
    let more = [asked[0].clone(), answered, user(&[text(&long("second"))])];
    let second = take(&cache, &request(&more));
    assert_eq!(second.read, first.written_5m);
    assert!(second.written_5m > 1_200 && second.uncached < 60, "{second:?}");
}

#[test]
fn a_change_invalidates_its_level_and_the_later_ones() {
    let asked = [user(&[text(&long("first"))])];
    let base = request(&asked);
    let with = |field: &str, value: Value| {
        let mut changed = base.clone();
        changed.insert(field.to_owned(), value);
        changed
    };
    let tools = json!([{ "name": "g", "description": long("a tool"), "input_schema": {} }]);
    for (changed, kept) in [
        (with("tools", tools), 0),
        (with("model", json!("simulator-2")), 0),
        (with("output_config", json!({ "format": { "type": "json_schema" } })), 0),
        (with("system", json!("other")), 0),
        (with("tool_choice", json!({ "type": "none" })), 2),
        (with("thinking", json!({ "type": "adaptive" })), 2),
        (with("output_config", json!({ "effort": "low" })), 2),
        (with("messages", json!([user(&[text("other")])])), 2),
        (with("max_tokens", json!(20)), 3),
    ] {
        let cache = Cache::default();
        take(&cache, &base);
        assert_eq!(thousands_read(&cache, &changed), kept, "{changed:?}");
    }
}

#[test]
fn a_marker_on_the_tools_survives_a_new_system_prompt() {
    let cache = Cache::default();
    let mut base = request(&[user(&[text("first")])]);
    base["tools"][0]["cache_control"] = json!({ "type": "ephemeral" });
    take(&cache, &base);
    base["system"][0]["text"] = json!(long("another"));
    assert_eq!(thousands_read(&cache, &base), 1);
}

#[test]
fn a_read_checks_twenty_blocks_before_the_marker() {
    for (more, kept) in [(19, 3), (20, 2)] {
        let cache = Cache::default();
        let first = text(&long("first"));
        take(&cache, &request(&[user(std::slice::from_ref(&first))]));
        let blocks: Vec<Value> = (0..more).map(|number| text(&number.to_string())).collect();
        let later = request(&[user(&[first]), user(&blocks)]);
        assert_eq!(thousands_read(&cache, &later), kept, "{more} blocks later");
    }
}

#[test]
fn an_entry_expires_after_its_ttl_and_each_read_renews_it() {
    let minutes = Duration::from_mins;
    for (ttl, within, beyond) in [("5m", minutes(4), minutes(6)), ("1h", minutes(59), minutes(61))]
    {
        let cache = Cache::default();
        let mut base = request(&[user(&[marked(text(&long("first")), ttl)])]);
        base["system"][0] = marked(base["system"][0].clone(), ttl);
        base.shift_remove("cache_control");
        let first = take(&cache, &base);
        assert_eq!(first.written_1h > 0, ttl == "1h");
        assert_eq!(first.written_5m > 0, ttl == "5m");
        for _ in 0..3 {
            cache.advance_clock(within);
            assert_eq!(take(&cache, &base).read, first.written_5m + first.written_1h);
        }
        cache.advance_clock(beyond);
        assert_eq!(take(&cache, &base).read, 0);
    }
}

#[test]
fn a_prefix_below_the_minimum_is_not_cached() {
    for (model, kept) in [("claude-opus-5", true), ("claude-haiku-4-5", false)] {
        let cache = Cache::default();
        let mut base = request(&[user(&[text("first")])]);
        base.insert("model".to_owned(), json!(model));
        take(&cache, &base);
        assert_eq!(take(&cache, &base).read > 0, kept, "{model}");
    }
}

#[test]
fn the_automatic_marker_skips_thinking() {
    let thought = json!({ "type": "thinking", "thinking": "", "signature": "s".repeat(1_000) });
    let written = |blocks: &[Value]| {
        let paused = json!({ "role": "assistant", "content": blocks });
        take(&Cache::default(), &request(&[user(&[text("first")]), paused])).written_5m
    };
    let said = text(&long("well"));
    assert_eq!(written(&[said.clone(), thought]), written(&[said]));
}
