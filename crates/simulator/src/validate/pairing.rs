//! The pairing of tool calls and results: each call has exactly one result, at the beginning of the
//! next turn.

use std::collections::HashSet;

use super::{Checked, messages, refuse};
use crate::request::{LocatedBlock, Turn};

/// Checks the calls and results of the whole conversation.
pub(super) fn check(turns: &[Turn<'_>]) -> Checked {
    unique(turns)?;
    server_results(turns)?;
    for (at, turn) in turns.iter().enumerate() {
        let next = turns.get(at + 1);
        let before = at.checked_sub(1).and_then(|before| turns.get(before));
        if turn.role == "assistant" {
            answered(turn, next)?;
        } else {
            expected(turn, before)?;
        }
        if let Some(next) = next
            && turn.role == "assistant"
        {
            closed(turn, next)?;
        }
    }
    Ok(())
}

fn calls<'t, 'a>(turn: &'t Turn<'a>) -> impl Iterator<Item = (&'t LocatedBlock<'a>, &'a str)> {
    let calls = turn.blocks.iter().filter(|located| located.block.is("tool_use"));
    calls.filter_map(|located| Some((located, located.block.str("id")?)))
}

fn results<'t, 'a>(turn: &'t Turn<'a>) -> impl Iterator<Item = (&'t LocatedBlock<'a>, &'a str)> {
    let results = turn.blocks.iter().filter(|located| located.block.is("tool_result"));
    results.filter_map(|located| Some((located, located.block.str("tool_use_id")?)))
}

fn unique(turns: &[Turn<'_>]) -> Checked {
    let mut seen = HashSet::new();
    for (LocatedBlock { at, .. }, id) in turns.iter().flat_map(calls) {
        if !seen.insert(id) {
            return refuse(format!("{at}: `tool_use` ids must be unique"));
        }
    }
    Ok(())
}

/// The next turn begins with a result for every call.
fn answered(turn: &Turn<'_>, next: Option<&Turn<'_>>) -> Checked {
    let leading: HashSet<&str> = next
        .into_iter()
        .flat_map(|next| next.blocks.iter())
        .take_while(|located| located.block.is("tool_result"))
        .filter_map(|located| located.block.str("tool_use_id"))
        .collect();
    let open: Vec<_> = calls(turn).filter(|(_, id)| !leading.contains(id)).collect();
    let Some((LocatedBlock { at, .. }, _)) = open.first() else {
        return Ok(());
    };
    let ids: Vec<&str> = open.iter().map(|(_, id)| *id).collect();
    refuse(format!(
        "messages.{}: `tool_use` ids were found without `tool_result` blocks immediately \
         after: {}. Each `tool_use` block must have a corresponding `tool_result` block in the \
         next message.",
        at.message,
        ids.join(", ")
    ))
}

/// Every result belongs to a call of the turn before, and no call has two results.
fn expected(turn: &Turn<'_>, before: Option<&Turn<'_>>) -> Checked {
    let asked: HashSet<&str> = before.into_iter().flat_map(calls).map(|(_, id)| id).collect();
    let mut seen = HashSet::new();
    for (LocatedBlock { at, .. }, id) in results(turn) {
        if !asked.contains(id) {
            return refuse(format!(
                "{at}: unexpected `tool_use_id` found in \
                 `tool_result` blocks: {id}. Each `tool_result` block must have a corresponding \
                 `tool_use` block in the previous message."
            ));
        }
        if !seen.insert(id) {
            return refuse(format!(
                "{at}: each tool_use must have a single result. \
                 Found multiple `tool_result` blocks with id: {id}"
            ));
        }
    }
    Ok(())
}

fn located<'t, 'a>(turns: &'t [Turn<'a>]) -> impl Iterator<Item = (&'a str, &'t LocatedBlock<'a>)> {
    turns.iter().flat_map(|turn| turn.blocks.iter().map(|located| (turn.role, located)))
}

/// The result of a server tool follows its call, with only results of client calls between them.
fn server_results(turns: &[Turn<'_>]) -> Checked {
    let mut called = HashSet::new();
    for (role, LocatedBlock { at, block }) in located(turns) {
        let kind = block.kind();
        match kind {
            "server_tool_use" => called.extend(block.str("id")),
            kind if role == "user" && kind != "tool_result" => called.clear(),
            _ => {}
        }
        let id = block.str("tool_use_id").filter(|id| id.starts_with("srvtoolu_"));
        if let Some(id) = id.filter(|id| kind.ends_with("_tool_result") && !called.contains(id)) {
            return refuse(format!(
                "{at}: unexpected `tool_use_id` found in `{kind}` \
                 blocks: {id}. Each `{kind}` block must have a corresponding `server_tool_use` \
                 block before it."
            ));
        }
    }
    Ok(())
}

/// While a server tool call is open, a user message can have only results of client calls.
fn closed(turn: &Turn<'_>, next: &Turn<'_>) -> Checked {
    let only_results = next.blocks.iter().all(|located| located.block.is("tool_result"));
    if only_results || !messages::is_paused(&turn.blocks) {
        return Ok(());
    }
    let mut blocks = turn.blocks.iter().rev().map(|located| located.block);
    let Some(open) = blocks.find(|block| block.is("server_tool_use")) else {
        return Ok(());
    };
    let name = open.str("name").unwrap_or_default();
    let id = open.str("id").unwrap_or_default();
    refuse(format!(
        "`{name}` tool use with id `{id}` was found without a corresponding `{name}_tool_result` \
         block"
    ))
}
