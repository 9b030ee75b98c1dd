//! The rules of the API: what it refuses is refused here, in its own words and in its order.

mod blocks;
mod cache;
mod compaction;
mod context;
mod fields;
pub(super) mod media;
mod messages;
mod output;
mod pairing;
mod server_tools;
mod thinking;
mod tools;

#[cfg(test)]
mod tests;

use std::fmt::Display;

use serde_json::{Map, Value};

use super::admission::Version;
use super::betas::Betas;
use super::models::Model;
use super::refusal::Refusal;
use super::request::Ask;
use super::signature;

/// The outcome of a rule; the first one broken is the answer.
type Checked = Result<(), Refusal>;

/// Which endpoint a body was sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// `POST /v1/messages`
    Messages,
    /// `POST /v1/messages/count_tokens`
    CountTokens,
}

/// What the rules depend on besides the body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) endpoint: Endpoint,
    pub(crate) version: Version,
    pub(crate) betas: Betas,
    pub(crate) refuse_unknown_fields: bool,
    pub(crate) max_input_tokens: u64,
    /// The estimate for this body.
    pub(crate) tokens: usize,
}

/// Checks a whole request.
pub(crate) fn check(ask: Ask<'_>, rules: &Rules) -> Checked {
    compaction::admit(ask, rules)?;
    fields::required(ask, rules)?;
    if rules.refuse_unknown_fields {
        fields::known(ask, rules)?;
    }
    let name = ask.model();
    let Some(model) = Model::find(name) else {
        return Err(Refusal::not_found(format!("model: {name}")));
    };
    fields::max_tokens(ask, model)?;
    fields::sampling(ask, model, rules)?;
    thinking::check(ask, model)?;
    output::check(ask, model, rules)?;
    tools::definitions(ask, rules)?;
    tools::choice(ask, model)?;
    compaction::setting(ask, model, rules)?;
    context::check(ask, model, rules)?;
    messages::check(ask, model, rules)?;
    compaction::history(ask)?;
    media::whole(ask)?;
    let turns = ask.turns();
    if ask.compaction().is_some() {
        compaction::ending(&turns)?;
        pairing::check(&turns)?;
    } else {
        pairing::check(&turns)?;
        messages::ending(ask, &turns)?;
    }
    tools::history(ask, &turns)?;
    signature::check(ask, &turns)?;
    cache::check(ask)?;
    window(rules)
}

fn window(rules: &Rules) -> Checked {
    let (tokens, most) = (rules.tokens, rules.max_input_tokens);
    if u64::try_from(tokens).is_ok_and(|tokens| tokens > most) {
        return refuse(format!("prompt is too long: {tokens} tokens > {most} maximum"));
    }
    Ok(())
}

/// No field of an object but these.
fn only(at: &str, fields: &Map<String, Value>, known: &[&str]) -> Checked {
    match fields.keys().find(|field| !known.contains(&field.as_str())) {
        Some(field) => refuse(format!("{at}.{field}: Extra inputs are not permitted")),
        None => Ok(()),
    }
}

/// A block or a setting of a `type` that there is not here.
fn unexpected(at: impl Display, tag: &str, tags: &str) -> Checked {
    refuse(format!(
        "{at}: Input tag '{tag}' found using 'type' does not match any of the expected tags: {tags}"
    ))
}

fn refuse(message: impl Into<String>) -> Checked {
    Err(Refusal::invalid(message))
}
