//! What clients say of permissions, checked.

use crate::domain::permission::{Permission, PermissionMode, Rule};
use crate::http::error::{ApiError, FieldError};
use crate::http::state::Api;
use crate::tools::policy::{BadRule, MAX_REASON, check};

/// Rules of a session, which are all asked of every call.
const MAX_RULES: usize = 200;
/// Bytes of all their patterns, which are compared to every character of what calls say.
const MAX_PATTERNS: usize = 16 * 1024;

/// Refuses a mode that the operator has not enabled.
pub(in crate::http) fn check_mode(api: &Api, mode: Option<PermissionMode>) -> Result<(), ApiError> {
    if mode.is_none_or(|mode| api.permissions.permits(mode)) {
        return Ok(());
    }
    let message = "is not enabled; the operator does that with --allow-bypass";
    Err(ApiError::field("/permission_mode", message))
}

/// Refuses rules that cannot be read.
pub(in crate::http) fn check_rules(api: &Api, rules: &[Rule]) -> Result<(), ApiError> {
    if rules.len() > MAX_RULES {
        return Err(ApiError::field("/permissions", format!("has more than {MAX_RULES} rules")));
    }
    let patterns =
        rules.iter().flat_map(|rule| [&rule.tool].into_iter().chain(rule.input.values()));
    if patterns.map(String::len).sum::<usize>() > MAX_PATTERNS {
        let message = format!("has too long patterns: together more than {MAX_PATTERNS} bytes");
        return Err(ApiError::field("/permissions", message));
    }
    // That would be the mode that the operator has to enable, by another name.
    let allows_all = |rule: &Rule| {
        rule.decision == Permission::Allow && rule.tool.bytes().all(|byte| byte == b'*')
    };
    if !api.permissions.permits(PermissionMode::Bypass)
        && let Some(index) = rules.iter().position(allows_all)
    {
        let message = "allows every tool, which the operator enables with --allow-bypass";
        return Err(ApiError::field(&format!("/permissions/{index}/tool"), message));
    }
    let is_odd = |reason: &String| reason.len() > MAX_REASON || reason.contains('\0');
    if let Some(index) = rules.iter().position(|rule| rule.reason.as_ref().is_some_and(is_odd)) {
        let message = format!("is longer than {MAX_REASON} bytes, or has a NUL");
        return Err(ApiError::field(&format!("/permissions/{index}/reason"), message));
    }
    check(rules).map_err(|BadRule { index, member, cause, .. }| {
        let place = member.map_or("tool".to_owned(), |member| {
            format!("input/{}", member.replace('~', "~0").replace('/', "~1"))
        });
        let pointer = format!("/permissions/{index}/{place}");
        ApiError::Validation(vec![FieldError { pointer, message: cause.to_owned() }])
    })
}
