//! The words of names, descriptions and queries.

/// Returns the words of a text in lowercase, without plural endings. `createEvent` has two words, and
/// so has `create_event`.
pub(super) fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut was_lower = false;
    for c in text.chars() {
        let begins = c.is_uppercase() && was_lower;
        if !c.is_alphanumeric() || begins {
            push(&mut words, &mut word);
        }
        was_lower = c.is_lowercase() || c.is_numeric();
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
    }
    push(&mut words, &mut word);
    words
}

fn push(words: &mut Vec<String>, word: &mut String) {
    if word.is_empty() {
        return;
    }
    words.push(singular(word).to_owned());
    word.clear();
}

/// A word without the ending of a plural, as far as a few rules know it. It need not be a real word: it
/// is only compared with others.
fn singular(word: &str) -> &str {
    if word.len() < 4 || word.ends_with("ss") || word.ends_with("us") {
        return word;
    }
    for ending in ["sses", "shes", "ches", "xes"] {
        if word.ends_with(ending) {
            return word.strip_suffix("es").unwrap_or(word);
        }
    }
    word.strip_suffix('s').unwrap_or(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_sentences_are_split_into_words() {
        for (text, expected) in [
            ("mcp__git_hub__createIssue", vec!["mcp", "git", "hub", "create", "issue"]),
            ("Lists the addresses, boxes and URLs.", {
                vec!["list", "the", "address", "box", "and", "url"]
            }),
            ("HTTPServer v2", vec!["httpserver", "v2"]),
            ("status of glass as is", vec!["status", "of", "glass", "as", "is"]),
            ("Größe: Äpfel", vec!["größe", "äpfel"]),
            ("--", vec![]),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }
}
