//! Syntax errors of JSON in plain English.

use serde_json::error::Category;

/// The rule of JSON that a text breaks, with line and column, both counted from 1. The message of
/// `serde_json` counts columns from 0 and uses the words of its implementation.
pub fn plain_syntax(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let message = text.split(" at line ").next().unwrap_or(&text);
    if error.classify() == Category::Eof && error.line() <= 1 && error.column() == 0 {
        return "it is empty".to_owned();
    }
    let (line, column) = (error.line().max(1), error.column().max(1));
    format!("line {line}, column {column}: {}", rule(message))
}

fn rule(message: &str) -> &str {
    match message {
        "EOF while parsing a list" => "the text ends inside an array",
        "EOF while parsing an object" => "the text ends inside an object",
        "EOF while parsing a string" => "the text ends inside a string",
        "EOF while parsing a value" => "the text ends where a value is required",
        "expected `:`" => "a `:` is required after the name of a member",
        "expected `,` or `]`" => "a `,` or `]` is required after an element",
        "expected `,` or `}`" => "a `,` or `}` is required after a member",
        "expected ident" => "this is not a JSON value; words are `true`, `false` and `null`",
        "expected value" => "a value is required here",
        "expected `\"`" => "a string is required here",
        "invalid escape" => "this escape is not allowed in a string",
        "invalid number" => "this is not a JSON number",
        "number out of range" => "the number is too large",
        "invalid unicode code point" => "the string is not in UTF-8",
        "control character (\\u0000-\\u001F) found while parsing a string" => {
            "a control character in a string must be escaped, such as `\\n`"
        }
        "key must be a string" => "the name of a member must be a string in double quotes",
        "lone leading surrogate in hex escape" => {
            "the escape is half of a surrogate pair; the other half must follow"
        }
        "trailing comma" => "a `,` must be followed by another element or member",
        "trailing characters" => "nothing may follow the document",
        "unexpected end of hex escape" => "`\\u` must be followed by four hexadecimal digits",
        "recursion limit exceeded" => "arrays and objects are nested deeper than 127 levels",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_syntax_error_is_explained_with_its_position() {
        let deep = "[".repeat(200);
        for (json, expected) in [
            ("", "it is empty"),
            ("{", "line 1, column 1: the text ends inside an object"),
            ("[1", "line 1, column 2: the text ends inside an array"),
            ("{\"a\"", "line 1, column 4: the text ends inside an object"),
            ("{\n  \"a\": ", "line 2, column 7: the text ends where a value is required"),
            ("\"abc", "line 1, column 4: the text ends inside a string"),
            (
                "nope",
                "line 1, column 2: this is not a JSON value; words are `true`, `false` and `null`",
            ),
            ("<a>", "line 1, column 1: a value is required here"),
            ("{a: 1}", "line 1, column 2: the name of a member must be a string in double quotes"),
            ("{\"a\" 1}", "line 1, column 6: a `:` is required after the name of a member"),
            ("[1 2]", "line 1, column 4: a `,` or `]` is required after an element"),
            ("{\"a\":1 \"b\":2}", "line 1, column 8: a `,` or `}` is required after a member"),
            ("{\"a\":1,}", "line 1, column 8: a `,` must be followed by another element or member"),
            ("{} {}", "line 1, column 4: nothing may follow the document"),
            ("\"\\x\"", "line 1, column 3: this escape is not allowed in a string"),
            ("-", "line 1, column 1: the text ends where a value is required"),
            ("01", "line 1, column 2: this is not a JSON number"),
            ("1e999", "line 1, column 5: the number is too large"),
            (
                "\"a\nb\"",
                "line 2, column 1: a control character in a string must be escaped, such as `\\n`",
            ),
            (&deep, "line 1, column 128: arrays and objects are nested deeper than 127 levels"),
        ] {
            let error = serde_json::from_str::<serde_json::Value>(json).unwrap_err();
            assert_eq!(plain_syntax(&error), expected, "{json}");
        }
    }
}
