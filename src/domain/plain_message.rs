//! Messages of serde in plain English: each says which rule a value breaks, in the terms of JSON.

/// Rewrites a message of serde about one member, without its line and column. Messages that the
/// service's own types raise are plain already and stay as they are.
pub fn plain_message(message: &str) -> String {
    let message = message.split(" at line ").next().unwrap_or(message);
    let known = [
        ("invalid type: ", wrong_type as fn(&str) -> Option<String>),
        ("invalid value: ", wrong_type),
        ("invalid length ", wrong_length),
        ("unknown field ", unknown_member),
        ("unknown variant ", unknown_value),
        ("missing field ", |name| Some(format!("lacks the member {name}, which is required"))),
        ("duplicate field ", |name| Some(format!("has the member {name} twice; once is allowed"))),
        ("data did not match any variant", |_| Some("has none of the allowed forms".to_owned())),
        ("invalid digit found in string", |_| Some("is not an integer".to_owned())),
        ("cannot parse integer from empty string", |_| Some("is not an integer".to_owned())),
        ("number too large to fit", |_| Some("is too large".to_owned())),
        ("number too small to fit", |_| Some("is too small".to_owned())),
        ("provided string was not", |_| Some("is not `true` or `false`".to_owned())),
    ];
    let rewritten = known.iter().find_map(|(start, rewrite)| rewrite(message.strip_prefix(start)?));
    rewritten.unwrap_or_else(|| message.to_owned())
}

/// `string "one", expected u8`
fn wrong_type(rest: &str) -> Option<String> {
    let (found, expected) = rest.rsplit_once(", expected ")?;
    Some(format!("is {}; {} is required", found_value(found), required(expected)))
}

/// `3, expected an array of 2 elements`
fn wrong_length(rest: &str) -> Option<String> {
    let (found, expected) = rest.split_once(", expected ")?;
    Some(format!("has {found} elements; {} is required", required(expected)))
}

/// `` `x`, expected one of `a`, `b` ``; also `, there are no fields`
fn unknown_member(rest: &str) -> Option<String> {
    let (name, known) = rest.split_once(", ")?;
    Some(match known.strip_prefix("expected ") {
        Some(known) => format!("is not a known member; {}", allowed(known)),
        None => format!("is not a known member: {name} is not allowed here"),
    })
}

/// `` `drop`, expected one of `queue`, `reject` ``
fn unknown_value(rest: &str) -> Option<String> {
    let (value, known) = rest.split_once(", expected ")?;
    Some(format!("is {value}; {}", allowed(known)))
}

/// `` one of `a`, `b` ``, `` `a` or `b` ``, or `` `a` ``
fn allowed(known: &str) -> String {
    let names = known.strip_prefix("one of ").unwrap_or(known);
    format!("allowed: {}", names.replace(" or ", ", "))
}

/// `string "one"`, `` integer `5` ``, `null`, `map`
fn found_value(found: &str) -> String {
    let quoted = |kind: &str| {
        let value = found.strip_prefix(kind)?.trim_start();
        value.strip_prefix('`').and_then(|value| value.strip_suffix('`'))
    };
    match found {
        "null" | "unit value" | "Option value" => "null".to_owned(),
        "map" => "an object".to_owned(),
        "sequence" => "an array".to_owned(),
        _ if found.starts_with("string ") => "a string".to_owned(),
        _ => {
            let value = ["integer", "floating point", "boolean"].into_iter().find_map(quoted);
            value.unwrap_or(found).to_owned()
        }
    }
}

/// The name of a type, or a text of the service's own.
fn required(expected: &str) -> String {
    let unsigned = |bits: u32| format!("an integer from 0 to {}", u64::MAX >> (64 - bits));
    match expected {
        "u8" => unsigned(8),
        "u16" => unsigned(16),
        "u32" => unsigned(32),
        "u64" | "usize" => unsigned(64),
        "i8" | "i16" | "i32" | "i64" | "isize" => "an integer".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a boolean" => "`true` or `false`".to_owned(),
        "a sequence" => "an array".to_owned(),
        "a map" | "map" => "an object".to_owned(),
        "a borrowed string" | "string" => "a string".to_owned(),
        "any valid JSON value" => "a JSON value".to_owned(),
        "string or map" => "a string or an object".to_owned(),
        _ if expected.starts_with("struct ") => "an object".to_owned(),
        _ if expected.contains("tagged enum ") => "an object with a `type`".to_owned(),
        _ if expected.starts_with("enum ") || expected.starts_with("variant ") => {
            "a string".to_owned()
        }
        _ => expected.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_serde_name_the_rule_in_the_terms_of_json() {
        for (message, plain) in [
            (
                "invalid type: string \"one\", expected u8",
                "is a string; an integer from 0 to 255 is required",
            ),
            (
                "invalid type: string \"a, expected b\", expected u64",
                "is a string; an integer from 0 to 18446744073709551615 is required",
            ),
            ("invalid type: null, expected a string", "is null; a string is required"),
            ("invalid type: sequence, expected an object", "is an array; an object is required"),
            ("invalid type: map, expected struct Limits", "is an object; an object is required"),
            (
                "invalid value: integer `-1`, expected u32",
                "is -1; an integer from 0 to 4294967295 is required",
            ),
            ("invalid type: floating point `1.5`, expected i64", "is 1.5; an integer is required"),
            (
                "invalid type: integer `1`, expected a boolean",
                "is 1; `true` or `false` is required",
            ),
            (
                "unknown field `x`, expected one of `a`, `b`",
                "is not a known member; allowed: `a`, `b`",
            ),
            ("unknown field `x`, expected `a` or `b`", "is not a known member; allowed: `a`, `b`"),
            (
                "unknown field `x`, there are no fields",
                "is not a known member: `x` is not allowed here",
            ),
            (
                "unknown variant `drop`, expected one of `queue`, `reject`",
                "is `drop`; allowed: `queue`, `reject`",
            ),
            ("missing field `content`", "lacks the member `content`, which is required"),
            ("duplicate field `a`", "has the member `a` twice; once is allowed"),
            (
                "data did not match any variant of untagged enum Input",
                "has none of the allowed forms",
            ),
            ("invalid digit found in string", "is not an integer"),
            ("is blank", "is blank"),
            ("is too long at line 1 column 2", "is too long"),
        ] {
            assert_eq!(plain_message(message), plain, "{message}");
        }
    }
}
