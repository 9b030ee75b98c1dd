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

/// Statements that are not built by `query_with_usage` name the columns themselves.
#[cfg(test)]
mod tests {
    /// The columns that `row_with_usage` declares.
    fn columns() -> Vec<&'static str> {
        let (_, declared) =
            include_str!("usage_columns.rs").split_once("$($field: $type,)*").unwrap();
        let (declared, _) = declared.split_once('}').unwrap();
        declared.lines().filter_map(|line| Some(line.trim().split_once(": ")?.0)).collect()
    }

    /// A source text with single spaces, and without the continuations of Rust strings.
    fn words(text: &str) -> String {
        text.split_whitespace().filter(|word| *word != "\\").collect::<Vec<_>>().join(" ")
    }

    /// The columns, each after a prefix, as a list of SQL.
    fn list(prefix: &str) -> String {
        columns().iter().map(|column| format!("{prefix}{column}")).collect::<Vec<_>>().join(", ")
    }

    /// Asserts that a text names each column with `of`, this many times.
    fn assert_each(text: &str, times: usize, of: impl Fn(&str) -> String) {
        for column in columns() {
            assert_eq!(text.matches(&of(column)).count(), times, "{}", of(column));
        }
    }

    #[test]
    fn a_query_selects_each_column() {
        assert_eq!(columns().len(), 9);
        let text = words(include_str!("usage_columns.rs"));
        assert!(text.contains(&list("")), "{}", list(""));
        assert_each(&text, 1, |column| format!("sum({column})"));
    }

    #[test]
    fn a_step_writes_each_column() {
        let text = words(include_str!("step/statement.rs"));
        assert_each(&text, 1, |column| format!("::bigint[] AS {column}"));
        for table in ["r", "s"] {
            assert_each(&text, 1, |column| match column {
                "cost" => format!("cost = coalesce({table}.cost + p.cost, p.cost, {table}.cost)"),
                _ => format!(" {column} = {table}.{column} + p.{column}"),
            });
        }
        assert!(text.contains(&list("")), "{}", list(""));
        assert!(text.contains(&list("p.")), "{}", list("p."));
    }

    #[test]
    fn a_request_for_a_title_writes_each_column() {
        let text = words(include_str!("title_request.sql"));
        assert_each(&text, 1, |column| format!("::bigint AS {column}"));
        for table in ["r", "s"] {
            assert_each(&text, 1, |column| match column {
                "cost" => format!("cost = coalesce({table}.cost + p.cost, p.cost, {table}.cost)"),
                _ => format!(" {column} = {table}.{column} + p.{column}"),
            });
        }
        assert!(text.contains(&list("")), "{}", list(""));
        assert!(text.contains(&list("p.")), "{}", list("p."));
    }

    #[test]
    fn the_usage_of_deleted_sessions_keeps_each_column() {
        let text = words(include_str!("deleted_usage.rs"));
        assert_each(&text, 1, |column| format!("sum({column}) AS {column}"));
        assert_eq!(text.matches(&list("")).count(), 2, "{}", list(""));
        assert_each(&text, 1, |column| match column {
            "cost" => "cost = coalesce(d.cost + excluded.cost, d.cost, excluded.cost)".to_owned(),
            _ => format!(" {column} = d.{column} + excluded.{column}"),
        });
    }
}
