//! Statements with many parameters. Postgres numbers parameters, so two of one type could be swapped
//! unnoticed. Here the file of a statement declares a name for each of them, once, as in
//! `$1::uuid AS session_id`; the caller names its values; and the build fails if the names differ.

/// [`sqlx::query_file_as!`] with named values, in the order of their declaration in the file.
macro_rules! query_file_named {
    ($row:ident, $path:literal, { $($name:ident: $value:expr),* $(,)? }) => {{
        const {
            assert!(
                $crate::store::named_parameters::declares(
                    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/", $path)),
                    &[$(stringify!($name)),*],
                ),
                "the names of the values are not those of the parameters in the file"
            );
        }
        sqlx::query_file_as!($row, $path, $($value),*)
    }};
}

/// [`sqlx::query_as!`] with a text of several pieces, and with named values as in
/// `query_file_named`.
macro_rules! query_named {
    ($row:ident, [$first:literal $(, $rest:literal)* $(,)?], {
        $($name:ident: $value:expr),* $(,)?
    }) => {{
        const {
            assert!(
                $crate::store::named_parameters::declares(
                    concat!($first $(, $rest)*),
                    &[$(stringify!($name)),*],
                ),
                "the names of the values are not those of the parameters in the text"
            );
        }
        sqlx::query_as!($row, $first $(+ $rest)*, $($value),*)
    }};
}

/// Returns true if a statement declares parameters of exactly these names in this order, and uses
/// their numbers nowhere else.
pub(super) const fn declares(statement: &str, names: &[&str]) -> bool {
    let (mut text, mut names, mut number) = (statement.as_bytes(), names, 0);
    while let Some((byte, rest)) = text.split_first() {
        text = rest;
        if *byte != b'$' {
            continue;
        }
        number += 1;
        let Some((name, others)) = names.split_first() else { return false };
        names = others;
        let Some(declared) = declaration(text, number) else { return false };
        let Some(rest) = strip(declared, name.as_bytes()) else { return false };
        if let Some((next, _)) = rest.split_first()
            && (next.is_ascii_alphanumeric() || *next == b'_')
        {
            return false;
        }
        text = rest;
    }
    names.is_empty()
}

/// The text from the name on of a parameter's declaration: of `7::text AS name`, if 7 is expected.
const fn declaration(mut text: &[u8], expected: usize) -> Option<&[u8]> {
    let mut number = 0;
    while let Some((digit, rest)) = text.split_first()
        && digit.is_ascii_digit()
    {
        number = 10 * number + (*digit - b'0') as usize;
        text = rest;
    }
    if number != expected {
        return None;
    }
    while let Some((_, rest)) = text.split_first() {
        if let Some(name) = strip(text, b" AS ") {
            return Some(name);
        }
        text = rest;
    }
    None
}

const fn strip<'a>(mut text: &'a [u8], mut prefix: &[u8]) -> Option<&'a [u8]> {
    while let Some((expected, rest)) = prefix.split_first() {
        match text.split_first() {
            Some((byte, others)) if *byte == *expected => text = others,
            Some(_) | None => return None,
        }
        prefix = rest;
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_declared_once_and_in_order() {
        let statement = "SELECT $1::uuid AS id, $2::text[] AS names";
        for (names, expected) in [
            (&["id", "names"][..], true),
            (&["names", "id"], false),
            (&["id"], false),
            (&["id", "name"], false),
            (&["id", "names", "more"], false),
        ] {
            assert_eq!(declares(statement, names), expected, "{names:?}");
        }
        assert!(!declares("SELECT $2::uuid AS id", &["id"]), "a wrong number");
        assert!(!declares("SELECT $1::uuid AS id WHERE $1 = 1", &["id"]), "a second use");
        assert!(!declares("SELECT $1", &["id"]), "no name");
    }
}
