//! Patterns for shell commands.
//!
//! An `allow` pattern matches only a command that consists of plain words, because only then the
//! shell and this module split it in the same way. An `ask` or `deny` pattern also matches when its
//! words appear at any position where a command could begin, quoted or not.

use super::visible::is_hidden;
use super::wildcard::{MAX_TEXT, Wildcard};

/// A pattern for a command: its first words, and a flag that permits further words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CommandPattern {
    words: Vec<Wildcard>,
    /// The words in lowercase.
    lowercase: Vec<Wildcard>,
    is_open: bool,
}

impl CommandPattern {
    /// Parses a pattern such as `git status`, `git diff *` or `npm run test:*`. The last two
    /// permit further words.
    pub(super) fn new(pattern: &str) -> Result<Self, &'static str> {
        let (text, has_colon) = pattern.strip_suffix(":*").map_or((pattern, false), |t| (t, true));
        let mut words = plain_words(text, |c| c == '*').ok_or(
            "does not consist of plain words: only letters, digits, `-_./,:@%+=` and `*` are \
                allowed",
        )?;
        let has_star = words.last() == Some(&"*");
        if has_star {
            words.pop();
        }
        let lowercase = words.iter().map(|word| Wildcard::of_word(&word.to_lowercase())).collect();
        let words = words.into_iter().map(Wildcard::of_word).collect();
        Ok(Self { words, lowercase, is_open: has_colon || has_star })
    }

    /// Returns `true` if the command certainly matches. `allow` rules use this test.
    pub(super) fn certainly_matches(&self, command: &str) -> bool {
        let Some(words) = plain_words(command, |_| false) else { return false };
        let fits = if self.is_open {
            words.len() >= self.words.len()
        } else {
            words.len() == self.words.len()
        };
        fits && self.words.iter().zip(&words).all(|(pattern, word)| pattern.matches(word))
    }

    /// Returns `true` if the command could run a command that matches. `ask` and `deny` rules
    /// use this test.
    pub(super) fn possibly_matches(&self, command: &str) -> bool {
        if command.len() > MAX_TEXT {
            return true;
        }
        let text = unquoted(command);
        // A shell expands `$IFS` to a blank and `{rm,x}` to two words.
        let blank = text.replace("${ifs}", " ").replace("$ifs", " ");
        let expanded =
            if text.contains('{') { blank.replace(['{', '}', ','], " ") } else { blank.clone() };
        // The value in `A=rm` can itself be a command.
        let split_at_equals = expanded.replace('=', " ");
        [text, blank, expanded, split_at_equals].iter().any(|text| self.is_in(text))
    }

    /// Returns `true` if the pattern matches at a position where a command could begin.
    fn is_in(&self, text: &str) -> bool {
        text.split(ends_a_command).any(|part| {
            let words: Vec<&str> = part.split_whitespace().collect();
            // Any word can be a command: `env`, `xargs` and other programs run their
            // arguments.
            (0..words.len()).any(|n| self.begins(words.get(n..).unwrap_or_default()))
        })
    }

    fn begins(&self, words: &[&str]) -> bool {
        if words.len() < self.lowercase.len() {
            return false;
        }
        self.lowercase.iter().zip(words).enumerate().all(|(n, (pattern, word))| {
            let name = word.rsplit('/').next().unwrap_or_default();
            pattern.matches(word) || (n == 0 && pattern.matches(name))
        })
    }
}

/// Splits a command into words. Returns `None` if the command has shell syntax, sets a variable or
/// has a `..` path component.
fn plain_words(command: &str, is_permitted: impl Fn(char) -> bool) -> Option<Vec<&str>> {
    let is_plain =
        |c: char| c.is_ascii_alphanumeric() || " -_./,:@%+=".contains(c) || is_permitted(c);
    if command.len() > MAX_TEXT || !command.chars().all(is_plain) {
        return None;
    }
    let words: Vec<&str> = command.split(' ').filter(|word| !word.is_empty()).collect();
    // `NAME=value command` changes the environment of the command.
    let sets_a_variable = words.first()?.contains('=');
    let has_parent = |word: &&str| word.split(['/', '=', ':']).any(|part| part == "..");
    (!sets_a_variable && !words.iter().any(has_parent)).then_some(words)
}

