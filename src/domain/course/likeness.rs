//! Names that are nearly right: compared by the groups of three letters that their words have, as
//! `pg_trgm` does. That extension is not everywhere, and not every owner of tables may install it;
//! the titles of one tenant are few enough to compare them all here.

/// The share of a name that a title must have to be meant by it.
const ENOUGH: f64 = 0.6;
/// Words that say nothing of which course is meant.
const EMPTY: [&str; 6] = ["a", "an", "the", "of", "on", "course"];

type Group = [char; 3];

/// Which of some titles is most like a name, if one is like it at all. A title that has more of the
/// name wins; of two that have the same, the one with less besides.
pub fn most_like<'a>(name: &str, titles: impl IntoIterator<Item = &'a str>) -> Option<usize> {
    let name = name_groups(name);
    let scores = titles.into_iter().map(|title| likeness(&name, &groups(words(title))));
    let likely = scores.enumerate().filter(|(_, (share, _))| *share >= ENOUGH);
    // The first of those that are the same.
    let best = likely.reduce(|best, next| if next.1 > best.1 { next } else { best });
    best.map(|(place, _)| place)
}

/// How much of the name the title has, and how much all that they have in common is of both.
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

/// The groups of some words, in order and each once. Two spaces before a word and one behind it let
/// its beginning count for more than its end.
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
    fn a_name_is_found_by_a_part_in_any_case_and_order_and_with_slips() {
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
    fn a_name_that_is_like_nothing_finds_nothing() {
        for name in ["", "?!", "Cooking for two", "the course", "x"] {
            assert_eq!(found(name), None, "{name}");
        }
        assert_eq!(most_like("MCP", []), None);
        assert_eq!(most_like("The Course", ["The Course"]), Some(0));
    }

    #[test]
    fn of_two_titles_the_one_with_less_besides_is_meant_and_else_the_first() {
        assert_eq!(most_like("databases", ["Vector Databases in Depth", "Databases"]), Some(1));
        assert_eq!(most_like("databases", ["Databases I", "Databases V"]), Some(0));
    }
}
