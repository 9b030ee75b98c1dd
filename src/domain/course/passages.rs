//! A long text in passages: short enough that a model can read several, cut where sentences end,
//! each with the end of the one before, so that what belongs together stands together somewhere.

/// Letters of a passage at most.
const LENGTH: usize = 800;
/// Letters at most that a passage repeats of the one before.
const OVERLAP: usize = 100;

/// A sentence, or a part of one that is too long, and how many letters it has.
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

/// How many pieces at the end of a passage the next one begins with, if there is room for more than
/// these.
fn repeated(passage: &[Piece<'_>], next: Option<&Piece<'_>>) -> usize {
    let room = next.map_or(0, |(_, letters)| LENGTH.saturating_sub(letters + 1));
    fitting(passage.iter().skip(1).rev(), OVERLAP.min(room))
}

/// How many pieces, joined by spaces, have at most so many letters.
fn fitting<'a>(pieces: impl Iterator<Item = &'a Piece<'a>>, letters: usize) -> usize {
    let sizes = pieces.scan(0, |sum, (_, letters)| {
        *sum += letters + 1;
        Some(*sum - 1)
    });
    sizes.take_while(|size| *size <= letters).count()
}

/// The sentences of a text whose words are one space apart.
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

/// A sentence ends at a mark with a space behind it, unless it goes on with a small letter, as it
/// does behind most abbreviations.
fn end_of_sentence(text: &str) -> usize {
    let mut ends = text.match_indices(' ').filter(|(at, _)| {
        let (before, behind) = text.split_at(*at);
        let before = before.trim_end_matches(['"', '\'', ')', ']', '”', '’']);
        let goes_on = behind.trim_start().starts_with(char::is_lowercase);
        before.ends_with(['.', '!', '?', '…']) && !goes_on
    });
    ends.next().map_or(text.len(), |(at, _)| at)
}

/// As much of a sentence as fits into one passage, in whole words if it has any.
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
    fn a_passage_ends_with_a_sentence_and_the_next_one_begins_with_the_last_of_them() {
        let sentence = |n: usize| format!("Sentence {n:02} has about fifty letters, as all do.");
        let text: Vec<String> = (0..20).map(sentence).collect();
        let found = passages(&text.join("\n"));
        // Of 47 letters each: sixteen fit into a passage, and two into what is repeated.
        assert_eq!(found, [text[..16].join(" "), text[14..].join(" ")]);
    }

    #[test]
    fn neither_abbreviations_nor_numbers_end_a_sentence_but_quotes_may() {
        let text = "Use e.g. version 1.2 of it, cf. the notes. \"Why?\" Because.";
        let expected = ["Use e.g. version 1.2 of it, cf. the notes.", "\"Why?\"", "Because."];
        assert_eq!(pieces(text).iter().map(|(text, _)| *text).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_has_no_sentences_is_cut_between_words_and_a_word_anywhere() {
        let words = ["seven77"; 250].join(" ");
        let found = passages(&words);
        assert_eq!(found.iter().map(|it| letters(it)).collect::<Vec<_>>(), [799, 799, 399]);
        assert_eq!(found.join(" "), words);
        assert_eq!(passages(&"ü".repeat(801)), ["ü".repeat(800), "ü".to_owned()]);
    }

    proptest! {
        /// Whatever the sentences: passages are short, each says something new, and no word is lost.
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
