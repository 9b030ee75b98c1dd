//! Members that a request does not say itself.

/// The places of the members that were taken from somewhere else.
#[derive(Debug, Default)]
pub(in crate::http) struct InheritedFields(Vec<&'static str>);

impl InheritedFields {
    /// Takes a member, if there is one to take and none yet.
    pub(in crate::http) fn fill<T>(
        &mut self,
        place: &'static str,
        own: &mut Option<T>,
        other: Option<T>,
    ) {
        if own.is_none() && other.is_some() {
            *own = other;
            self.0.push(place);
        }
    }

    /// Whether what stands at this pointer is, or is a part of, what was taken.
    pub(in crate::http) fn has(&self, pointer: &str) -> bool {
        let rests = self.0.iter().filter_map(|place| pointer.strip_prefix(place));
        rests.into_iter().any(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}
