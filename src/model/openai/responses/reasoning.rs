//! The reasoning items of replies, which the server that made them must get back unchanged.
//!
//! The history is in the format of the Messages API, in which a thinking block has a signature that only
//! its server understands. The item is stored there as received. Another protocol refuses the signature,
//! and the thinking is then left out for good, as after every change of the provider.

use serde::Deserialize;
use serde_json::value::RawValue;

/// The beginning of a signature that holds an item.
const PREFIX: &str = "responses:";

/// True if these messages have a reasoning item.
pub fn has_reasoning(messages: &str) -> bool {
    messages.contains(PREFIX)
}

/// The signature that stores an item.
pub(super) fn signature(item: &RawValue) -> String {
    format!("{PREFIX}{}", item.get())
}

/// The item of a thinking block; `None` if another protocol made it.
pub(super) fn item(block: &RawValue) -> Option<Box<RawValue>> {
    #[derive(Deserialize)]
    struct Thinking {
        signature: String,
    }
    let Thinking { signature } = serde_json::from_str(block.get()).ok()?;
    RawValue::from_string(signature.strip_prefix(PREFIX)?.to_owned()).ok()
}
