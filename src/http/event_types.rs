//! Which types of events a reader of a stream wants.

use std::sync::Arc;

/// The types that are wanted; all of them unless some are named.
#[derive(Debug, Clone, Default)]
pub(super) struct EventTypes(Option<Arc<[String]>>);

impl EventTypes {
    /// Reads `?types=`. A type that nobody knows is one of another version: nothing is of it.
    pub(super) fn of(types: Option<&str>) -> Self {
        let named = types.unwrap_or_default().split(',').map(str::trim);
        let named: Arc<[String]> =
            named.filter(|name| !name.is_empty()).map(str::to_owned).collect();
        Self((!named.is_empty()).then_some(named))
    }

    /// Whether an event or a preview of this type is wanted.
    pub(super) fn hold(&self, kind: &str) -> bool {
        self.0.as_ref().is_none_or(|named| named.iter().any(|name| name == kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_is_wanted_and_where_nothing_is_everything() {
        for (types, wanted) in [
            (None, [true, true]),
            (Some(""), [true, true]),
            (Some("a.b"), [true, false]),
            (Some(" a.b ,c,"), [true, true]),
            (Some("a"), [false, false]),
        ] {
            let types_read = EventTypes::of(types);
            assert_eq!(["a.b", "c"].map(|kind| types_read.hold(kind)), wanted, "{types:?}");
        }
    }
}
