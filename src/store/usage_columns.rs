//! The columns that count usage. They have the same names in every table that has them: `runs`,
//! `sessions`, `requests` and `deleted_usage`.

/// Declares a row that ends with the columns of `USAGE` or `SUMS` in `query_with_usage`.
macro_rules! row_with_usage {
    (struct $row:ident { $($field:ident: $type:ty),* $(,)? }) => {
        struct $row {
            $($field: $type,)*
            input_tokens: i64,
            cache_creation_input_tokens: i64,
            cache_read_input_tokens: i64,
            output_tokens: i64,
            cache_creation_1h_input_tokens: i64,
            thinking_tokens: i64,
            web_search_requests: i64,
            web_fetch_requests: i64,
            cost: Option<i64>,
        }
    };
}

/// Returns the [`Usage`](crate::domain::usage::Usage) of a row.
macro_rules! usage_of {
    ($row:expr) => {
        $crate::domain::usage::Usage {
            input_tokens: $row.input_tokens,
            cache_creation_input_tokens: $row.cache_creation_input_tokens,
            cache_read_input_tokens: $row.cache_read_input_tokens,
            output_tokens: $row.output_tokens,
            cache_creation_1h_input_tokens: $row.cache_creation_1h_input_tokens,
            thinking_tokens: $row.thinking_tokens,
            web_search_requests: $row.web_search_requests,
            web_fetch_requests: $row.web_fetch_requests,
        }
    };
}

/// `query_as!`, or `query!` for the row type `_`, whose text may contain the usage columns and the
/// cost: `"SELECT id, " + USAGE + " FROM runs"`, or `SUMS` for their sums over a group.
macro_rules! query_with_usage {
    (@text $row:tt [$($text:tt)*] USAGE + $($rest:tt)*) => {
        query_with_usage!(@text $row [$($text)*
            "input_tokens, cache_creation_input_tokens, cache_read_input_tokens, output_tokens, \
             cache_creation_1h_input_tokens, thinking_tokens, web_search_requests, \
             web_fetch_requests, cost" +] $($rest)*)
    };
    (@text $row:tt [$($text:tt)*] SUMS + $($rest:tt)*) => {
        query_with_usage!(@text $row [$($text)*
            r#"coalesce(sum(input_tokens), 0)::bigint AS "input_tokens!",
               coalesce(sum(cache_creation_input_tokens), 0)::bigint
                   AS "cache_creation_input_tokens!",
               coalesce(sum(cache_read_input_tokens), 0)::bigint AS "cache_read_input_tokens!",
               coalesce(sum(output_tokens), 0)::bigint AS "output_tokens!",
               coalesce(sum(cache_creation_1h_input_tokens), 0)::bigint
                   AS "cache_creation_1h_input_tokens!",
               coalesce(sum(thinking_tokens), 0)::bigint AS "thinking_tokens!",
               coalesce(sum(web_search_requests), 0)::bigint AS "web_search_requests!",
               coalesce(sum(web_fetch_requests), 0)::bigint AS "web_fetch_requests!",
               sum(cost)::bigint AS cost"# +] $($rest)*)
    };
    (@text $row:tt [$($text:tt)*] $piece:literal + $($rest:tt)*) => {
        query_with_usage!(@text $row [$($text)* $piece +] $($rest)*)
    };
    (@text _ [$($text:tt)*] $piece:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query!($($text)* $piece $(, $argument)*)
    };
    (@text $row:ident [$($text:tt)*] $piece:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!($row, $($text)* $piece $(, $argument)*)
    };
    ($row:tt, $($rest:tt)*) => { query_with_usage!(@text $row [] $($rest)*) };
}
