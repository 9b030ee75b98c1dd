//! Checks of permission modes and rules that clients send.

use crate::domain::permission::{Permission, PermissionMode, Rule};
use crate::service::error::Error;
use crate::service::state::Service;
use crate::tools::policy::{BadRule, MAX_REASON, check};

/// Maximum number of rules of a session: every call is compared with each of them.
const MAX_RULES: usize = 200;
/// Maximum size of all patterns together, in bytes: the cost of a match grows with it.
const MAX_PATTERNS: usize = 16 * 1024;

/// Refuses a mode that the operator has not enabled.
pub(crate) fn check_mode(service: &Service, mode: Option<PermissionMode>) -> Result<(), Error> {
    if mode.is_none_or(|mode| service.permissions.permits(mode)) {
        return Ok(());
    }
    let message = "is not enabled; the operator enables it with --allow-bypass";
    Err(Error::field("/permission_mode", message))
}

/// Refuses rules that are not valid.
pub(super) fn check_rules(service: &Service, rules: &[Rule]) -> Result<(), Error> {
    if rules.len() > MAX_RULES {
        return Err(Error::field("/permissions", format!("has more than {MAX_RULES} rules")));
    }
    let patterns =
        rules.iter().flat_map(|rule| [&rule.tool].into_iter().chain(rule.input.values()));
    if patterns.map(String::len).sum::<usize>() > MAX_PATTERNS {
        let message = format!("has patterns of more than {MAX_PATTERNS} bytes together");
        return Err(Error::field("/permissions", message));
    }
    // Such a rule has the effect of the mode `bypass`, which the operator has to enable.
    let allows_all = |rule: &Rule| {
        rule.decision == Permission::Allow && rule.tool.bytes().all(|byte| byte == b'*')
    };
    if !service.permissions.permits(PermissionMode::Bypass)
        && let Some(index) = rules.iter().position(allows_all)
    {
        let message = "allows every tool, which the operator enables with --allow-bypass";
        return Err(Error::field(&format!("/permissions/{index}/tool"), message));
    }
    let is_invalid = |reason: &String| reason.len() > MAX_REASON || reason.contains('\0');
    if let Some(index) = rules.iter().position(|rule| rule.reason.as_ref().is_some_and(is_invalid))
    {
        let message = format!("is longer than {MAX_REASON} bytes, or has a NUL character");
        return Err(Error::field(&format!("/permissions/{index}/reason"), message));
    }
    check(rules).map_err(|BadRule { index, member, cause, .. }| {
        let member = member.map_or("tool".to_owned(), |member| {
            format!("input/{}", member.replace('~', "~0").replace('/', "~1"))
        });
        Error::field(&format!("/permissions/{index}/{member}"), cause)
    })
}
