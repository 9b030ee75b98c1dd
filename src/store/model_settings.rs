//! The settings of a session, with the model settings that a client has set since its creation.

use super::{StoreError, unreadable};
use crate::domain::model_settings::ModelSettings;
use crate::domain::session::Settings;

const TABLE: &str = "sessions";

/// Reads the settings of a session: those that are pinned, with the model settings that a client has
/// set since.
pub(super) fn settings_of(
    pinned: &str,
    model_settings: Option<&str>,
) -> Result<(Settings, Option<Box<ModelSettings>>), StoreError> {
    let mut settings: Settings =
        serde_json::from_str(pinned).map_err(unreadable(TABLE, "settings"))?;
    let model_settings: Option<Box<ModelSettings>> = model_settings
        .map(|text| serde_json::from_str(text).map_err(unreadable(TABLE, "model_settings")))
        .transpose()?;
    if let Some(model_settings) = &model_settings {
        settings.set_model(model_settings);
    }
    Ok((settings, model_settings))
}
