//! A random conversation: what its session pins, what is said, and what happens meanwhile.

use fastrand::Rng;
use serde_json::{Value, json};

use super::replies::Replies;
use super::words::{content, odd, short};

/// A conversation.
pub(super) struct Plan {
    /// What finds it again.
    pub(super) seed: u64,
    /// The name under which the model's side knows its session.
    pub(super) name: String,
    /// What the session is made with.
    pub(super) session: Value,
    /// What happens, in this order.
    pub(super) moves: Vec<Move>,
}

/// A message and what becomes of its run.
pub(super) struct Move {
    /// The message as it is posted.
    pub(super) body: Value,
    /// What the model says to it, in the form of a script.
    pub(super) script: Value,
    /// How many events of the run are waited for before the deed is done.
    pub(super) after: usize,
    /// What is done while the run is under way.
    pub(super) deed: Deed,
    /// The dice of those who answer calls.
    pub(super) seed: u64,
    /// Whether it is said in a fork of the session, if that is at rest.
    pub(super) is_forked: bool,
}

/// What is done to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    /// It is only followed.
    Watch,
    /// It is cancelled.
    Cancel,
    /// The service is killed and started again.
    Kill,
    /// The service is stopped in order and started again.
    Stop,
    /// The next message is posted, with this `on_busy`.
    Crowd(&'static str),
}

impl Plan {
    /// The conversation of a seed.
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let name = format!("talk-{seed}");
        let model = ["simulator", "claude-opus-5-5", "claude-haiku-4-5"][rng.usize(..3)];
        let session = session(&mut rng, model, &name);
        let count = 3 + rng.usize(..4);
        let mut moves: Vec<Move> =
            (0..count).map(|at| Move::new(&mut rng, &format!("{seed}.{at}"), model)).collect();
        moves.push(Move::last(&format!("{seed}.end")));
        Self { seed, name, session, moves }
    }
}

impl Move {
    /// The text that no other message has.
    pub(super) fn key(&self) -> &str {
        self.script["when"].as_str().unwrap()
    }

    /// Whether somebody stops the run.
    pub(super) fn stops_the_run(&self) -> bool {
        matches!(self.deed, Deed::Cancel | Deed::Crowd("interrupt"))
    }

    fn new(rng: &mut Rng, key: &str, model: &str) -> Self {
        let is_limited = rng.u8(..6) == 0;
        let (script, hangs) = Replies::new(rng, key, is_limited).script();
        let deed = match rng.u8(..12) {
            // Somebody has to stop what hangs.
            _ if hangs => Deed::Cancel,
            0 | 1 => Deed::Cancel,
            2 | 3 => Deed::Kill,
            4 => Deed::Stop,
            5 | 6 => Deed::Crowd("queue"),
            7 | 8 => Deed::Crowd("interrupt"),
            _ => Deed::Watch,
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
        Self { body, script, after, deed, seed, is_forked }
    }

    /// A session that has seen all of this still answers.
    fn last(key: &str) -> Self {
        let reply = json!({ "content": [{ "type": "text", "text": "Still here." }] });
        Self {
            body: json!({ "content": format!("[{key}] Are you there?") }),
            script: json!({ "when": format!("[{key}]"), "replies": [reply] }),
            after: 0,
            deed: Deed::Watch,
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
    // The third model can do neither.
    if model != "claude-haiku-4-5" {
        session["context"] = context(rng);
    }
    if model == "claude-opus-5-5" {
        session["thinking"] = json!({ "type": "adaptive" });
        session["effort"] = "low".into();
    }
    session
}

/// Some are summed up now and then, and some have old results left out.
fn context(rng: &mut Rng) -> Value {
    let clears = json!({ "type": "clear_tool_uses_20250919",
        "trigger": { "type": "tool_uses", "value": 2 + rng.u8(..4) },
        "keep": { "type": "tool_uses", "value": 1 } });
    match rng.u8(..4) {
        0 => json!({}),
        1 => json!({ "edits": [clears] }),
        2 => json!({ "edits": [clears], "compact_at": 1000 * u32::from(2 + rng.u8(..4)) }),
        _ => json!({ "compact_at": 1000 * u32::from(1 + rng.u8(..6)) }),
    }
}
