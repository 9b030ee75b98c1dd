//! Members of a request that were filled in from an agent or another default.

/// JSON pointers of the members that the request itself does not have.
#[derive(Debug, Default)]
pub(crate) struct InheritedFields(Vec<&'static str>);

impl InheritedFields {
    /// Fills in an absent member, if there is a default for it.
    pub(crate) fn fill<T>(&mut self, pointer: &'static str, own: &mut Option<T>, other: Option<T>) {
        if own.is_none() && other.is_some() {
            *own = other;
            self.0.push(pointer);
        }
    }

    /// Returns true if the value at this pointer is inherited, or is part of an inherited one.
    pub(crate) fn has(&self, pointer: &str) -> bool {
        let rests = self.0.iter().filter_map(|inherited| pointer.strip_prefix(inherited));
        rests.into_iter().any(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}
