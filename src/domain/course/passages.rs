//! Splits a long text into passages: short enough that a model can read several, with ends at
//! sentence ends, and with an overlap that keeps related sentences together.

/// Maximum length of a passage in characters.
const LENGTH: usize = 800;
/// Maximum length of the overlap in characters.
const OVERLAP: usize = 100;

/// A sentence, or a part of a long sentence, with its length in characters.
type Piece<'a> = (&'a str, usize);

pub(super) fn passages(text: &str) -> Vec<String> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let pieces = pieces(&text);
    let (mut passages, mut begin, mut done) = (Vec::new(), 0, 0);
    while done < pieces.len() {
        let rest = pieces.get(begin..).unwrap_or_default();
        done = begin + fitting(rest.iter(), LENGTH).max(1);
        let passage = pieces.get(begin..done).unwrap_or_default();
        passages.push(passage.iter().map(|(text, _)| *text).collect::<Vec<_>>().join(" "));
        begin = done - repeated(passage, pieces.get(done));
    }
    passages
}

/// Returns the number of pieces at the end of a passage that the next passage repeats, if the next
/// piece fits after them.
fn repeated(passage: &[Piece<'_>], next: Option<&Piece<'_>>) -> usize {
    let room = next.map_or(0, |(_, letters)| LENGTH.saturating_sub(letters + 1));
    fitting(passage.iter().skip(1).rev(), OVERLAP.min(room))
}

/// Returns the number of pieces that fit into this many characters, joined by spaces.
fn fitting<'a>(pieces: impl Iterator<Item = &'a Piece<'a>>, letters: usize) -> usize {
    let sizes = pieces.scan(0, |sum, (_, letters)| {
        *sum += letters + 1;
        Some(*sum - 1)
    });
    sizes.take_while(|size| *size <= letters).count()
}

/// Splits a text with single spaces into sentences.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (sentence, behind) = rest.split_at(end_of_sentence(rest));
        let mut sentence = sentence.trim();
        while !sentence.is_empty() {
            let (piece, more) = sentence.split_at(end_of_piece(sentence));
            pieces.push((piece, piece.chars().count()));
            sentence = more.trim_start();
        }
        rest = behind.trim_start();
    }
    pieces
}

/// Returns the end of the first sentence: a mark followed by a space, unless a lower-case letter
/// follows, as it does after most abbreviations.
fn end_of_sentence(text: &str) -> usize {
    let mut ends = text.match_indices(' ').filter(|(at, _)| {
        let (before, behind) = text.split_at(*at);
        let before = before.trim_end_matches(['"', '\'', ')', ']', '”', '’']);
        let goes_on = behind.trim_start().starts_with(char::is_lowercase);
        before.ends_with(['.', '!', '?', '…']) && !goes_on
    });
    ends.next().map_or(text.len(), |(at, _)| at)
}

/// Returns the end of the longest part of a sentence that fits into one passage, at a word end if
/// there is one.
fn end_of_piece(sentence: &str) -> usize {
    let Some((limit, _)) = sentence.char_indices().nth(LENGTH) else { return sentence.len() };
    let (head, behind) = sentence.split_at(limit);
    if behind.starts_with(' ') {
        return limit;
    }
    head.rfind(' ').unwrap_or(limit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn letters(text: &str) -> usize {
        text.chars().count()
    }

    #[test]
    fn a_short_text_is_one_passage_and_an_empty_one_none() {
        assert_eq!(passages(" \n "), Vec::<String>::new());
        assert_eq!(passages("One.\n\n  Two,\tthree."), ["One. Two, three."]);
    }

    #[test]
    fn a_passage_ends_with_a_sentence_and_the_next_one_repeats_the_last_sentences() {
        let sentence = |n: usize| format!("Sentence {n:02} has about fifty letters, as all do.");
        let text: Vec<String> = (0..20).map(sentence).collect();
        let found = passages(&text.join("\n"));
        // Each has 47 characters: sixteen fit into a passage, and two into the overlap.
        assert_eq!(found, [text[..16].join(" "), text[14..].join(" ")]);
    }

    #[test]
    fn neither_abbreviations_nor_numbers_end_a_sentence_but_quotes_may() {
        let text = "Use e.g. version 1.2 of it, cf. the notes. \"Why?\" Because.";
        let expected = ["Use e.g. version 1.2 of it, cf. the notes.", "\"Why?\"", "Because."];
        assert_eq!(pieces(text).iter().map(|(text, _)| *text).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn text_without_sentences_is_split_between_words_and_long_words_anywhere() {
        let words = ["seven77"; 250].join(" ");
        let found = passages(&words);
        assert_eq!(found.iter().map(|it| letters(it)).collect::<Vec<_>>(), [799, 799, 399]);
        assert_eq!(found.join(" "), words);
        assert_eq!(passages(&"ü".repeat(801)), ["ü".repeat(800), "ü".to_owned()]);
    }

    proptest! {
        /// For any sentences: passages are short, each adds text, and no word is lost.
        #[test]
        fn passages_are_short_and_lose_nothing(lengths in prop::collection::vec(1..200usize, 0..40)) {
            let mut numbers = 0..;
            let mut sentence = |length| {
                let words = numbers.by_ref().take(length).map(|n: usize| format!("W{n}"));
                words.collect::<Vec<_>>().join(" ") + "."
            };
            let text = lengths.into_iter().map(&mut sentence).collect::<Vec<_>>().join(" ");
            let mut rest: Vec<&str> = text.split_whitespace().collect();
            for passage in &passages(&text) {
                prop_assert!((1..=LENGTH).contains(&letters(passage)));
                let words: Vec<&str> = passage.split(' ').collect();
                let new = words.iter().position(|word| rest.first() == Some(word));
                let new = new.expect("a passage goes on where the one before ends");
                prop_assert!(letters(&words[..new].join(" ")) <= OVERLAP);
                prop_assert!(rest.starts_with(&words[new..]));
                rest.drain(..words.len() - new);
            }
            prop_assert_eq!(rest, Vec::<&str>::new());
        }
    }
}
