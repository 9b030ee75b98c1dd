//! The properties of a model, derived from its name, and its entry in the list of models.

use serde_json::{Value, json};

/// The context window of older models in tokens.
const SHORT_WINDOW: u64 = 200_000;

/// The largest `max_tokens` of any model.
const MAX_OUTPUT: u64 = 128_000;

/// The values of `output_config.effort`, in ascending order.
pub(crate) const EFFORTS: [&str; 5] = ["low", "medium", "high", "xhigh", "max"];

/// The type of the edit that clears thinking.
pub(crate) const CLEAR_THINKING: &str = "clear_thinking_20251015";

/// The type of the edit that clears tool results.
pub(crate) const CLEAR_TOOL_USES: &str = "clear_tool_uses_20250919";

/// The type of the edit that summarizes.
pub(crate) const COMPACT: &str = "compact_20260112";

/// The types of `context_management.edits`.
pub(crate) const EDITS: [&str; 3] = [CLEAR_THINKING, CLEAR_TOOL_USES, COMPACT];

/// The models that `GET /v1/models` lists.
const LISTED: [&str; 9] = [
    "simulator",
    "claude-fable-5-2",
    "claude-opus-5-5",
    "claude-opus-5",
    "claude-sonnet-5-5",
    "claude-sonnet-5",
    "claude-haiku-5-5",
    "claude-sonnet-4-6",
    "claude-haiku-4-5",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Simulator,
    Fable,
    Opus,
    Sonnet,
    Haiku,
    Other,
}

/// A model, identified by its name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Model<'a> {
    pub(crate) name: &'a str,
    family: Family,
    version: (u32, u32),
}

impl<'a> Model<'a> {
    /// Returns the model with this name. Every name with a known prefix is a model.
    pub(crate) fn find(name: &'a str) -> Option<Self> {
        if name.starts_with("simulator") {
            return Some(Self { name, family: Family::Simulator, version: (0, 0) });
        }
        let words: Vec<&str> = name.strip_prefix("claude-")?.split('-').collect();
        let family = words.iter().find_map(|word| match *word {
            "fable" | "mythos" => Some(Family::Fable),
            "opus" => Some(Family::Opus),
            "sonnet" => Some(Family::Sonnet),
            "haiku" => Some(Family::Haiku),
            _ => None,
        });
        let version = if words.contains(&"preview") { (5, 1) } else { version(&words) };
        Some(Self { name, family: family.unwrap_or(Family::Other), version })
    }

    fn is_simulator(self) -> bool {
        self.family == Family::Simulator
    }

    /// True if `tool_choice` can force a call.
    pub(crate) fn takes_forced_tools(self) -> bool {
        match self.family {
            Family::Fable => self.version < (5, 1),
            Family::Opus | Family::Sonnet => self.version < (5, 5),
            Family::Simulator | Family::Haiku | Family::Other => true,
        }
    }

    /// True if the model accepts `temperature`, `top_p` and `top_k`.
    pub(crate) fn takes_sampling(self) -> bool {
        self.is_simulator() || self.version <= (4, 6)
    }

    /// True if the model accepts `temperature` and `top_p` together. Public reports on Haiku 4.5,
    /// Sonnet 4.5 and 4.6, and Opus 4.5 and 4.6 quote the refusal.
    pub(crate) fn takes_temperature_with_top_p(self) -> bool {
        self.is_simulator() || self.version < (4, 5)
    }

    /// True if tools can be called from code that the model executes. Documentation of programmatic
    /// tool calling, "Model compatibility": Opus and Sonnet from 4.5, and Fable; Haiku 4.5 accepts the
    /// versions of the tools, but not such calls.
    pub(crate) fn calls_from_code(self) -> bool {
        match self.family {
            Family::Simulator | Family::Fable | Family::Other => true,
            Family::Opus | Family::Sonnet => self.version >= (4, 5),
            Family::Haiku => self.version >= (5, 0),
        }
    }

    /// True if the model expands references to deferred tools. Documentation of the tool search tool,
    /// "Model compatibility": Opus and Sonnet from 4.0, Haiku from 4.5.
    pub(crate) fn has_tool_search(self) -> bool {
        match self.family {
            Family::Simulator | Family::Fable | Family::Other => true,
            Family::Opus | Family::Sonnet => self.version >= (4, 0),
            Family::Haiku => self.version >= (4, 5),
        }
    }

    /// True if `messages` can contain system messages.
    pub(crate) fn takes_system_messages(self) -> bool {
        match self.family {
            Family::Opus => self.version >= (4, 8),
            Family::Fable => self.version >= (5, 0),
            Family::Simulator | Family::Sonnet | Family::Haiku | Family::Other => false,
        }
    }

    /// True if `thinking.type` can have this value.
    pub(crate) fn takes_thinking(self, kind: &str) -> bool {
        let adaptive_only = match self.family {
            Family::Fable => true,
            Family::Opus | Family::Sonnet => self.version >= (5, 5),
            Family::Simulator | Family::Haiku | Family::Other => false,
        };
        match kind {
            _ if self.is_simulator() => true,
            "adaptive" => self.version >= (4, 6),
            "enabled" => self.version <= (4, 6) && !adaptive_only,
            "disabled" => !adaptive_only,
            "between_tools" => self.family == Family::Sonnet && self.version >= (5, 5),
            _ => false,
        }
    }

