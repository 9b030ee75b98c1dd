//! The query of a request. The SDKs write lists as `types[]=a&types[]=b`.

use std::str::FromStr;

use axum::extract::{FromRequestParts, Query};
use http::request::Parts;
use jiff::Timestamp;
use serde::de::value::Error as ValueError;
use serde::de::{DeserializeOwned, IntoDeserializer as _};

use crate::domain::plain_message::plain_message;
use crate::http::error::ApiError;
use crate::http::routes::{DEFAULT_LIMIT, MAX_LIMIT, Order};

/// The names and values of a query.
#[derive(Debug)]
pub(in crate::http) struct SdkQuery(Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for SdkQuery {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let Ok(Query(pairs)) = Query::try_from_uri(&parts.uri) else {
            return Err(ApiError::query("", "is not a list of `name=value` pairs"));
        };
        Ok(Self(pairs))
    }
}

impl SdkQuery {
    /// The values of a list.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let is_named = move |own: &str| {
            own.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('['))
        };
        let named = self.0.iter().filter(move |(own, _)| is_named(own));
        named.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// The value of a parameter that may occur once. An empty value counts as none.
    pub(super) fn one(&self, name: &str) -> Result<Option<&str>, ApiError> {
        Ok(self.given(name)?.filter(|value| !value.is_empty()))
    }

    fn given(&self, name: &str) -> Result<Option<&str>, ApiError> {
        let mut values = self.0.iter().filter(|(own, _)| own == name);
        let value = values.next().map(|(_, value)| value.as_str());
        if values.next().is_some() {
            return Err(ApiError::query(name, "occurs more than once; once is allowed"));
        }
        Ok(value)
    }

    /// A parameter of this type; `rule` is the message for another value.
    pub(super) fn read<T: FromStr>(&self, name: &str, rule: &str) -> Result<Option<T>, ApiError> {
        let value = self.one(name)?;
        value.map(|value| value.parse().map_err(|_| ApiError::query(name, rule))).transpose()
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool, ApiError> {
        Ok(self.read(name, "is not `true` or `false`")?.unwrap_or_default())
    }

    pub(super) fn time(&self, name: &str) -> Result<Option<Timestamp>, ApiError> {
        let rule = "is not a time in the form of RFC 3339, such as `2026-11-22T14:00:00Z`";
        let value = self.given(name)?;
        value.map(|value| value.parse().map_err(|_| ApiError::query(name, rule))).transpose()
    }

    /// The values of a list of names.
    pub(super) fn names<T: DeserializeOwned>(&self, list: &str) -> Result<Vec<T>, ApiError> {
        self.all(list).map(|value| name(list, value)).collect()
    }

    /// True for `order=asc`, false for `order=desc`.
    pub(super) fn is_ascending(&self, default: bool) -> Result<bool, ApiError> {
        let order = self.one("order")?.map(|value| name("order", value)).transpose()?;
        Ok(order.map_or(default, |order: Order| order == Order::Asc))
    }

    /// The maximum number of items of a page. A larger number counts as the maximum of the service: a
    /// page may have fewer items than the client has asked for.
    pub(super) fn limit(&self) -> Result<i64, ApiError> {
        let limit = self.read("limit", "is not an integer")?.unwrap_or(DEFAULT_LIMIT);
        if limit < 1 {
            return Err(ApiError::query("limit", format!("is {limit}; at least 1 is required")));
        }
        Ok(limit.min(MAX_LIMIT))
    }
}

/// One of the names that a parameter allows.
fn name<T: DeserializeOwned>(parameter: &str, value: &str) -> Result<T, ApiError> {
    T::deserialize(value.into_deserializer())
        .map_err(|error: ValueError| ApiError::query(parameter, plain_message(&error.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(pairs: &[(&str, &str)]) -> SdkQuery {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        SdkQuery(pairs.iter().map(owned).collect())
    }

    #[test]
    fn a_list_is_written_with_brackets_or_without() {
        let query = query(&[("types[]", "a"), ("types", "b"), ("types[1]", "c"), ("typesX", "d")]);
        assert_eq!(query.all("types").collect::<Vec<_>>(), ["a", "b", "c"]);
    }

    #[test]
    fn a_limit_is_at_least_one_and_at_most_the_maximum_of_the_service() {
        let limit = |value: &str| query(&[("limit", value)]).limit().ok();
        assert_eq!(limit("1000"), Some(MAX_LIMIT));
        assert_eq!(limit("7"), Some(7));
        assert_eq!(limit(""), Some(DEFAULT_LIMIT));
        assert_eq!(limit("0"), None);
        assert_eq!(limit("x"), None);
        assert!(query(&[("limit", "1"), ("limit", "2")]).limit().is_err());
    }
}
