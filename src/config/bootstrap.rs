//! The first API key of a database.

use std::sync::Arc;

use anyhow::Context as _;

use super::environment::secret;
use crate::domain::api_key::ApiKey;

/// The variable with the first key.
pub(super) const BOOTSTRAP_KEY: &str = "TWOSTEP_BOOTSTRAP_KEY";
/// The value that requests a generated key.
pub(super) const PRINT: &str = "print";

/// The source of the first key.
#[derive(Debug, Clone)]
pub enum BootstrapKey {
    /// The operator chose it. It is stored unless the database has a key with its id.
    Given(Arc<ApiKey>),
    /// The service generates it if the database has no key, and prints it once.
    Printed,
}

/// Returns the source of the first key, if the operator configured one.
pub(super) fn bootstrap_key() -> anyhow::Result<Option<BootstrapKey>> {
    let Some(text) = secret(BOOTSTRAP_KEY)? else { return Ok(None) };
    if text == PRINT {
        return Ok(Some(BootstrapKey::Printed));
    }
    let key = text.parse().ok().with_context(|| {
        format!(
            "{BOOTSTRAP_KEY} is neither `{PRINT}` nor a key: tsk_, 32 hexadecimal digits, _ and 64 \
             hexadecimal digits, in lower case"
        )
    })?;
    Ok(Some(BootstrapKey::Given(Arc::new(key))))
}