    /// True if `output_config.effort` can have this value.
    pub(crate) fn takes_effort(self, level: &str) -> bool {
        let first = match self.family {
            Family::Simulator => return true,
            Family::Opus => (4, 5),
            Family::Sonnet => (4, 6),
            Family::Fable | Family::Haiku => (5, 0),
            Family::Other => return false,
        };
        match level {
            _ if self.version < first => false,
            "max" => self.version >= (4, 6),
            "xhigh" => self.version >= (4, 7) && !self.name.ends_with("-preview"),
            level => EFFORTS.contains(&level),
        }
    }

    /// True if thinking can be disabled at this effort, for models that can disable it at all.
    pub(crate) fn takes_disabled_thinking_at(self, level: &str) -> bool {
        let thinks = match self.family {
            Family::Opus => self.version >= (5, 0),
            Family::Haiku => self.version >= (5, 5),
            Family::Simulator | Family::Fable | Family::Sonnet | Family::Other => false,
        };
        !(thinks && matches!(level, "xhigh" | "max"))
    }

    /// True if the model accepts `output_config.format`.
    pub(crate) fn takes_format(self) -> bool {
        self.is_simulator() || self.version >= (4, 5)
    }

    /// True if the model thinks by default.
    pub(crate) fn thinks_by_default(self) -> bool {
        self.is_least_limited() || self.version >= (5, 0)
    }

    /// True if the model supports the edits that clear thinking and tool results.
    pub(crate) fn clears_context(self) -> bool {
        self.is_least_limited() || self.version >= (4, 0)
    }

    /// True if the model supports summaries, automatic and on request.
    pub(crate) fn can_compact(self) -> bool {
        self.is_least_limited() || self.version > (4, 5)
    }

    /// True if the edit that clears thinking keeps all of it by default.
    pub(crate) fn keeps_thinking(self) -> bool {
        match self.family {
            Family::Fable => true,
            Family::Opus => self.version >= (4, 5),
            Family::Sonnet => self.version >= (4, 6),
            Family::Simulator | Family::Haiku | Family::Other => false,
        }
    }

    fn is_least_limited(self) -> bool {
        matches!(self.family, Family::Simulator | Family::Other)
    }

    /// The maximum number of input tokens.
    fn most_input(self, most: u64) -> u64 {
        let is_short = !self.is_simulator() && self.version <= (4, 5);
        if is_short { most.min(SHORT_WINDOW) } else { most }
    }

    /// The largest `max_tokens`.
    pub(crate) fn most_output(self) -> u64 {
        if self.is_simulator() || self.version > (4, 5) { MAX_OUTPUT } else { 64_000 }
    }

    /// The minimum length of a cached prefix in tokens. The documentation does not give it for the
    /// newest models; they get the values of their predecessors.
    pub(crate) fn least_cached(self) -> usize {
        match (self.family, self.version) {
            (Family::Opus, version) if version >= (5, 0) => 512,
            (Family::Fable, _) => 512,
            (Family::Opus, (4, 7)) => 2_048,
            (Family::Opus | Family::Haiku, version) if version < (4, 7) => 4_096,
            (
                Family::Opus | Family::Simulator | Family::Sonnet | Family::Haiku | Family::Other,
                _,
            ) => 1_024,
        }
    }

    fn entry(self, max_input_tokens: u64) -> Value {
        let types: serde_json::Map<String, Value> =
            ["adaptive", "between_tools", "disabled", "enabled"]
                .into_iter()
                .map(|kind| (kind.to_owned(), json!({ "supported": self.takes_thinking(kind) })))
                .collect();
        json!({
            "type": "model",
            "id": self.name,
            "display_name": self.name,
            "created_at": "2026-01-01T00:00:00Z",
            "lifecycle": "active",
            "max_input_tokens": self.most_input(max_input_tokens),
            "max_tokens": self.most_output(),
            "capabilities": {
                "thinking": { "supported": true, "types": types },
                "effort": self.efforts(),
                "structured_outputs": { "supported": self.takes_format() },
                "image_input": { "supported": true },
                "pdf_input": { "supported": true },
                "citations": { "supported": true },
                "batch": { "supported": false },
                "code_execution": { "supported": false },
                "context_management": self.context_management(),
                "compaction": { "supported": self.can_compact() },
            },
        })
    }

    fn context_management(self) -> Value {
        let has = |edit| if edit == COMPACT { self.can_compact() } else { self.clears_context() };
        let edits = EDITS.map(|edit| (edit.to_owned(), json!({ "supported": has(edit) })));
        let own = [("supported".to_owned(), self.clears_context().into())];
        own.into_iter().chain(edits).collect()
    }

    fn efforts(self) -> Value {
        let takes = |level: &&'static str| self.takes_effort(level);
        let mut levels: serde_json::Map<String, Value> = EFFORTS
            .iter()
            .map(|level| ((*level).to_owned(), json!({ "supported": takes(level) })))
            .collect();
        levels.insert("supported".to_owned(), EFFORTS.iter().any(takes).into());
        Value::Object(levels)
    }
}

/// The response of `GET /v1/models`.
pub(crate) fn list(max_input_tokens: u64) -> Value {
    let data: Vec<Value> = LISTED
        .into_iter()
        .filter_map(|name| Some(Model::find(name)?.entry(max_input_tokens)))
        .collect();
    json!({
        "data": data,
        "has_more": false,
        "first_id": LISTED.first(),
        "last_id": LISTED.last(),
    })
}

/// The response of `GET /v1/models/{id}`.
pub(crate) fn find(name: &str, max_input_tokens: u64) -> Option<Value> {
    Some(Model::find(name)?.entry(max_input_tokens))
}

/// Returns the first two numbers of the name; a date is not a version.
fn version(words: &[&str]) -> (u32, u32) {
    let mut numbers =
        words.iter().filter_map(|word| word.parse::<u32>().ok()).filter(|number| *number < 1000);
    (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default())
}
