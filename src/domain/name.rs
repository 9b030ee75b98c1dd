//! Names of keys and tenants, and names that clients give to users and sessions.

/// The longest name, in characters.
const MAX: usize = 100;

/// Returns `true` for a valid name. Names are printed one per line.
pub fn is_name(text: &str) -> bool {
    !text.trim().is_empty() && text.chars().count() <= MAX && !text.contains(char::is_control)
}

/// Returns `true` for a valid name of a user and a valid external id of a session.
pub fn is_client_name(text: &str) -> bool {
    (1..=255).contains(&text.chars().count()) && !text.contains(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_visible_text_on_one_line() {
        for (text, expected) in [
            ("acme", true),
            ("Ä & Söhne", true),
            ("ß".repeat(100).as_str(), true),
            ("ß".repeat(101).as_str(), false),
            ("", false),
            (" ", false),
            ("two\nlines", false),
            ("\u{7f}", false),
        ] {
            assert_eq!(is_name(text), expected, "{text:?}");
        }
    }
}
