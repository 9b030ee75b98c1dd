//! A random conversation: the settings of its session, its messages, and actions during its runs.

use fastrand::Rng;
use serde_json::{Value, json};

use super::replies::Replies;
use super::texts::{content, odd, short};

/// A conversation.
pub(super) struct Plan {
    /// The seed that reproduces the conversation.
    pub(super) seed: u64,
    /// The name of the session in requests to the model (`user_id`).
    pub(super) name: String,
    /// The body of the request that creates the session.
    pub(super) session: Value,
    /// The messages in order.
    pub(super) messages: Vec<PlannedMessage>,
}

/// A message, the replies of the model, and an action during its run.
pub(super) struct PlannedMessage {
    /// The body of the request that posts the message.
    pub(super) body: Value,
    /// The script of the model's replies.
    pub(super) script: Value,
    /// The number of events of the run before the action.
    pub(super) after: usize,
    /// The action during the run.
    pub(super) action: Action,
    /// The seed of the answers to its calls.
    pub(super) seed: u64,
    /// Whether it is posted to a fork of the session, unless a run is active.
    pub(super) is_forked: bool,
}

/// An action during a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Only reads its events.
    Follow,
    /// Cancels the run.
    Cancel,
    /// Kills and restarts the service.
    Kill,
    /// Shuts the service down and restarts it.
    Stop,
    /// Posts the next message, with this `on_busy`.
    PostNext(&'static str),
}

impl Plan {
    /// The conversation of a seed.
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let name = format!("talk-{seed}");
        let model = ["simulator", "claude-opus-5-5", "claude-haiku-4-5"][rng.usize(..3)];
        let session = session(&mut rng, model, &name);
        let count = 3 + rng.usize(..4);
        let mut messages: Vec<PlannedMessage> = (0..count)
            .map(|index| PlannedMessage::new(&mut rng, &format!("{seed}.{index}"), model))
            .collect();
        messages.push(PlannedMessage::last(&format!("{seed}.end")));
        // The others compact their history by default.
        if model != "claude-haiku-4-5" {
            messages.iter_mut().for_each(PlannedMessage::fill_no_window);
        }
        Self { seed, name, session, messages }
    }
}

impl PlannedMessage {
    /// The part of the text that identifies the message.
    pub(super) fn key(&self) -> &str {
        self.script["when"].as_str().unwrap()
    }

    /// Whether the action cancels the run.
    pub(super) fn stops_the_run(&self) -> bool {
        matches!(self.action, Action::Cancel | Action::PostNext("interrupt"))
    }

    /// Lets no reply fill the context window: the run would be compacted and go on, without the text by
    /// which the simulator selects the script.
    fn fill_no_window(&mut self) {
        let script = self.script.to_string();
        let script = script.replace("model_context_window_exceeded", "max_tokens");
        self.script = serde_json::from_str(&script).unwrap();
    }

    fn new(rng: &mut Rng, key: &str, model: &str) -> Self {
        let is_limited = rng.u8(..6) == 0;
        let (script, hangs) = Replies::new(rng, key, is_limited).script();
        let action = match rng.u8(..12) {
            // A run that hangs must be cancelled.
            _ if hangs => Action::Cancel,
            0 | 1 => Action::Cancel,
            2 | 3 => Action::Kill,
            4 => Action::Stop,
            5 | 6 => Action::PostNext("queue"),
            7 | 8 => Action::PostNext("interrupt"),
            _ => Action::Follow,
        };
        let mut body = json!({ "content": content(rng, key) });
        if is_limited {
            body["limits"] = json!({ "rounds": rng.u8(..3) });
        }
        if rng.u8(..8) == 0 {
            body["tool_choice"] = json!({ "type": "none" });
        } else if rng.u8(..8) == 0 && model == "simulator" {
            body["tool_choice"] = json!({ "type": "any" });
        }
        let script = json!({ "when": format!("[{key}]"), "replies": script });
        let (after, seed, is_forked) = (rng.usize(..9), rng.u64(..), rng.u8(..4) == 0);
        Self { body, script, after, action, seed, is_forked }
    }

    /// The last message, which checks that the session still answers.
    fn last(key: &str) -> Self {
        let reply = json!({ "content": [{ "type": "text", "text": "Still here." }] });
        Self {
            body: json!({ "content": format!("[{key}] Are you there?") }),
            script: json!({ "when": format!("[{key}]"), "replies": [reply] }),
            after: 0,
            action: Action::Follow,
            seed: 0,
            is_forked: true,
        }
    }
}

fn session(rng: &mut Rng, model: &str, name: &str) -> Value {
    let door = json!({ "name": "open_door", "description": short(rng), "client": true,
        "input_schema": { "type": "object", "properties": { "door": { "type": "integer" } } } });
    let rule = |path: &str, decision: &str, reason: &str| {
        json!({ "tool": "write_file", "input": { "path": path }, "decision": decision,
                "reason": reason })
    };
    let mut session = json!({
        "model": model,
        "max_tokens": 1000,
        "model_metadata": { "user_id": name },
        "tools": ["read_file", "write_file", "list_files", "get_time", "get_weather",
                  "sequential_thinking", "web_search", door],
        "permissions": [rule("asked-*", "ask", "Who knows."), rule("denied-*", "deny", &short(rng))],
    });
    match rng.u8(..3) {
        0 => session["system"] = odd(rng).into(),
        1 => {
            let block = |rng: &mut Rng| json!({ "type": "text", "text": odd(rng) });
            session["system"] = json!([block(rng), block(rng)]);
        }
        _ => {}
    }
    // The third model supports neither context management nor thinking.
    if model != "claude-haiku-4-5" {
        session["context"] = context(rng);
    }
    if model == "claude-opus-5-5" {
        session["thinking"] = json!({ "type": "adaptive" });
        session["effort"] = "low".into();
    }
    session
}

/// Random context management: compaction, and clearing of old results.
fn context(rng: &mut Rng) -> Value {
    let clear = json!({ "type": "clear_tool_uses_20250919",
        "trigger": { "type": "tool_uses", "value": 2 + rng.u8(..4) },
        "keep": { "type": "tool_uses", "value": 1 } });
    match rng.u8(..4) {
        0 => json!({}),
        1 => json!({ "edits": [clear] }),
        2 => json!({ "edits": [clear], "compact_at": 1000 * u32::from(2 + rng.u8(..4)) }),
        _ => json!({ "compact_at": 1000 * u32::from(1 + rng.u8(..6)) }),
    }
}
