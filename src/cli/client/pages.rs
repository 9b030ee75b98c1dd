//! Lists in pages.

use serde_json::Value;

use super::{Client, Failure};
use crate::cli::json::non_empty_string;

/// The largest page size.
const PAGE: usize = 200;

impl Client {
    /// Returns up to `most` items of a list, and true if the list has more.
    pub(in crate::cli) async fn list(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
        most: usize,
    ) -> Result<(Vec<Value>, bool), Failure> {
        let mut items = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let limit = (most - items.len()).clamp(1, PAGE).to_string();
            let mut query = [query, &[("limit", &*limit)]].concat();
            if let Some(after) = &after {
                query.push(("after", after));
            }
            let mut page = self.get_with(path, &query).send().await?;
            let Some(data) = page.get_mut("data").and_then(Value::as_array_mut) else {
                return Err(Failure::unexpected(self, "the body is not a list"));
            };
            items.append(data);
            after = non_empty_string(&page, "next_cursor").map(str::to_owned);
            if after.is_none() || items.len() >= most {
                return Ok((items, after.is_some()));
            }
        }
    }
}
