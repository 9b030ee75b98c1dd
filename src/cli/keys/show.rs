//! Output of keys.

use serde_json::json;

use super::NewApiKey;
use crate::cli::output;
use crate::domain::api_key::KeyRecord;

/// Prints a new key: the key alone, or with its record as JSON.
pub(super) fn show_new(new_key: &NewApiKey, json: bool) -> anyhow::Result<()> {
    let key = new_key.key.reveal();
    if !json {
        output::print_line(&key);
        return Ok(());
    }
    let mut object = serde_json::to_value(&new_key.record)?;
    if let Some(members) = object.as_object_mut() {
        members.insert("key".to_owned(), json!(key));
    }
    output::print_json(&object.to_string());
    Ok(())
}

/// Prints one line per key.
pub(super) fn show_list(keys: &[KeyRecord], json: bool) -> anyhow::Result<()> {
    for key in keys {
        if json {
            output::print_json(&serde_json::to_string(key)?);
        } else {
            output::print_line(&line(key));
        }
    }
    if keys.is_empty() {
        output::print_error("no keys");
    }
    Ok(())
}

/// The text line of a key.
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
