//! Short names of statements.

/// The number of significant characters in which a statement of a file is compared. It covers the
/// different beginnings of all files.
const COMPARED: usize = 120;

/// A file with one SQL statement.
#[derive(Debug)]
pub(crate) struct SqlFile {
    pub(crate) name: String,
    beginning: String,
}

impl SqlFile {
    pub(crate) fn new(name: &str, text: &str) -> Self {
        Self { name: name.to_owned(), beginning: beginning(text) }
    }
}

/// The name of the file that contains the statement; else its command and its first table.
/// `pg_stat_statements` replaces constants by parameters, so constants are not compared.
pub(crate) fn label(query: &str, files: &[SqlFile]) -> String {
    let start = beginning(query);
    if let Some(file) = files.iter().find(|file| file.beginning == start) {
        return file.name.clone();
    }
    let words = words(query);
    let table_read = || table_read(&words);
    // A check of a foreign key locks the row that is referred to.
    if query.trim_end().ends_with("FOR KEY SHARE OF x") {
        return format!("foreign key to {}", table_read().unwrap_or_default());
    }
    if let Some(label) = (0..words.len()).find_map(|at| write_at(&words, at)) {
        return label;
    }
    let command = words.first().map_or_else(String::new, |word| word.to_uppercase());
    match table_read().or_else(|| words.get(1).cloned()) {
        Some(object) => format!("{command} {object}"),
        None => command,
    }
}

/// The first table that the statement reads: not a subquery, and not the FROM of `extract`.
fn table_read(words: &[String]) -> Option<String> {
    let is_table = |at: usize| {
        let name = words.get(at + 1);
        name.is_some_and(|name| !["select", "now"].iter().any(|other| is(name, other)))
    };
    let from = (0..words.len())
        .find(|at| words.get(*at).is_some_and(|word| is(word, "from")) && is_table(*at))?;
    Some(table(words, from + 1))
}

/// The command and the table if the word at this position begins a write. In a locking clause, and
/// in ON CONFLICT, UPDATE does not begin one.
fn write_at(words: &[String], at: usize) -> Option<String> {
    let word = words.get(at)?;
    let has = |position: Option<usize>, keywords: &[&str]| {
        let word = position.and_then(|position| words.get(position));
        word.is_some_and(|word| keywords.iter().any(|keyword| is(word, keyword)))
    };
    let (command, table_at) = if is(word, "insert") && has(Some(at + 1), &["into"]) {
        ("INSERT", at + 2)
    } else if is(word, "delete") && has(Some(at + 1), &["from"]) {
        ("DELETE", at + 2)
    } else if is(word, "update") && !has(at.checked_sub(1), &["for", "key", "do"]) {
        ("UPDATE", at + 1)
    } else {
        return None;
    };
    Some(format!("{command} {}", table(words, table_at)))
}

/// The name of the table at this position, without its schema.
fn table(words: &[String], at: usize) -> String {
    let name = words.iter().skip(at).find(|word| !is(word, "only"));
    name.map_or_else(String::new, |name| name.trim_start_matches("public.").to_owned())
}

fn is(word: &str, keyword: &str) -> bool {
    word.eq_ignore_ascii_case(keyword)
}

/// The beginning of a statement without comments, constants, parameters and white space.
fn beginning(text: &str) -> String {
    let mut kept = String::new();
    for token in Tokens(text) {
        let is_constant = match token {
            Token::Word(word) => ["true", "false", "null"].iter().any(|it| is(word, it)),
            Token::Constant => true,
            Token::Other(_) => false,
        };
        match token {
            Token::Word(word) if !is_constant => kept.push_str(&word.to_lowercase()),
            Token::Other(symbol) => kept.push(symbol),
            Token::Word(_) | Token::Constant => {}
        }
    }
    kept.chars().take(COMPARED).collect()
}

/// The names and keywords of a statement; `"public"."runs"` is one word.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut is_qualified = false;
    for token in Tokens(text) {
        match token {
            Token::Word(word) => match words.last_mut().filter(|_| is_qualified) {
                Some(last) if last != "pg_catalog" => {
                    last.push('.');
                    last.push_str(word);
                }
                _ => words.push(word.to_owned()),
            },
            Token::Other('"') => continue,
            Token::Constant | Token::Other(_) => {}
        }
        is_qualified = matches!(token, Token::Other('.'));
    }
    words
}

enum Token<'a> {
    Word(&'a str),
    /// A number, a string or a parameter.
    Constant,
    Other(char),
}

struct Tokens<'a>(&'a str);

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            self.0 = self.0.trim_start();
            let Some(comment) = self.0.strip_prefix("--") else {
                break;
            };
            self.0 = comment.split_once('\n').map_or("", |(_, rest)| rest);
        }
        let first = self.0.chars().next()?;
        if first == '\'' {
            let rest = self.0.get(1..).unwrap_or_default();
            self.0 = rest.split_once('\'').map_or("", |(_, rest)| rest);
            return Some(Token::Constant);
        }
        let is_name = |char: char| char.is_alphanumeric() || char == '_';
        let is_parameter = first == '$';
        let start = usize::from(is_parameter);
        let length = self
            .0
            .get(start..)
            .map_or(0, |rest| rest.find(|char| !is_name(char)).unwrap_or(rest.len()));
        if length == 0 {
            self.0 = self.0.get(first.len_utf8()..).unwrap_or_default();
            return Some(Token::Other(first));
        }
        let (word, rest) = self.0.split_at_checked(start + length)?;
        self.0 = rest;
        let is_constant = is_parameter || first.is_ascii_digit();
        Some(if is_constant { Token::Constant } else { Token::Word(word) })
    }
}
