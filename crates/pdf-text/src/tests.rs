//! Documents that common programs wrote, and damaged ones.

use std::path::Path;

use hayro_font::kurbo::Point;

use super::content::Letter;
use super::document::{Document, ExtractError, extract};
use super::layout::text;

const PLENTY: usize = 1024 * 1024;
const BREAD: &str = "\
Bread is a staple food that is prepared from a dough of flour, usually wheat, and water, usually by
baking. Throughout recorded history it has been a prominent food in large parts of the world. It is
one of the oldest human-made foods, having been of significance since the dawn of agriculture.";
const SOUP: &str = "\
Soup is a primarily liquid food, generally served warm or hot, that is made by combining ingredients
of meat or vegetables with stock, milk, or water. Hot soups are additionally characterized by boiling
solid ingredients in liquids in a pot until the flavours are extracted, forming a broth.";

fn fixture(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/pdf");
    std::fs::read(folder.join(name)).unwrap()
}

fn pages(name: &str) -> Result<Vec<String>, ExtractError> {
    extract(fixture(name), PLENTY).map(|document| document.pages)
}

#[test]
fn pages_are_read_from_plain_and_compressed_objects() {
    let first =
        format!("Bread\n\n{BREAD}\n\nWhat it takes\n\nFlour  500 g\n\nWater 350 g\n\nSalt  10 g");
    let second = format!("Soup\n\n{SOUP}\n\nServe it hot.");
    let title = Some("On bread".to_owned());
    let document = Document { title, pages: vec![first, second], left_out: 0 };
    for name in ["plain.pdf", "packed.pdf", "owned.pdf"] {
        assert_eq!(extract(fixture(name), PLENTY).as_ref(), Ok(&document), "{name}");
    }
}

#[test]
fn a_column_is_read_to_its_end_before_the_next_begins() {
    let [page] = &pages("columns.pdf").unwrap()[..] else { panic!() };
    let (left, right) = page.split_once("\n\n").unwrap();
    assert!(left.ends_with("it has been a prominent food in"), "{page}");
    assert!(right.starts_with("large parts of the world."), "{page}");

    let [page] = &pages("in-turn.pdf").unwrap()[..] else { panic!() };
    let [heading, left, right] = page.split("\n\n").collect::<Vec<_>>()[..] else { panic!() };
    assert_eq!(heading, "Bread on the left of this page, and soup on its right");
    assert!(left.starts_with("Bread is a staple food"), "{page}");
    assert!(left.ends_with("ignificance since the dawn of agricu"), "{page}");
    assert!(right.starts_with("Soup is a primarily liquid food"), "{page}");
}

#[test]
fn letters_of_all_scripts_are_read_and_ligatures_are_split() {
    let expected = "Größe, süß und Äpfel: naïve façade\nfine, efficient, and flour\n\
                    Ψωμί και σούπα\nХлеб и суп\n面包和汤\nパンとスープ";
    assert_eq!(pages("letters.pdf").unwrap(), [expected]);
    assert_eq!(pages("asian.pdf").unwrap(), ["パンとスープ\n面包和汤\n麵包和湯\n빵과 수프"]);
    assert!(pages("drawn.pdf").unwrap()[0].ends_with("Loaves by day"));
}

/// Lines of letters with a width of 5 and a font size of 10.
fn laid_out(lines: &[(f64, f64, &str)]) -> String {
    let letters = lines.iter().flat_map(|(x, y, line)| {
        (0..).zip(line.chars()).map(move |(n, letter)| {
            let begin = Point::new(x + 5.0 * f64::from(n), *y);
            let text = Some(letter.to_string());
            Letter { text, begin, end: begin + (5.0, 0.0), size: 10.0 }
        })
    });
    text(&letters.collect::<Vec<_>>())
}

#[test]
fn a_hyphenated_word_is_joined_and_other_hyphens_stay() {
    for (above, below, expected) in [
        ("a fa-", "mous loaf", "a famous loaf"),
        ("the Anglo-", "Saxons", "the Anglo-\nSaxons"),
        ("https://a.org/b-", "c", "https://a.org/b-\nc"),
        ("one -", "two", "one -\ntwo"),
        ("one", "two", "one\ntwo"),
    ] {
        assert_eq!(laid_out(&[(50.0, 700.0, above), (50.0, 688.0, below)]), expected);
    }
}

#[test]
fn gaps_become_spaces_pieces_and_paragraphs() {
    let lines =
        [(50.0, 700.0, "on"), (62.0, 700.0, "e"), (100.0, 700.0, "two"), (50.0, 688.0, "a")];
    assert_eq!(laid_out(&lines), "on e  two\na");
    let more = [(50.0, 676.0, "b"), (50.0, 640.0, "c"), (300.0, 700.0, "d")];
    assert_eq!(laid_out(&[&lines[..], &more].concat()), "on e  two\na\nb\n\nc\n\nd");
    // A letter that is drawn twice for bold, and a superscript.
    assert_eq!(laid_out(&[(50.0, 700.0, "b"), (50.3, 700.0, "b"), (56.0, 703.0, "2")]), "b2");
}

#[test]
fn a_document_without_text_has_a_reason() {
    for (name, expected) in [
        ("encrypted.pdf", "it is encrypted and needs a password"),
        ("scan.pdf", "it has no text, only images"),
    ] {
        assert_eq!(pages(name).map_err(|error| error.to_string()), Err(expected.to_owned()));
    }
    for bytes in [&b""[..], b"%PDF-1.7", b"no document at all"] {
        assert_eq!(extract(bytes.into(), PLENTY), Err(ExtractError::Damaged));
    }
}

#[test]
fn a_truncated_document_is_read_as_far_as_possible() {
    for name in ["plain.pdf", "packed.pdf", "letters.pdf", "encrypted.pdf"] {
        let whole = fixture(name);
        for length in (0..whole.len()).step_by(97) {
            // The call returns and does not panic.
            let _ = extract(whole[..length].into(), PLENTY);
        }
    }
    let whole = fixture("plain.pdf");
    let text = extract(whole[..whole.len() - 300].into(), PLENTY).unwrap().text();
    assert!(text.contains("Soup is a primarily liquid food"), "{text}");
}

#[test]
fn reading_a_corrupted_document_terminates() {
    for name in ["plain.pdf", "packed.pdf", "letters.pdf", "asian.pdf", "drawn.pdf"] {
        let whole = fixture(name);
        for place in (0..whole.len()).step_by(151) {
            let mut wrong = whole.clone();
            wrong[place] ^= 0x15;
            let _ = extract(wrong, PLENTY);
        }
    }
}

#[test]
fn the_text_is_limited_to_the_requested_length() {
    let document = extract(fixture("plain.pdf"), 100).unwrap();
    assert_eq!((document.pages.len(), document.left_out), (1, 2));
    assert_eq!(document.pages[0].len(), 100);
    assert!(document.with_page_numbers().ends_with("[2 pages are left out, or their ends]"));
    let document = Document { title: None, pages: vec!["a".into(), String::new()], left_out: 0 };
    assert_eq!(document.with_page_numbers(), "[page 1]\n\na\n\n[page 2]");
}
