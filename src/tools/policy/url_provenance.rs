//! URL provenance: decides whether a URL originates from the user or a tool result rather than from
//! the model.

use std::iter::successors;

use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;

/// The URL schemes that are searched for.
const SCHEMES: [&str; 2] = ["https://", "http://"];
/// Punctuation that often follows a URL without being part of it.
const TRAILING_PUNCTUATION: [char; 16] =
    ['.', ',', ';', ':', '!', '?', ')', ']', '}', '>', '*', '_', '`', '|', '\'', '\u{2019}'];
/// Maximum number of trailing punctuation characters that are stripped.
const MAX_TRAILING: usize = 8;
/// Characters that are valid in a URL but may also end it.
const POSSIBLE_ENDS: [char; 6] = [')', ']', '}', '|', '`', '*'];

#[derive(Deserialize)]
struct Message {
    role: String,
    content: Vec<Value>,
}

/// Returns `true` if the URL originates from a user, or from a tool result before the model wrote
/// it. A tool that echoes its input therefore does not make a URL of the model trusted.
///
/// `messages` are the messages of a request, as JSON objects separated by commas.
pub fn is_url_from_user_or_tool(address: &str, messages: &str) -> bool {
    let Some(address) = normalized_url(address) else { return false };
    // Messages that cannot be parsed contain no URL.
    let messages: Vec<Message> = serde_json::from_str(&format!("[{messages}]")).unwrap_or_default();
    let mut is_own = false;
    for Message { role, content } in &messages {
        for block in content {
            let author = author(role, block);
            if !contains_url(block, &address, &author) {
                continue;
            }
            match author {
                Author::User => return true,
                Author::Tool if !is_own => return true,
                Author::Tool => {}
                Author::Model => is_own = true,
            }
        }
    }
    false
}

/// The author of a content block.
enum Author {
    User,
    Tool,
    Model,
}

fn author(role: &str, block: &Value) -> Author {
    let kind = block.get("type").and_then(Value::as_str).unwrap_or_default();
    if kind.ends_with("tool_result") {
        Author::Tool
    } else if role == "user" {
        Author::User
    } else {
        Author::Model
    }
}

/// Returns `true` if any text of the block contains the URL.
fn contains_url(block: &Value, address: &Url, author: &Author) -> bool {
    let is_same_url = |found: Url| found == *address;
    // People often omit the scheme.
    let is_by_hand = matches!(author, Author::User);
    let mut rest = vec![block];
    while let Some(value) = rest.pop() {
        match value {
            Value::String(text) if addresses(text).any(is_same_url) => return true,
            Value::String(text) if is_by_hand && bare_addresses(text).any(is_same_url) => {
                return true;
            }
            Value::Array(items) => rest.extend(items),
            Value::Object(members) => rest.extend(members.values()),
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    false
}

/// Returns the URLs in a text. Each occurrence yields several candidates, one for each position at
/// which the URL may end.
fn addresses(text: &str) -> impl Iterator<Item = Url> {
    let starts = SCHEMES.iter().flat_map(|scheme| text.match_indices(scheme).map(|(at, _)| at));
    starts.flat_map(|at| {
        let rest = text.get(at..).unwrap_or_default();
        candidates(rest.split(is_end).next().unwrap_or_default()).filter_map(normalized_url)
    })
}

/// Returns the words of a text that could be URLs without a scheme.
fn bare_addresses(text: &str) -> impl Iterator<Item = Url> {
    let words = text.split(is_end).filter(|word| word.contains('.') && !word.contains("://"));
    words.flat_map(|word| {
        let word = word.trim_start_matches(|c: char| !c.is_alphanumeric());
        candidates(word).filter_map(|end| normalized_url(&format!("https://{end}")))
    })
}

fn is_end(c: char) -> bool {
    c.is_whitespace() || c.is_control() || matches!(c, '"' | '<' | '>')
}

/// Returns the prefixes of a text at which a URL may end, beginning with the whole text.
fn candidates(whole: &str) -> impl Iterator<Item = &str> {
    let within = whole.split(POSSIBLE_ENDS).next().unwrap_or_default();
    [whole, within].into_iter().flat_map(|text| {
        successors(Some(text), |text| text.strip_suffix(TRAILING_PUNCTUATION)).take(MAX_TRAILING)
    })
}

/// Parses and normalizes a URL: removes the fragment, which is never sent, and replaces `http` on
/// the default port with `https`.
fn normalized_url(address: &str) -> Option<Url> {
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

    fn is_from_user_or_tool(address: &str, messages: &[Value]) -> bool {
        let messages: Vec<String> = messages.iter().map(Value::to_string).collect();
        is_url_from_user_or_tool(address, &messages.join(","))
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
            "https://example.com/a?b=c\nnext",
            "http://x.org/?https://example.com/a?b=c",
            "http://example.com/a?b=c",
            "What does (example.com/a?b=c) say?",
        ] {
            assert!(is_from_user_or_tool(PAGE, &[text("user", said)]), "{said}");
        }
        let wiki = "https://en.wikipedia.org/wiki/Rust_(programming_language)";
        assert!(is_from_user_or_tool(wiki, &[text("user", &format!("see {wiki}."))]));
        assert!(is_from_user_or_tool(
            "https://example.com",
            &[text("user", "https://example.com/#top")]
        ));
    }

    #[test]
    fn a_similar_url_does_not_match() {
        for said in [
            "https://example.com/a?b=cd",
            "https://example.com/a?b=",
            "http://example.com:8080/a?b=c",
            "www.example.com/a?b=c",
            "https://example.com/A?b=c",
            "",
        ] {
            assert!(!is_from_user_or_tool(PAGE, &[text("user", said)]), "{said}");
        }
    }

    #[test]
    fn urls_from_users_and_tool_results_count_and_those_from_the_model_do_not() {
        let own = call(&json!({ "url": PAGE }));
        let cases = [
            (vec![text("user", PAGE), own.clone()], true),
            (vec![text("user", "hi"), result(PAGE), own.clone()], true),
            (vec![text("user", "hi"), result("example.com/a?b=c"), own.clone()], false),
            (vec![text("user", "hi"), text("assistant", PAGE), own.clone()], false),
            (vec![text("user", "hi"), own.clone()], false),
            // The tool echoes its input.
            (vec![text("user", "hi"), call(&json!({ "thought": PAGE })), result(PAGE)], false),
            (vec![text("user", "hi"), text("assistant", PAGE), text("user", PAGE)], true),
            (vec![], false),
        ];
        for (messages, expected) in cases {
            assert_eq!(is_from_user_or_tool(PAGE, &messages), expected, "{messages:?}");
        }
    }

    #[test]
    fn urls_from_server_side_search_results_count() {
        let block = json!({ "type": "web_search_tool_result", "tool_use_id": "srvtoolu_1",
            "content": [{ "type": "web_search_result", "url": PAGE, "title": "A" }] });
        let message = json!({ "role": "assistant", "content": [block] });
        assert!(is_from_user_or_tool(PAGE, &[text("user", "hi"), message]));
    }

    #[test]
    fn messages_that_cannot_be_parsed_contain_no_url() {
        assert!(!is_url_from_user_or_tool(PAGE, PAGE));
        assert!(!is_url_from_user_or_tool("no address", "no address"));
    }
}
