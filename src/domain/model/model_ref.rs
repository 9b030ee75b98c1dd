//! A model at one of the configured providers.

/// A model and the provider whose server has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelRef<'a> {
    /// The name of the provider; none for the default provider.
    pub provider: Option<&'a str>,
    /// The name of the model at its provider.
    pub name: &'a str,
}

impl<'a> ModelRef<'a> {
    /// A model of the default provider.
    pub const fn at_default(name: &'a str) -> Self {
        Self { provider: None, name }
    }

    /// The model of a full name, `provider/model`, at this provider; at the default provider if the
    /// name does not begin with the provider's.
    pub fn pinned(full: &'a str, provider: Option<&'a str>) -> Self {
        let at = |provider: &'a str| {
            let name = full.strip_prefix(provider)?.strip_prefix('/')?;
            Some(Self { provider: Some(provider), name })
        };
        provider.and_then(at).unwrap_or(Self::at_default(full))
    }
}

/// Returns true if the text is a valid name of a provider.
pub fn is_provider_name(name: &str) -> bool {
    let is_legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    (1..=32).contains(&name.len()) && name.chars().all(is_legal)
}
