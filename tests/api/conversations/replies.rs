//! Random replies of the model to one message: rounds of calls, and a last reply.

use fastrand::Rng;
use serde_json::{Value, json};

use super::texts::{odd, spelled};

/// Generates the replies to one message.
pub(super) struct Replies<'a> {
    rng: &'a mut Rng,
    key: &'a str,
    /// Whether the run has a limit of rounds, so that tools may be forbidden.
    is_limited: bool,
    ids: usize,
}

impl<'a> Replies<'a> {
    pub(super) fn new(rng: &'a mut Rng, key: &'a str, is_limited: bool) -> Self {
        Self { rng, key, is_limited, ids: 0 }
    }

    /// The replies, and whether the last one hangs.
    pub(super) fn script(&mut self) -> (Value, bool) {
        let mut replies = Vec::new();
        for _ in 0..self.rng.usize(..4) {
            match self.rng.u8(..8) {
                // When tools are forbidden, the simulator replaces a reply that calls. The open
                // search would then get no result.
                0 if !self.is_limited => replies.extend(self.search()),
                1 if !self.is_limited => replies.extend(self.search_and_call()),
                _ => replies.push(self.calls()),
            }
        }
        replies.push(self.last_reply());
        let hangs = self.rng.u8(..10) == 0;
        if hangs && let Some(last) = replies.last_mut() {
            let content = last.get("content").cloned().unwrap_or_else(|| json!([]));
            *last = json!({ "content": content, "hang_after": self.rng.usize(..8) });
        }
        let replies: Vec<Value> =
            replies.into_iter().map(|reply| self.with_delivery(reply)).collect();
        (replies.into(), hangs)
    }

    /// An id that is unique in the session.
    fn id(&mut self, kind: &str) -> String {
        self.ids += 1;
        format!("{kind}_{}n{}", self.key.replace('.', "m"), self.ids)
    }

    /// The blocks before calls and answers.
    fn preamble(&mut self) -> Vec<Value> {
        let mut blocks = Vec::new();
        if self.rng.bool() {
            let thinking = if self.rng.bool() { odd(self.rng) } else { String::new() };
            blocks.push(json!({ "type": "thinking", "thinking": thinking }));
        }
        if self.rng.u8(..6) == 0 {
            blocks.push(json!({ "type": "redacted_thinking", "data": "RURBQ1RFRA==" }));
        }
        if self.rng.bool() {
            blocks.push(self.text());
        }
        if self.rng.u8(..8) == 0 {
            blocks.push(json!({ "type": "brand_new", "z": odd(self.rng), "a": [1.5, null, {}] }));
        }
        if self.rng.u8(..8) == 0 {
            blocks.push(json!({ "type": "text", "text": "\n " }));
        }
        blocks
    }

    fn text(&mut self) -> Value {
        json!({ "type": "text", "text": odd(self.rng) })
    }

    fn calls(&mut self) -> Value {
        let mut content = self.preamble();
        for _ in 0..=self.rng.usize(..8) {
            content.push(self.call());
        }
        let whole = json!({ "content": content });
        match self.rng.u8(..10) {
            // Truncated in a call at first, and complete with a larger budget.
            0 => {
                let mut truncated = whole.clone();
                truncated["stop_reason"] = "max_tokens".into();
                json!({ "content": content, "fail_first": [truncated] })
            }
            1 => self.raw_calls(),
            _ => whole,
        }
    }

    fn call(&mut self) -> Value {
        let (n, text) = (self.rng.u8(..3), odd(self.rng));
        let (name, input) = match self.rng.u8(..14) {
            0 => ("get_time", json!({ "timezone": "Asia/Tokyo" })),
            1 => ("get_time", json!({ "timezone": text })),
            2 | 3 => ("write_file", json!({ "path": format!("{n}.txt"), "content": text })),
            4 => ("write_file", json!({ "path": format!("asked-{n}.txt"), "content": text })),
            5 => ("write_file", json!({ "path": format!("denied-{n}.txt"), "content": text })),
            6 => ("read_file", json!({ "path": format!("{n}.txt") })),
            7 => ("read_file", json!({ "path": n })),
            8 => ("list_files", json!({})),
            9 => ("no_such_tool", json!({ "text": text })),
            10 => ("open_door", json!({ "door": n })),
            11 => ("get_weather", json!({ "location": "Oslo" })),
            12 => ("sequential_thinking", json!({ "thought": text })),
            _ => return self.misspelled_call(),
        };
        json!({ "type": "tool_use", "name": name, "input": input })
    }

    /// A call whose input is invalid JSON, or valid JSON with an unusual spelling.
    fn misspelled_call(&mut self) -> Value {
        let raw_input = match self.rng.u8(..4) {
            0 => r#"{"path": "ha"#.to_owned(),
            1 => " { } ".to_owned(),
            _ => spelled(self.rng),
        };
        json!({ "type": "tool_use", "name": "list_files", "raw_input": raw_input })
    }