/// Normalizes a command for wide matching: removes quotes, backslashes and invisible characters,
/// replaces every kind of blank with a space, and converts letters to lowercase.
fn unquoted(command: &str) -> String {
    let is_break = |c: char| matches!(c, '\n' | '\r');
    command
        .replace("\\\n", "")
        .chars()
        .filter(|c| !matches!(c, '\'' | '"' | '\\'))
        .filter(|c| c.is_whitespace() || !is_hidden(*c))
        .map(|c| if c.is_whitespace() && !is_break(c) { ' ' } else { c })
        .flat_map(char::to_lowercase)
        .collect()
}

/// Returns `true` if another command can begin after this character.
fn ends_a_command(c: char) -> bool {
    matches!(c, '\n' | '\r' | ';' | '&' | '|' | '(' | ')' | '{' | '}' | '<' | '>' | '$' | '`' | '!')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certainly_matches(pattern: &str, commands: &[&str]) -> Vec<bool> {
        let pattern = CommandPattern::new(pattern).unwrap();
        commands.iter().map(|command| pattern.certainly_matches(command)).collect()
    }

    #[test]
    fn a_pattern_without_wildcard_matches_the_whole_command() {
        let commands = ["git status", " git  status ", "git status -s", "git", "gitstatus"];
        assert_eq!(certainly_matches("git status", &commands), [true, true, false, false, false]);
    }

    #[test]
    fn a_wildcard_at_the_end_permits_further_words() {
        let commands = ["git diff", "git diff a b", "git difftool", "git"];
        assert_eq!(certainly_matches("git diff *", &commands), [true, true, false, false]);
        let commands = ["npm run test", "npm run test --all", "npm run tests", "npm run"];
        assert_eq!(certainly_matches("npm run test:*", &commands), [true, true, false, false]);
    }

    #[test]
    fn a_wildcard_in_the_middle_matches_one_word() {
        let commands = ["cargo nextest run", "cargo x y run", "cargo run"];
        assert_eq!(certainly_matches("cargo * run", &commands), [true, false, false]);
    }

    #[test]
    fn patterns_with_shell_syntax_are_rejected() {
        for pattern in ["", "a; b", "a | b", "echo 'x'", "A=1 b", "cat ../x", "a\u{a0}b", "$x"] {
            assert!(CommandPattern::new(pattern).is_err(), "{pattern:?}");
        }
    }

    #[test]
    fn a_command_is_found_at_every_position_where_it_could_begin() {
        let pattern = CommandPattern::new("rm *").unwrap();
        let found = [
            "rm -rf x",
            "ls; rm x",
            "ls&&rm x",
            "ls | xargs rm",
            "/bin/rm x",
            "sudo env A=b rm x",
            "sh -c 'rm x'",
            "\"r\"m x",
            "r\\m x",
            "r\\\nm x",
            "r\u{200b}m x",
            "rm\u{a0}x",
            "rm${IFS}x",
            "$(rm x)",
            "`rm x`",
            "ls\nrm x",
            "A=$(rm x)",
            "RM x",
            "{rm,x}",
        ];
        for command in found {
            assert!(pattern.possibly_matches(command), "{command:?}");
        }
        for command in ["ls", "rmdir x", "cat form", "git status"] {
            assert!(!pattern.possibly_matches(command), "{command:?}");
        }
    }

    #[test]
    fn words_are_found_across_shell_expansions() {
        for (pattern, command) in [
            ("rm -rf *", "{rm,-rf,x}"),
            ("rm -rf *", "rm${IFS}-rf${IFS}x"),
            ("rm -rf *", "rm$IFS-rf$IFS/x"),
            ("dd if=*", "dd if=/dev/zero of=x"),
            ("dd if=*", "A=1 dd if=x"),
            ("dd if=*", "{dd,if=x}"),
            ("dd if=*", "dd${IFS}if=x"),
            ("dd if *", "dd if=x"),
            ("docker run --privileged=true *", "docker run --privileged=true x"),
            ("git push a,b", "{ git push a,b; }"),
        ] {
            assert!(
                CommandPattern::new(pattern).unwrap().possibly_matches(command),
                "{pattern}: {command:?}"
            );
        }
        for (pattern, command) in [
            ("rm -rf *", "{rm,x}"),
            ("dd if=*", "dd of=x"),
            ("dd if=*", "echo dd; echo if=x"),
            ("git push a,b", "git push a b"),
        ] {
            let pattern = CommandPattern::new(pattern).unwrap();
            assert!(!pattern.possibly_matches(command), "{pattern:?}: {command:?}");
        }
    }
}
