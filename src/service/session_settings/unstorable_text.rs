//! Text in settings that the database cannot store: NUL, and lone surrogates in raw JSON.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::domain::session::Settings;
use crate::domain::storable::storable_json;
use crate::service::error::{Error, FieldError};

/// The member of the settings that groups members of a request.
const GROUP: &str = "model_options";
/// The member of the group that has a stricter check of its own.
const CHECKED: &str = "user_id";

/// Returns an error for each member with such text.
pub(super) fn problems(settings: &Settings) -> Result<Vec<FieldError>, Error> {
    let json = serde_json::to_string(settings).map_err(Error::internal)?;
    if is_storable(&json) {
        return Ok(Vec::new());
    }
    let mut members: BTreeMap<String, &RawValue> =
        serde_json::from_str(&json).map_err(Error::internal)?;
    if let Some(group) = members.remove(GROUP) {
        let mut grouped: BTreeMap<String, &RawValue> =
            serde_json::from_str(group.get()).map_err(Error::internal)?;
        grouped.remove(CHECKED);
        members.extend(grouped);
    }
    members.retain(|_, value| !is_storable(value.get()));
    let error = |name: &String| {
        FieldError::new(format!("/{name}"), "has a NUL character or a lone surrogate")
    };
    Ok(members.keys().map(error).collect())
}

fn is_storable(json: &str) -> bool {
    matches!(storable_json(json), Cow::Borrowed(_))
}
