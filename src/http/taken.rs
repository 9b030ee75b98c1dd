//! Members that a request does not say itself.

/// The places of the members that were taken from somewhere else.
#[derive(Debug, Default)]
pub(super) struct Taken(Vec<&'static str>);

impl Taken {
    /// Takes a member, if there is one to take and none yet.
    pub(super) fn fill<T>(&mut self, place: &'static str, own: &mut Option<T>, other: Option<T>) {
        if own.is_none() && other.is_some() {
            *own = other;
            self.0.push(place);
        }
    }

    /// Whether what stands at this pointer is, or is a part of, what was taken.
    pub(super) fn has(&self, pointer: &str) -> bool {
        let is_of = |place: &&str| {
            let rest = pointer.strip_prefix(*place);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.0.iter().any(|place| is_of(&place))
    }
}
