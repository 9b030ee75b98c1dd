//! A language whose words are as common as those of real ones: a few are everywhere, most are rare
//! (Zipf's law).

use fastrand::Rng;

/// Words that there are, about as many as a large course catalogue has.
const WORDS: usize = 30_000;
/// Words of a passage, of some nine letters each.
const OF_A_PASSAGE: usize = 74;
const SYLLABLES: [&str; 20] = [
    "ba", "ce", "di", "fo", "gu", "ha", "ke", "li", "mo", "nu", "pa", "re", "si", "to", "vu", "wa",
    "xe", "yi", "zo", "qua",
];

/// Words, and how likely it is that one of them or of those before it is said.
#[derive(Debug)]
pub(crate) struct Language {
    words: Vec<String>,
    likely: Vec<f64>,
    random: Rng,
}

impl Default for Language {
    fn default() -> Self {
        let mut sum = 0.0;
        let likely = (1..).take(WORDS).map(|rank: u32| {
            // The first are left out: they are words such as `the`, which no index has.
            sum += 1.0 / f64::from(rank + 20);
            sum
        });
        let likely: Vec<f64> = likely.collect();
        Self { words: (0..WORDS).map(word).collect(), likely, random: Rng::with_seed(7) }
    }
}

impl Language {
    /// So many words as they are said.
    pub(crate) fn words(&mut self, count: usize) -> String {
        let all = self.likely.last().copied().unwrap_or_default();
        let said = (0..count).map(|_| {
            let point = self.random.f64() * all;
            let place = self.likely.partition_point(|likely| *likely < point);
            self.words.get(place).map_or("", String::as_str)
        });
        said.collect::<Vec<_>>().join(" ")
    }

    /// Some of the commonest words.
    pub(crate) fn common(&mut self, count: usize, of: usize) -> String {
        let mut words: Vec<&str> = self.words.iter().take(of).map(String::as_str).collect();
        self.random.shuffle(&mut words);
        words.truncate(count);
        words.join(" ")
    }

    /// A text of so many passages.
    pub(crate) fn passages(&mut self, count: usize) -> String {
        let sentence = |_| format!("W{}. ", self.words(OF_A_PASSAGE));
        (0..count).map(sentence).collect()
    }

    /// A number from 1.
    pub(crate) fn number(&mut self, up_to: usize) -> usize {
        self.random.usize(1..=up_to)
    }
}

fn word(number: usize) -> String {
    // Others than the next number's, so that no two words differ by an ending only.
    let mut rest = number + 8000;
    let mut word = String::new();
    while rest > 0 {
        word.push_str(SYLLABLES.get(rest % SYLLABLES.len()).copied().unwrap_or_default());
        rest /= SYLLABLES.len();
    }
    word + "k"
}
