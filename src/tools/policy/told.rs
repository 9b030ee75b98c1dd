//! Which addresses a conversation has named, besides those that the model has made up.

use std::iter::successors;

use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;

/// What an address in a text begins with.
const SCHEMES: [&str; 2] = ["https://", "http://"];
/// What often follows an address and is no part of it.
const AFTER: [char; 16] =
    ['.', ',', ';', ':', '!', '?', ')', ']', '}', '>', '*', '_', '`', '|', '\'', '\u{2019}'];
/// How many of these signs are looked at.
const MAX_AFTER: usize = 8;
/// Signs at which an address may end though it could have them.
const WITHIN: [char; 6] = [')', ']', '}', '|', '`', '*'];

#[derive(Deserialize)]
struct Message {
    role: String,
    content: Vec<Value>,
}

/// Whether somebody else than the model has named an address, in these messages: a user, or the
/// result of a call, unless the model had written it before. A tool that repeats what it is given
/// makes no address of the model's a known one.
///
/// `messages` are those of a request, as JSON with commas between them.
pub fn is_told(address: &str, messages: &str) -> bool {
    let Some(address) = plain(address) else { return false };
    // What cannot be read names nothing.
    let messages: Vec<Message> = serde_json::from_str(&format!("[{messages}]")).unwrap_or_default();
    let mut is_own = false;
    for Message { role, content } in &messages {
        for block in content {
            let speaker = speaker(role, block);
            if !names(block, &address, &speaker) {
                continue;
            }
            match speaker {
                Speaker::User => return true,
                Speaker::Tool if !is_own => return true,
                Speaker::Tool => {}
                Speaker::Model => is_own = true,
            }
        }
    }
    false
}

/// Who says what is in a block.
enum Speaker {
    User,
    Tool,
    Model,
}

fn speaker(role: &str, block: &Value) -> Speaker {
    let kind = block.get("type").and_then(Value::as_str).unwrap_or_default();
    if kind.ends_with("tool_result") {
        Speaker::Tool
    } else if role == "user" {
        Speaker::User
    } else {
        Speaker::Model
    }
}

