//! The model and the parameters of generation: those of a message in place of the session's, and checks against the model
//! and the protocol of its server.

use serde::Deserialize;

use super::generation::Generation;
use super::model::Capabilities;
use super::provider::Provider;
use super::run_options::RunOptions;
use super::session::Settings;
use super::settings_check::UnsupportedSetting;

/// Minimum of `top_p` with thinking in the Messages API.
const MIN_TOP_P_WITH_THINKING: f64 = 0.95;

/// The members of a request of Responses that the service sets, besides those that no `extra_body` may have.
const OF_RESPONSES: [&str; 7] = [
    "background",
    "conversation",
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "store",
];

impl Settings {
    /// Returns true if `thinking` is enabled or adaptive.
    pub fn thinks(&self) -> bool {
        self.thinking_type().is_some_and(|kind| matches!(kind.as_str(), "enabled" | "adaptive"))
    }

    /// Returns true if `thinking` is disabled.
    pub fn disables_thinking(&self) -> bool {
        self.thinking_type().is_some_and(|kind| kind == "disabled")
    }

    /// The type of `thinking`, if it is set.
    fn thinking_type(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Thinking {
            r#type: String,
        }
        let thinking: Thinking = serde_json::from_str(self.thinking.as_ref()?.get()).ok()?;
        Some(thinking.r#type)
    }

    /// The settings that Responses does not have, or that the service sets itself.
    fn lacking_in_responses(&self) -> Vec<(&'static str, String)> {
        let Generation { top_k, seed, .. } = &self.model_options.generation;
        let members = [
            ("/top_k", top_k.is_some()),
            ("/seed", seed.is_some()),
            ("/stop_sequences", !self.stop_sequences.is_empty()),
        ];
        let lacking = members.into_iter().filter(|(_, is_given)| *is_given);
        let mut found: Vec<_> = lacking
            .map(|(pointer, _)| (pointer, "is not a member of Responses".to_owned()))
            .collect();
        let extra = self.model_options.generation.extra();
        let own = OF_RESPONSES.into_iter().filter(|name| extra.contains_key(*name));
        found
            .extend(own.map(|name| ("/extra_body", format!("has {name}, which the service sets"))));
        for (object, member, setting) in
            [("reasoning", "effort", "effort"), ("text", "format", "output_schema")]
        {
            if extra.get(object).and_then(|members| members.get(member)).is_some() {
                let reason = format!("has {object}.{member}; set {setting} instead");
                found.push(("/extra_body", reason));
            }
        }
        found
    }

    /// Replaces the model and the parameters of generation by those of a message, where it has some.
    pub fn apply(&mut self, options: &RunOptions) {
        if let Some(model_settings) = &options.model_settings {
            self.set_model(model_settings);
        }
        if !options.generation.is_unset() {
            let own = std::mem::take(&mut self.model_options.generation);
            self.model_options.generation = options.generation.as_ref().clone().or(own);
        }
        if let Some(stop_sequences) = &options.stop_sequences {
            self.stop_sequences.clone_from(stop_sequences);
        }
    }
}

impl Capabilities {
    /// Returns the parameters of generation that the model or the protocol does not accept.
    pub fn generation_refusals(
        &self,
        settings: &Settings,
        provider: Provider,
    ) -> Vec<UnsupportedSetting> {
        let Generation { temperature, top_p, top_k, seed, .. } = &settings.model_options.generation;
        let model = &settings.model;
        let mut found: Vec<UnsupportedSetting> = Vec::new();
        let mut refuse = |is_wrong: bool, pointer: &'static str, reason: String| {
            let is_new = found.iter().all(|earlier| earlier.pointer != pointer);
            if is_wrong && is_new {
                found.push(UnsupportedSetting { pointer: pointer.into(), reason });
            }
        };
        let given = [
            ("/temperature", temperature.is_some()),
            ("/top_p", top_p.is_some()),
            ("/top_k", top_k.is_some()),
        ];
        for (pointer, is_given) in given {
            let is_refused = is_given && self.sampling == Some(false);
            refuse(is_refused, pointer, format!("is not supported by {model}"));
        }
        if provider == Provider::OpenAiResponses {
            for (pointer, reason) in settings.lacking_in_responses() {
                refuse(true, pointer, reason);
            }
            return found;
        }
        if provider == Provider::OpenAi {
            let reason = "is not a member of Chat Completions; extra_body can add it for servers that \
                          know it";
            refuse(top_k.is_some(), "/top_k", reason.to_owned());
            return found;
        }
        refuse(seed.is_some(), "/seed", "is not a member of the Messages API".to_owned());
        refuse(
            temperature.is_some_and(|value| value > 1.0),
            "/temperature",
            "is not 0 to 1".to_owned(),
        );
        let has_both = temperature.is_some() && top_p.is_some();
        let reason = format!("cannot be combined with temperature for {model}");
        refuse(has_both && self.temperature_with_top_p == Some(false), "/top_p", reason);
        let thinks = settings.thinks();
        let is_one = |value: f64| value.to_bits() == 1_f64.to_bits();
        let is_other = temperature.is_some_and(|value| !is_one(value));
        refuse(thinks && is_other, "/temperature", "must be 1 with thinking".to_owned());
        let is_low = top_p.is_some_and(|value| value < MIN_TOP_P_WITH_THINKING);
        let reason = format!("must be at least {MIN_TOP_P_WITH_THINKING} with thinking");
        refuse(thinks && is_low, "/top_p", reason);
        refuse(thinks && top_k.is_some(), "/top_k", "cannot be combined with thinking".to_owned());
        found
    }
}