    /// Blocks with a spelling that the simulator itself would not produce.
    fn raw_calls(&mut self) -> Value {
        let id = self.id("toolu");
        let (spelling, input) = (spelled(self.rng), spelled(self.rng));
        let blocks = [
            r#"{ "signature":"c2ln", "thinking" : "", "type":"thinking" }"#.to_owned(),
            format!(r#"{{ "kind":{spelling}, "type":"brand_new" }}"#),
            format!(r#"{{"type":"tool_use","id":"{id}" , "name":"list_files","input":{input}}}"#),
        ];
        let id = self.id("msg");
        json!({ "raw_sse": sse(&id, "tool_use", &blocks) })
    }

    /// A search by a server tool, in a turn that pauses.
    fn search(&mut self) -> Vec<Value> {
        let id = self.id("srvtoolu");
        let mut paused = self.preamble();
        paused.push(search(&id));
        let mut second = vec![search_result(&id)];
        second.extend(self.preamble());
        let call = self.call();
        second.push(call);
        vec![
            json!({ "content": paused, "stop_reason": "pause_turn" }),
            json!({ "content": second }),
        ]
    }

    /// A search by a server tool whose result follows the results of other calls.
    fn search_and_call(&mut self) -> Vec<Value> {
        let id = self.id("srvtoolu");
        let mut first = self.preamble();
        first.push(search(&id));
        let call = self.call();
        first.push(call);
        let mut second = vec![search_result(&id)];
        second.extend(self.preamble());
        let call = self.call();
        second.push(call);
        vec![json!({ "content": first }), json!({ "content": second })]
    }

    /// The last reply, after which the model calls nothing.
    fn last_reply(&mut self) -> Value {
        let mut content = self.preamble();
        content.push(self.text());
        let with = |stop: &str| json!({ "content": content, "stop_reason": stop });
        match self.rng.u8(..18) {
            0 => json!({ "content": content, "stop_sequence": "###" }),
            1 => with("max_tokens"),
            2 => with("model_context_window_exceeded"),
            3 => with("refusal"),
            4 => with("brand_new"),
            5 => with("tool_use"),
            6 => json!({ "content": [], "stop_reason": "end_turn" }),
            7 => {
                content.push(self.call());
                let stop = ["end_turn", "max_tokens", "brand_new"][self.rng.usize(..3)];
                json!({ "content": content, "stop_reason": stop })
            }
            8 => json!({ "status": 400, "error":
                { "type": "invalid_request_error", "message": odd(self.rng) } }),
            9 => json!({ "status": 529, "headers": { "x-should-retry": "false" } }),
            10 => {
                let id = self.id("toolu");
                let call = json!({ "type": "tool_use", "id": id, "name": "list_files" });
                json!({ "content": [call, call] })
            }
            11 => {
                let id = self.id("srvtoolu");
                content.push(search(&id));
                json!({ "content": content, "stop_reason": "end_turn" })
            }
            _ => json!({ "content": content }),
        }
    }

    /// Adds a random pace, random pieces and random failures before it to a reply.
    fn with_delivery(&mut self, mut reply: Value) -> Value {
        let is_reply = reply.get("status").is_none();
        // A placeholder can become a very long text, which would take minutes at a slow pace.
        let has_placeholder = reply.to_string().contains("{{");
        if is_reply && self.rng.u8(..3) == 0 && !has_placeholder {
            reply["pace_ms"] = self.rng.u8(1..8).into();
            // A long reply has larger pieces, so that it does not take much longer.
            reply["chunk"] = (4 + reply.to_string().len() / 50).into();
        }
        if is_reply && self.rng.u8(..6) == 0 {
            reply["split"] = self.rng.u16(16..400).into();
        }
        if is_reply && reply.get("fail_first").is_none() && self.rng.u8(..5) == 0 {
            let failure = self.failure(&reply);
            reply["fail_first"] = json!([failure]);
        }
        reply
    }

    fn failure(&mut self, reply: &Value) -> Value {
        let status = [429, 500, 529][self.rng.usize(..3)];
        let mut broken = reply.clone();
        match self.rng.u8(..4) {
            0 => broken["error_after"] = self.rng.usize(..12).into(),
            1 => broken["cut_after"] = self.rng.usize(..12).into(),
            2 => {
                broken["cut_after"] = json!({ "bytes": self.rng.usize(..2000) });
                broken["cut_clean"] = true.into();
            }
            _ => return json!({ "status": status, "headers": { "retry-after-ms": "20" } }),
        }
        broken["headers"] = json!({ "retry-after-ms": "20" });
        broken
    }
}

fn search(id: &str) -> Value {
    json!({ "type": "server_tool_use", "id": id, "name": "web_search", "input": { "query": "x" } })
}

fn search_result(id: &str) -> Value {
    json!({ "type": "web_search_tool_result", "tool_use_id": id, "content": [
        { "type": "web_search_result", "title": "A", "url": "https://example.org", "encrypted_content": "RQ==" }] })
}

/// A stream in which each block is one piece.
fn sse(id: &str, stop: &str, blocks: &[String]) -> String {
    let usage = r#""usage":{"input_tokens":1,"output_tokens":1}"#;
    let mut events = vec![format!(
        r#"{{"type":"message_start","message":{{"id":"{id}","type":"message","role":"assistant","model":"simulator","content":[],"stop_reason":null,{usage}}}}}"#
    )];
    for (index, block) in blocks.iter().enumerate() {
        // A line of a stream cannot have line breaks.
        let block = block.replace('\n', " ");
        events.push(format!(
            r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#
        ));
        events.push(format!(r#"{{"type":"content_block_stop","index":{index}}}"#));
    }
    events
        .push(format!(r#"{{"type":"message_delta","delta":{{"stop_reason":"{stop}"}},{usage}}}"#));
    events.push(r#"{"type":"message_stop"}"#.to_owned());
    format!("data: {}\n\n", events.join("\n\ndata: "))
}