/// Whether an address stands in any text of a block.
fn names(block: &Value, address: &Url, speaker: &Speaker) -> bool {
    let is_it = |found: Url| found == *address;
    // Who writes by hand leaves out how it begins.
    let is_by_hand = matches!(speaker, Speaker::User);
    let mut rest = vec![block];
    while let Some(value) = rest.pop() {
        match value {
            Value::String(text) if addresses(text).any(is_it) => return true,
            Value::String(text) if is_by_hand && bare_addresses(text).any(is_it) => return true,
            Value::Array(items) => rest.extend(items),
            Value::Object(members) => rest.extend(members.values()),
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    false
}

/// The addresses in a text: each to its end, and to where it may end before that.
fn addresses(text: &str) -> impl Iterator<Item = Url> {
    let starts = SCHEMES.iter().flat_map(|scheme| text.match_indices(scheme).map(|(at, _)| at));
    starts.flat_map(|at| {
        let rest = text.get(at..).unwrap_or_default();
        ends(rest.split(is_end).next().unwrap_or_default()).filter_map(plain)
    })
}

/// The words of a text that may be addresses without their beginning.
fn bare_addresses(text: &str) -> impl Iterator<Item = Url> {
    let words = text.split(is_end).filter(|word| word.contains('.') && !word.contains("://"));
    words.flat_map(|word| {
        let word = word.trim_start_matches(|c: char| !c.is_alphanumeric());
        ends(word).filter_map(|end| plain(&format!("https://{end}")))
    })
}

fn is_end(c: char) -> bool {
    c.is_whitespace() || c.is_control() || matches!(c, '"' | '<' | '>')
}

/// An address to its end, and to where it may end before that.
fn ends(whole: &str) -> impl Iterator<Item = &str> {
    let within = whole.split(WITHIN).next().unwrap_or_default();
    [whole, within]
        .into_iter()
        .flat_map(|text| successors(Some(text), |text| text.strip_suffix(AFTER)).take(MAX_AFTER))
}

/// An address as it is asked for: without what its server is not told, and by TLS.
fn plain(address: &str) -> Option<Url> {
    let mut url = Url::parse(address).ok()?;
    url.set_fragment(None);
    if url.scheme() == "http" && url.port().is_none() {
        url.set_scheme("https").ok()?;
    }
    Some(url)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PAGE: &str = "https://example.com/a?b=c";

    fn text(role: &str, text: &str) -> Value {
        json!({ "role": role, "content": [{ "type": "text", "text": text }] })
    }

    fn call(input: &Value) -> Value {
        let block = json!({ "type": "tool_use", "id": "toolu_1", "name": "x", "input": input });
        json!({ "role": "assistant", "content": [block] })
    }

    fn result(text: &str) -> Value {
        let content = json!([{ "type": "text", "text": text }]);
        let block = json!({ "type": "tool_result", "tool_use_id": "toolu_1", "content": content });
        json!({ "role": "user", "content": [block] })
    }

    fn is_told_in(address: &str, messages: &[Value]) -> bool {
        let messages: Vec<String> = messages.iter().map(Value::to_string).collect();
        is_told(address, &messages.join(","))
    }

    #[test]
    fn an_address_is_found_wherever_it_ends_in_a_text() {
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
            "https://example.com/a?b=c\nnext",
            "http://x.org/?https://example.com/a?b=c",
            "http://example.com/a?b=c",
            "What does (example.com/a?b=c) say?",
        ] {
            assert!(is_told_in(PAGE, &[text("user", said)]), "{said}");
        }
        let wiki = "https://en.wikipedia.org/wiki/Rust_(programming_language)";
        assert!(is_told_in(wiki, &[text("user", &format!("see {wiki}."))]));
        assert!(is_told_in("https://example.com", &[text("user", "https://example.com/#top")]));
    }

    #[test]
    fn an_address_that_only_looks_like_one_that_was_named_was_not() {
        for said in [
            "https://example.com/a?b=cd",
            "https://example.com/a?b=",
            "http://example.com:8080/a?b=c",
            "www.example.com/a?b=c",
            "https://example.com/A?b=c",
            "",
        ] {
            assert!(!is_told_in(PAGE, &[text("user", said)]), "{said}");
        }
    }

    #[test]
    fn users_and_results_name_addresses_and_the_model_does_not() {
        let own = call(&json!({ "url": PAGE }));
        let cases = [
            (vec![text("user", PAGE), own.clone()], true),
            (vec![text("user", "hi"), result(PAGE), own.clone()], true),
            (vec![text("user", "hi"), result("example.com/a?b=c"), own.clone()], false),
            (vec![text("user", "hi"), text("assistant", PAGE), own.clone()], false),
            (vec![text("user", "hi"), own.clone()], false),
            // What comes back is what the model has put in.
            (vec![text("user", "hi"), call(&json!({ "thought": PAGE })), result(PAGE)], false),
            (vec![text("user", "hi"), text("assistant", PAGE), text("user", PAGE)], true),
            (vec![], false),
        ];
        for (messages, expected) in cases {
            assert_eq!(is_told_in(PAGE, &messages), expected, "{messages:?}");
        }
    }

    #[test]
    fn what_the_models_side_has_found_was_found() {
        let block = json!({ "type": "web_search_tool_result", "tool_use_id": "srvtoolu_1",
            "content": [{ "type": "web_search_result", "url": PAGE, "title": "A" }] });
        let message = json!({ "role": "assistant", "content": [block] });
        assert!(is_told_in(PAGE, &[text("user", "hi"), message]));
    }

    #[test]
    fn what_is_no_history_names_nothing() {
        assert!(!is_told(PAGE, PAGE));
        assert!(!is_told("no address", "no address"));
    }
}
