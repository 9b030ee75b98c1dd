use std::borrow::Cow;

use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use super::*;
use crate::domain::provider::Provider;
use crate::domain::session::Settings;
use crate::domain::settings_check::UnsupportedSetting;

/// Returns the pointers of the refused settings of a session with these members.
fn refused(model: &str, members: &Value) -> Vec<Cow<'static, str>> {
    let settings = settings(model, members);
    let refusals = Models::default().find(ModelRef::at_default(model)).refusals(&settings);
    refusals.into_iter().map(|UnsupportedSetting { pointer, .. }| pointer).collect()
}

fn settings(model: &str, members: &Value) -> Settings {
    let raw = |name: &str| members.get(name).map(|member| to_raw_value(member).unwrap());
    let max_tokens = members.get("max_tokens").and_then(Value::as_u64).unwrap_or(8192);
    let mut settings = Settings {
        model: model.into(),
        max_tokens: max_tokens.try_into().unwrap(),
        thinking: raw("thinking"),
        ..Settings::default()
    };
    settings.model_options.output_schema = raw("output_schema");
    let effort = members.get("effort").cloned().unwrap_or_default();
    settings.model_options.effort = serde_json::from_value(effort).unwrap();
    settings
}

#[test]
fn the_built_in_table_is_valid() {
    let names: Vec<String> = Models::default().list().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), 19, "{names:?}");
    assert!(
        names
            .iter()
            .all(|name| Models::default().find(ModelRef::at_default(name)).max_tokens.is_some())
    );
}

#[test]
fn refused_settings_are_named_by_pointer() {
    let thinking = |kind: &str| json!({ "thinking": { "type": kind } });
    let budget =
        |tokens: u32| json!({ "thinking": { "type": "enabled", "budget_tokens": tokens } });
    let disabled_at =
        |effort: &str| json!({ "thinking": { "type": "disabled" }, "effort": effort });
    for (model, members, places) in [
        ("claude-opus-5-5", thinking("adaptive"), vec![]),
        ("claude-opus-5-5", thinking("disabled"), vec!["/thinking/type"]),
        ("claude-opus-5-5", budget(2000), vec!["/thinking/type"]),
        ("claude-opus-5-5", thinking("between_tools"), vec!["/thinking/type"]),
        ("claude-sonnet-5-5", thinking("between_tools"), vec![]),
        ("claude-fable-5-2", thinking("disabled"), vec!["/thinking/type"]),
        ("claude-haiku-4-5", thinking("adaptive"), vec!["/thinking/type"]),
        ("claude-haiku-4-5", budget(1023), vec!["/thinking/budget_tokens"]),
        ("claude-haiku-4-5", budget(8192), vec!["/thinking/budget_tokens"]),
        ("claude-haiku-4-5", budget(8191), vec![]),
        ("claude-haiku-4-5", thinking("enabled"), vec!["/thinking/budget_tokens"]),
        ("claude-haiku-4-5", json!({ "thinking": {} }), vec!["/thinking"]),
        ("claude-opus-5", disabled_at("high"), vec![]),
        ("claude-opus-5", disabled_at("xhigh"), vec!["/thinking/type"]),
        ("claude-opus-4-8", disabled_at("max"), vec![]),
        ("claude-haiku-5-5", disabled_at("max"), vec!["/thinking/type"]),
        ("claude-opus-4-5", json!({ "effort": "high" }), vec![]),
        ("claude-opus-4-5", json!({ "effort": "max" }), vec!["/effort"]),
        ("claude-sonnet-4-6", json!({ "effort": "xhigh" }), vec!["/effort"]),
        ("claude-haiku-4-5", json!({ "effort": "low" }), vec!["/effort"]),
        ("claude-opus-4-5", json!({ "max_tokens": 64_001 }), vec!["/max_tokens"]),
        ("claude-opus-4-5-20251101", json!({ "max_tokens": 64_001 }), vec!["/max_tokens"]),
        ("claude-sonnet-5", json!({ "max_tokens": 128_000, "output_schema": {} }), vec![]),
    ] {
        assert_eq!(refused(model, &members), places, "{model} {members}");
    }
}

#[test]
fn settings_of_unknown_models_are_not_checked() {
    let odd = json!({ "max_tokens": 1_000_000, "effort": "max", "output_schema": {},
                      "thinking": { "type": "deep" } });
    for model in ["a-local-model", "claude-opus-5-7", "claude-opus-4-5-latest", "claude"] {
        assert_eq!(refused(model, &odd), Vec::<&str>::new(), "{model}");
    }
}

