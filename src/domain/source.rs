//! Sources: the documents that an answer cites.

use serde::{Deserialize, Serialize};

/// A source of an answer, as shown to readers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Source {
    /// The title.
    pub title: String,
    /// The address; absent when it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// The maximum length of the title of a web page, in bytes.
const MAX_TITLE: usize = 300;

impl Source {
    /// A web page with this title, or with its URL as the title if it has none.
    pub fn web(title: &str, url: &str) -> Self {
        let is_between = |c: char| c.is_whitespace() || c.is_control();
        let words = title.split(is_between).filter(|word| !word.is_empty());
        let mut title = words.collect::<Vec<_>>().join(" ");
        if title.is_empty() {
            url.clone_into(&mut title);
        }
        title.truncate(title.floor_char_boundary(MAX_TITLE));
        Self { title, url: Some(url.chars().filter(|c| !c.is_control()).collect()) }
    }
}

/// Removes duplicate sources and keeps the order.
pub fn each_once(sources: impl IntoIterator<Item = Source>) -> Vec<Source> {
    let mut once: Vec<Source> = Vec::new();
    for source in sources {
        if !once.contains(&source) {
            once.push(source);
        }
    }
    once
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_web_page_without_a_title_has_its_url() {
        let url = "https://example.com/a";
        let titled = |title: &str| Source::web(title, url).title;
        assert_eq!(titled(" A\n page\0!\u{1b}"), "A page !");
        assert_eq!((titled(" \n"), titled(&"\u{e9}".repeat(200)).len()), (url.to_owned(), 300));
    }
}
