//! Patterns of shell commands.
//!
//! A command is allowed by a pattern only if it is of plain words: then a shell and we read it
//! alike. To be asked about or denied, it is enough that the words stand where a command could
//! begin, however quoted.

use super::visible::is_hidden;
use super::wildcard::{MAX_TEXT, Wildcard};

/// A pattern of a command: its first words, and whether others may follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CommandPattern {
    words: Vec<Wildcard>,
    /// The same in small letters.
    small: Vec<Wildcard>,
    is_open: bool,
}

impl CommandPattern {
    /// Reads `git status`, `git diff *`, `npm run test:*`. The last two take further words.
    pub(super) fn new(pattern: &str) -> Result<Self, &'static str> {
        let (text, has_colon) = pattern.strip_suffix(":*").map_or((pattern, false), |t| (t, true));
        let mut words = plain_words(text, |c| c == '*').ok_or(
            "is not of plain words: a rule names a command by letters, digits, `-_./,:@%+=` and `*`",
        )?;
        let has_star = words.last() == Some(&"*");
        if has_star {
            words.pop();
        }
        let small = words.iter().map(|word| Wildcard::of_word(&word.to_lowercase())).collect();
        let words = words.into_iter().map(Wildcard::of_word).collect();
        Ok(Self { words, small, is_open: has_colon || has_star })
    }

    /// Whether a command is what the pattern says, beyond doubt.
    pub(super) fn surely(&self, command: &str) -> bool {
        let Some(words) = plain_words(command, |_| false) else { return false };
        let fits = if self.is_open {
            words.len() >= self.words.len()
        } else {
            words.len() == self.words.len()
        };
        fits && self.words.iter().zip(&words).all(|(pattern, word)| pattern.matches(word))
    }

    /// Whether a command may do what the pattern says, as far as can be seen.
    pub(super) fn maybe(&self, command: &str) -> bool {
        if command.len() > MAX_TEXT {
            return true;
        }
        let text = unquoted(command);
        // A shell makes a blank of this variable, and of `{rm,x}` two words.
        let blank = text.replace("${ifs}", " ").replace("$ifs", " ");
        let spread =
            if text.contains('{') { blank.replace(['{', '}', ','], " ") } else { blank.clone() };
        // `A=rm` is a word, and may hold one.
        let apart = spread.replace('=', " ");
        [text, blank, spread, apart].iter().any(|text| self.is_in(text))
    }

    /// Whether it stands where a command could begin.
    fn is_in(&self, text: &str) -> bool {
        text.split(ends_a_command).any(|part| {
            let words: Vec<&str> = part.split_whitespace().collect();
            // Any word may be a command: `env`, `xargs` and many others run what follows them.
            (0..words.len()).any(|n| self.begins(words.get(n..).unwrap_or_default()))
        })
    }

    fn begins(&self, words: &[&str]) -> bool {
        if words.len() < self.small.len() {
            return false;
        }
        self.small.iter().zip(words).enumerate().all(|(n, (pattern, word))| {
            let name = word.rsplit('/').next().unwrap_or_default();
            pattern.matches(word) || (n == 0 && pattern.matches(name))
        })
    }
}

/// The words of a command that means to a shell what it says; none if it has anything more than
/// words.
fn plain_words(command: &str, is_also: impl Fn(char) -> bool) -> Option<Vec<&str>> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || " -_./,:@%+=".contains(c) || is_also(c);
    if command.len() > MAX_TEXT || !command.chars().all(is_plain) {
        return None;
    }
    let words: Vec<&str> = command.split(' ').filter(|word| !word.is_empty()).collect();
    // `NAME=value command` changes what the command does.
    let sets_a_variable = words.first()?.contains('=');
    let climbs = |word: &&str| word.split(['/', '=', ':']).any(|part| part == "..");
    (!sets_a_variable && !words.iter().any(climbs)).then_some(words)
}

/// A command without what only hides it: quotes, backslashes, characters that do not show. Spaces
/// of all kinds are one kind, letters are small.
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

/// Whether another command may begin behind this character.
fn ends_a_command(c: char) -> bool {
    matches!(c, '\n' | '\r' | ';' | '&' | '|' | '(' | ')' | '{' | '}' | '<' | '>' | '$' | '`' | '!')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn surely(pattern: &str, commands: &[&str]) -> Vec<bool> {
        let pattern = CommandPattern::new(pattern).unwrap();
        commands.iter().map(|command| pattern.surely(command)).collect()
    }

    #[test]
    fn a_pattern_without_a_star_is_the_whole_command() {
        let commands = ["git status", " git  status ", "git status -s", "git", "gitstatus"];
        assert_eq!(surely("git status", &commands), [true, true, false, false, false]);
    }

    #[test]
    fn a_star_at_the_end_takes_further_words() {
        let commands = ["git diff", "git diff a b", "git difftool", "git"];
        assert_eq!(surely("git diff *", &commands), [true, true, false, false]);
        let commands = ["npm run test", "npm run test --all", "npm run tests", "npm run"];
        assert_eq!(surely("npm run test:*", &commands), [true, true, false, false]);
    }

    #[test]
    fn a_star_in_the_middle_is_one_word() {
        let commands = ["cargo nextest run", "cargo x y run", "cargo run"];
        assert_eq!(surely("cargo * run", &commands), [true, false, false]);
    }

    #[test]
    fn a_pattern_is_of_plain_words() {
        for pattern in ["", "a; b", "a | b", "echo 'x'", "A=1 b", "cat ../x", "a\u{a0}b", "$x"] {
            assert!(CommandPattern::new(pattern).is_err(), "{pattern:?}");
        }
    }

    #[test]
    fn a_command_is_found_wherever_it_could_begin() {
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
            assert!(pattern.maybe(command), "{command:?}");
        }
        for command in ["ls", "rmdir x", "cat form", "git status"] {
            assert!(!pattern.maybe(command), "{command:?}");
        }
    }

    #[test]
    fn words_are_found_whatever_a_shell_makes_a_blank_of() {
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
            assert!(CommandPattern::new(pattern).unwrap().maybe(command), "{pattern}: {command:?}");
        }
        for (pattern, command) in [
            ("rm -rf *", "{rm,x}"),
            ("dd if=*", "dd of=x"),
            ("dd if=*", "echo dd; echo if=x"),
            ("git push a,b", "git push a b"),
        ] {
            let pattern = CommandPattern::new(pattern).unwrap();
            assert!(!pattern.maybe(command), "{pattern:?}: {command:?}");
        }
    }
}
