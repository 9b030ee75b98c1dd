//! The filter of event types (`?types=`).

use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;
use serde::de::DeserializeOwned;

use crate::domain::event::EventBody;
use crate::http::error::ApiError;
use crate::http::extract::query::query;

/// The wanted event types; all types if none are named.
#[derive(Debug, Clone, Default)]
pub(in crate::http) struct EventTypes(Option<Arc<[String]>>);

impl EventTypes {
    /// Parses `?types=`. An unknown type is one of another version, so it matches no event.
    pub(in crate::http) fn of(types: Option<&str>) -> Self {
        let named = types.unwrap_or_default().split(',').map(str::trim);
        let named: Arc<[String]> =
            named.filter(|name| !name.is_empty()).map(str::to_owned).collect();
        Self((!named.is_empty()).then_some(named))
    }

    /// Reports whether events and previews of this type are wanted.
    pub(in crate::http) fn include(&self, kind: &str) -> bool {
        self.0.as_ref().is_none_or(|named| named.iter().any(|name| name == kind))
    }

    /// The named types, each of which must be a type of stored events; none if all are wanted.
    pub(in crate::http) fn of_events(&self) -> Result<Option<Vec<&'static str>>, ApiError> {
        let Some(named) = &self.0 else { return Ok(None) };
        if let Some(odd) = named.iter().find(|name| !EventBody::KINDS.contains(&name.as_str())) {
            let cause = format!("names {odd:?}, which is not an event type");
            return Err(ApiError::query("types", cause));
        }
        Ok(Some(EventBody::KINDS.into_iter().filter(|kind| self.include(kind)).collect()))
    }
}

/// A query in which `types` may occur several times, which means the same as one list.
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
    fn named_types_are_wanted_and_all_types_without_a_name() {
        for (types, wanted) in [
            (None, [true, true]),
            (Some(""), [true, true]),
            (Some("a.b"), [true, false]),
            (Some(" a.b ,c,"), [true, true]),
            (Some("a"), [false, false]),
        ] {
            let types_read = EventTypes::of(types);
            assert_eq!(["a.b", "c"].map(|kind| types_read.include(kind)), wanted, "{types:?}");
        }
    }

    #[test]
    fn only_types_of_events_are_accepted_for_lists() {
        let of_events = |types| EventTypes::of(types).of_events().ok();
        assert_eq!(of_events(None), Some(None));
        assert_eq!(of_events(Some(",")), Some(None));
        let twice = "user.message,agent.message,user.message";
        assert_eq!(of_events(Some(twice)), Some(Some(vec!["user.message", "agent.message"])));
        assert_eq!(of_events(Some("user.message,unheard.of")), None);
        assert_eq!(of_events(Some("event_delta")), None);
    }

    #[test]
    fn several_types_parameters_are_one_list() {
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
