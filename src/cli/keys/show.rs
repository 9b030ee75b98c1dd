//! How keys are printed.

use serde_json::json;

use super::Made;
use crate::cli::output;
use crate::domain::api_key::KeyRecord;

/// Prints a new key: alone on a line, or all that is known of it.
pub(super) fn show_new(made: &Made, json: bool) -> anyhow::Result<()> {
    let key = made.key.reveal();
    if !json {
        output::say(&key);
        return Ok(());
    }
    let mut object = serde_json::to_value(&made.record)?;
    if let Some(members) = object.as_object_mut() {
        members.insert("key".to_owned(), json!(key));
    }
    output::say(&object.to_string());
    Ok(())
}

/// Prints a line a key.
pub(super) fn show_list(keys: &[KeyRecord], json: bool) -> anyhow::Result<()> {
    for key in keys {
        output::say(&if json { serde_json::to_string(key)? } else { line(key) });
    }
    if keys.is_empty() {
        output::complain("no keys");
    }
    Ok(())
}

/// What is known of a key, for people.
pub(super) fn line(key: &KeyRecord) -> String {
    let KeyRecord { id, name, tenant, scope, status, .. } = key;
    let times = [
        ("created", Some(key.created_at)),
        ("expires", key.expires_at),
        ("revoked", key.revoked_at),
        ("last used", key.last_used_at),
    ];
    let times = times.into_iter().filter_map(|(what, time)| Some(format!("{what} {:.0}", time?)));
    let times: Vec<String> = times.collect();
    let (status, scope) = (status.as_str(), scope.as_str());
    format!("{id}  {status:<7}  {scope:<5}  {tenant}  {name}  {}", times.join(", "))
}
