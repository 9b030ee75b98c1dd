//! Fuzzy title search by trigrams, as in `pg_trgm`. That extension is not installed everywhere,
//! and not every table owner may install it; a tenant has few enough titles to compare them here.

/// The minimum share of the name's trigrams that a matching title contains.
const ENOUGH: f64 = 0.6;
/// Words that do not distinguish courses.
const EMPTY: [&str; 6] = ["a", "an", "the", "of", "on", "course"];

type Group = [char; 3];

/// Returns the index of the title most similar to a name, if any is similar enough. The title that
/// contains more of the name wins; between equal titles, the one with fewer other trigrams.
pub fn most_like<'a>(name: &str, titles: impl IntoIterator<Item = &'a str>) -> Option<usize> {
    let name = name_groups(name);
    let scores = titles.into_iter().map(|title| likeness(&name, &groups(words(title))));
    let likely = scores.enumerate().filter(|(_, (share, _))| *share >= ENOUGH);
    // `reduce` keeps the first of equal titles.
    let best = likely.reduce(|best, next| if next.1 > best.1 { next } else { best });
    best.map(|(place, _)| place)
}

/// Returns the share of the name that the title contains, and the similarity of both.
fn likeness(name: &[Group], title: &[Group]) -> (f64, f64) {
    let common = name.iter().filter(|group| title.binary_search(group).is_ok()).count();
    let all = name.len() + title.len() - common;
    (ratio(common, name.len()), ratio(common, all))
}

fn ratio(part: usize, whole: usize) -> f64 {
    let count = |it: usize| f64::from(u32::try_from(it).unwrap_or(u32::MAX));
    if whole == 0 { 0.0 } else { count(part) / count(whole) }
}

fn name_groups(name: &str) -> Vec<Group> {
    let telling = groups(words(name).filter(|word| !EMPTY.contains(&word.as_str())));
    if telling.is_empty() { groups(words(name)) } else { telling }
}

fn words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase)
}

/// Returns the distinct trigrams of some words, sorted. Two spaces before each word and one after
/// it give the beginning of a word more weight than its end.
fn groups(words: impl Iterator<Item = String>) -> Vec<Group> {
    let mut groups: Vec<Group> = words
        .flat_map(|word| {
            let letters: Vec<char> =
                [' ', ' '].into_iter().chain(word.chars()).chain([' ']).collect();
            let groups = letters.windows(3).filter_map(|group| group.try_into().ok());
            groups.collect::<Vec<Group>>()
        })
        .collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    const TITLES: [&str; 5] = [
        "Building Towards Computer Use with Anthropic",
        "MCP: Build Rich-Context AI Apps with Anthropic",
        "Advanced Retrieval for AI with Chroma",
        "Prompt Compression and Query Optimization",
        "Prompting",
    ];

    fn found(name: &str) -> Option<&'static str> {
        most_like(name, TITLES).map(|place| TITLES[place])
    }

    #[test]
    fn a_name_is_found_by_a_part_in_any_case_and_order_and_with_typos() {
        for (name, place) in [
            ("MCP", 1),
            ("the MCP course", 1),
            ("anthropic computer use", 0),
            ("comptuer use", 0),
            ("Chroma", 2),
            ("retreival with chroma", 2),
            ("query optimisation", 3),
            ("prompting", 4),
            ("PROMPT COMPRESSION AND QUERY OPTIMIZATION", 3),
        ] {
            assert_eq!(found(name), Some(TITLES[place]), "{name}");
        }
    }

    #[test]
    fn a_name_without_similar_titles_finds_nothing() {
        for name in ["", "?!", "Cooking for two", "the course", "x"] {
            assert_eq!(found(name), None, "{name}");
        }
        assert_eq!(most_like("MCP", []), None);
        assert_eq!(most_like("The Course", ["The Course"]), Some(0));
    }

    #[test]
    fn the_title_with_fewer_other_words_wins_and_else_the_first() {
        assert_eq!(most_like("databases", ["Vector Databases in Depth", "Databases"]), Some(1));
        assert_eq!(most_like("databases", ["Databases I", "Databases V"]), Some(0));
    }
}
