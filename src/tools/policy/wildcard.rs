//! Patterns with `*` as the only wildcard. All other characters match themselves.

use std::mem;

/// Maximum length of a pattern, in bytes. Matching takes time proportional to the product of the
/// lengths of pattern and text, so both are bounded.
pub(super) const MAX_PATTERN: usize = 1000;
/// Maximum length of a text that is matched, in bytes.
pub(super) const MAX_TEXT: usize = 16 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    One(char),
    /// Any number of characters except `/`.
    Some,
    /// Any number of characters.
    All,
}

/// A compiled pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wildcard(Vec<Part>);

impl Wildcard {
    /// Compiles a pattern in which every `*` matches any characters.
    pub(super) fn of_word(pattern: &str) -> Self {
        Self(pattern.chars().map(|c| if c == '*' { Part::All } else { Part::One(c) }).collect())
    }

    /// Compiles a pattern in which `*` matches any characters except `/`, and `**` any
    /// characters.
    pub(super) fn of_text(pattern: &str) -> Self {
        let mut parts: Vec<Part> = Vec::new();
        for c in pattern.chars() {
            match (c, parts.last_mut()) {
                ('*', Some(last @ (Part::Some | Part::All))) => *last = Part::All,
                ('*', _) => parts.push(Part::Some),
                _ => parts.push(Part::One(c)),
            }
        }
        Self(parts)
    }

    /// Returns `true` if the pattern matches the whole text.
    pub(super) fn matches(&self, text: &str) -> bool {
        // `reached[n]`: the first n parts match the text so far.
        let mut reached = vec![false; self.0.len() + 1];
        self.reach(&mut reached, 0);
        let mut next = vec![false; reached.len()];
        for c in text.chars() {
            next.fill(false);
            for (n, part) in self.0.iter().enumerate() {
                if !reached.get(n).is_some_and(|is| *is) {
                    continue;
                }
                match part {
                    Part::One(wanted) if *wanted == c => self.reach(&mut next, n + 1),
                    Part::Some if c != '/' => self.reach(&mut next, n),
                    Part::All => self.reach(&mut next, n),
                    Part::One(_) | Part::Some => {}
                }
            }
            if !next.contains(&true) {
                return false;
            }
            mem::swap(&mut reached, &mut next);
        }
        reached.last().is_some_and(|is| *is)
    }

    /// Marks a state as reached, and the states after the wildcards that follow it, because a
    /// wildcard can match the empty text.
    fn reach(&self, reached: &mut [bool], mut n: usize) {
        while let Some(is) = reached.get_mut(n).filter(|is| !**is) {
            *is = true;
            if !matches!(self.0.get(n), Some(Part::Some | Part::All)) {
                return;
            }
            n += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_star_in_a_word_matches_any_characters() {
        let pattern = Wildcard::of_word("mcp__*_get");
        let matched = ["mcp__a_get", "mcp___get", "mcp__a/b_get", "mcp__a_set", "mcp__a_get_"]
            .map(|text| pattern.matches(text));
        assert_eq!(matched, [true, true, true, false, false]);
    }

    #[test]
    fn one_star_in_a_text_does_not_match_a_slash() {
        let one = Wildcard::of_text("https://docs.rs/*");
        let two = Wildcard::of_text("https://docs.rs/**");
        let texts = ["https://docs.rs/axum", "https://docs.rs/axum/latest", "https://docs.rs.x/"];
        assert_eq!(texts.map(|text| one.matches(text)), [true, false, false]);
        assert_eq!(texts.map(|text| two.matches(text)), [true, true, false]);
    }

    #[test]
    fn other_characters_match_themselves() {
        let pattern = Wildcard::of_text("[a].(b)+?");
        assert!(pattern.matches("[a].(b)+?"));
        assert!(!pattern.matches("a.b"));
    }

    #[test]
    fn matching_many_stars_takes_bounded_time() {
        let pattern = Wildcard::of_word(&format!("{}b", "a*".repeat(MAX_PATTERN / 2)));
        let started = Instant::now();
        assert!(!pattern.matches(&"a".repeat(MAX_TEXT)));
        // Exponential time would be years.
        assert!(started.elapsed().as_secs() < 60);
    }
}
