//! Which types of events a reader wants.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;
use serde::de::DeserializeOwned;

use crate::domain::event::EventBody;
use crate::http::error::ApiError;
use crate::http::extract::query::query;

/// The types that are wanted; all of them unless some are named.
#[derive(Debug, Clone, Default)]
pub(in crate::http) struct EventTypes(Option<Arc<[String]>>);

impl EventTypes {
    /// Reads `?types=`. A type that nobody knows is one of another version: nothing is of it.
    pub(in crate::http) fn of(types: Option<&str>) -> Self {
        let named = types.unwrap_or_default().split(',').map(str::trim);
        let named: Arc<[String]> =
            named.filter(|name| !name.is_empty()).map(str::to_owned).collect();
        Self((!named.is_empty()).then_some(named))
    }

    /// Whether an event or a preview of this type is wanted.
    pub(in crate::http) fn hold(&self, kind: &str) -> bool {
        self.0.as_ref().is_none_or(|named| named.iter().any(|name| name == kind))
    }

    /// The types that are named, each of which has to be one of events; none if all are wanted.
    pub(in crate::http) fn of_events(&self) -> Result<Option<Vec<&'static str>>, ApiError> {
        let Some(named) = &self.0 else { return Ok(None) };
        if let Some(odd) = named.iter().find(|name| !EventBody::KINDS.contains(&name.as_str())) {
            let cause = format!("types names {odd:?}, of which no event is");
            return Err(ApiError::InvalidQuery(cause));
        }
        Ok(Some(EventBody::KINDS.into_iter().filter(|kind| self.hold(kind)).collect()))
    }
}

/// A query whose `types` may stand there several times, which means the same as one list of them.
#[derive(Debug)]
pub(in crate::http) struct TypedParams<T>(pub(in crate::http) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for TypedParams<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        query(&joined(parts.uri.query().unwrap_or_default())).map(Self)
    }
}

fn joined(query: &str) -> String {
    let (types, others): (Vec<&str>, Vec<&str>) =
        query.split('&').partition(|pair| pair.starts_with("types="));
    let types: Vec<&str> = types.iter().filter_map(|pair| pair.strip_prefix("types=")).collect();
    let types = (!types.is_empty()).then(|| format!("types={}", types.join(",")));
    others.into_iter().chain(types.as_deref()).collect::<Vec<&str>>().join("&")
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

    #[test]
    fn types_of_events_are_told_from_others() {
        let of_events = |types| EventTypes::of(types).of_events().ok();
        assert_eq!(of_events(None), Some(None));
        assert_eq!(of_events(Some(",")), Some(None));
        let twice = "user.message,agent.message,user.message";
        assert_eq!(of_events(Some(twice)), Some(Some(vec!["user.message", "agent.message"])));
        assert_eq!(of_events(Some("user.message,unheard.of")), None);
        assert_eq!(of_events(Some("event_delta")), None);
    }

    #[test]
    fn types_that_stand_there_several_times_are_one_list() {
        for (query, expected) in [
            ("", ""),
            ("limit=2", "limit=2"),
            ("types=a", "types=a"),
            ("types=a,b&limit=2&types=c", "limit=2&types=a,b,c"),
            ("types=&types=a%2Eb", "types=,a%2Eb"),
        ] {
            assert_eq!(joined(query), expected);
        }
    }
}