#[test]
fn the_operators_configuration_wins_over_the_servers_list_and_that_over_the_built_in_table() {
    let entry = |most: u32| Capabilities { max_tokens: Some(most), ..Capabilities::default() };
    let known = |entries: &[(&str, u32)]| {
        entries.iter().map(|(name, most)| ((*name).to_owned(), entry(*most))).collect::<Known>()
    };
    let models = Models::new(Provider::Anthropic, known(&[("claude-opus-5", 1), ("mine", 2)]));
    let most = |name: &str| models.find(ModelRef::at_default(name)).max_tokens;
    assert_eq!(
        (most("claude-opus-5"), most("mine"), most("claude-opus-4-6")),
        (Some(1), Some(2), Some(128_000))
    );
    assert!(models.list().iter().all(|(_, available)| available.is_none()));
    models.refresh(None, known(&[("claude-opus-5", 3), ("claude-opus-4-6", 4), ("theirs", 5)]));
    assert_eq!((most("claude-opus-5"), most("mine")), (Some(1), Some(2)));
    assert_eq!((most("claude-opus-4-6"), most("theirs")), (Some(4), Some(5)));
    assert_eq!(
        models.find(ModelRef::at_default("claude-opus-4-6")).sampling,
        Some(true),
        "the rest is as it was"
    );
    let available: Vec<bool> = ["claude-opus-5", "mine", "theirs"]
        .map(|wanted| models.list().iter().any(|it| *it == (wanted.to_owned(), Some(true))))
        .into();
    assert_eq!(available, [true, false, true]);
    models.refresh(None, Known::new());
    assert_eq!(most("theirs"), None);
}

#[test]
fn of_chat_completions_servers_only_the_operators_models_are_listed() {
    let own = Capabilities {
        max_tokens: Some(1),
        thinking: Some(vec![ThinkingKind::Adaptive]),
        pdf_input: Some(true),
        compaction: Some(true),
        context_management: Some(true),
        dynamic_filtering: Some(true),
        min_cache_tokens: Some(1),
        ..Capabilities::default()
    };
    let models = Models::new(Provider::OpenAi, [("mine".to_owned(), own)].into());
    assert_eq!(models.list(), [("mine".to_owned(), None)]);
    let usable = Capabilities { max_tokens: Some(1), ..Capabilities::default() };
    assert_eq!(models.find_usable(ModelRef::at_default("mine")), usable);
}

#[test]
fn the_newest_models_refuse_a_forced_tool() {
    let takes =
        |model: &str| Models::default().find(ModelRef::at_default(model)).forced_tool_choice;
    for model in ["claude-sonnet-5-5", "claude-opus-5-5", "claude-fable-5-1", "claude-mythos-5-2"] {
        assert_eq!(takes(model), Some(false), "{model}");
    }
    assert_eq!(takes("claude-sonnet-4-6"), Some(true));
    assert_eq!(takes("a-local-model"), None);
}

fn two_providers(default: Provider) -> Models {
    let own = Capabilities { max_tokens: Some(7), ..Capabilities::default() };
    let gateway = ProviderModels::new(Provider::OpenAi, [("vendor/small".to_owned(), own)].into());
    let second = ProviderModels::new(Provider::Anthropic, Known::new());
    let named = [("gateway".to_owned(), gateway), ("second".to_owned(), second)].into();
    let listed = [("group/listed".to_owned(), Capabilities::default())].into();
    Models::of(ProviderModels::new(default, listed), named)
}

#[test]
fn the_first_segment_of_a_name_selects_a_configured_provider() {
    let models = two_providers(Provider::Anthropic);
    for (full, provider, name) in [
        ("gateway/vendor/small", Some("gateway"), "vendor/small"),
        ("second/claude-opus-5", Some("second"), "claude-opus-5"),
        ("claude-opus-5", None, "claude-opus-5"),
        ("gateway", None, "gateway"),
        ("gateway/", None, "gateway/"),
        ("other/small", None, "other/small"),
    ] {
        assert_eq!(models.locate(full), ModelRef { provider, name }, "{full}");
    }
    let find = |full| models.find(models.locate(full)).max_tokens;
    assert_eq!(find("gateway/vendor/small"), Some(7));
    assert_eq!(find("vendor/small"), None, "a model of another provider");
    assert_eq!(find("second/claude-opus-5"), Some(128_000), "the built-in table");
    assert_eq!(models.protocol(models.locate("gateway/x")), Provider::OpenAi);
    assert_eq!(models.protocol(models.locate("x")), Provider::Anthropic);
    assert!(models.list().contains(&("gateway/vendor/small".to_owned(), None)));
    models.refresh(Some("second"), [("new".to_owned(), Capabilities::default())].into());
    assert!(models.list().contains(&("second/new".to_owned(), Some(true))));
}

#[test]
fn a_pinned_provider_decides_which_model_a_name_means() {
    let at = |provider| ModelRef::pinned("gateway/vendor/small", provider);
    let (provider, name) = (Some("gateway"), "vendor/small");
    assert_eq!(at(provider), ModelRef { provider, name });
    assert_eq!(at(None), ModelRef::at_default("gateway/vendor/small"));
    assert_eq!(at(Some("gate")), ModelRef::at_default("gateway/vendor/small"));
}

#[test]
fn a_name_with_an_unknown_provider_is_refused_unless_it_may_be_a_model_of_the_default_provider() {
    let refusal = |models: &Models, full: &str| {
        models.check_provider(full).err().map(|error| error.to_string())
    };
    let models = two_providers(Provider::Anthropic);
    let message = refusal(&models, "gatewya/vendor/small").unwrap();
    assert!(message.contains("\"gatewya\"") && message.contains("gateway, second"), "{message}");
    for allowed in ["gateway/any", "claude-opus-5", "group/listed"] {
        assert_eq!(refusal(&models, allowed), None, "{allowed}");
    }
    assert_eq!(refusal(&two_providers(Provider::OpenAi), "vendor/small"), None);
    assert_eq!(refusal(&Models::default(), "vendor/small"), None, "one provider");
}
