//! A generated language whose word frequencies follow Zipf's law, as in real languages: a few words
//! are everywhere, most are rare.

use fastrand::Rng;

/// The size of the vocabulary, about that of a large course catalogue.
const WORDS: usize = 30_000;
/// Words per passage, each about nine letters long.
const OF_A_PASSAGE: usize = 74;
const SYLLABLES: [&str; 20] = [
    "ba", "ce", "di", "fo", "gu", "ha", "ke", "li", "mo", "nu", "pa", "re", "si", "to", "vu", "wa",
    "xe", "yi", "zo", "qua",
];

/// The vocabulary, with the cumulative probability of each word.
#[derive(Debug)]
pub(crate) struct Language {
    words: Vec<String>,
    cumulative: Vec<f64>,
    random: Rng,
}

impl Default for Language {
    fn default() -> Self {
        let mut sum = 0.0;
        let cumulative = (1..).take(WORDS).map(|rank: u32| {
            // The most frequent ranks are left out: in real languages they are stop words such as
            // `the`, which no index contains.
            sum += 1.0 / f64::from(rank + 20);
            sum
        });
        let cumulative: Vec<f64> = cumulative.collect();
        Self { words: (0..WORDS).map(word).collect(), cumulative, random: Rng::with_seed(7) }
    }
}

impl Language {
    /// Generates a text of this many words.
    pub(crate) fn words(&mut self, count: usize) -> String {
        let all = self.cumulative.last().copied().unwrap_or_default();
        let words = (0..count).map(|_| {
            let point = self.random.f64() * all;
            let index = self.cumulative.partition_point(|cumulative| *cumulative < point);
            self.words.get(index).map_or("", String::as_str)
        });
        words.collect::<Vec<_>>().join(" ")
    }

    /// Picks random words out of the most frequent ones.
    pub(crate) fn common(&mut self, count: usize, of: usize) -> String {
        let mut words: Vec<&str> = self.words.iter().take(of).map(String::as_str).collect();
        self.random.shuffle(&mut words);
        words.truncate(count);
        words.join(" ")
    }

    /// Generates a text of this many passages.
    pub(crate) fn passages(&mut self, count: usize) -> String {
        let sentence = |_| format!("W{}. ", self.words(OF_A_PASSAGE));
        (0..count).map(sentence).collect()
    }

    /// A random number from 1 to `up_to`.
    pub(crate) fn number(&mut self, up_to: usize) -> usize {
        self.random.usize(1..=up_to)
    }
}

fn word(number: usize) -> String {
    // The least significant syllable comes first, so consecutive words differ at their start and
    // not only in an ending that stemming removes. The offset gives all words four syllables.
    let mut rest = number + 8000;
    let mut word = String::new();
    while rest > 0 {
        word.push_str(SYLLABLES.get(rest % SYLLABLES.len()).copied().unwrap_or_default());
        rest /= SYLLABLES.len();
    }
    word + "k"
}
