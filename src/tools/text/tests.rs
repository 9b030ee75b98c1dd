//! Tests of text changes: an edit changes the named text and nothing else.

use proptest::prelude::*;

use super::edits::{Edit, apply, apply_all, with_line_ends_of};
use super::numbered::{Part, page};
use super::snippets::snippets;
use super::*;

fn edit(old: &str, new: &str) -> Edit {
    Edit { old_string: old.to_owned(), new_string: new.to_owned(), replace_all: false }
}

fn everywhere(old: &str, new: &str) -> Edit {
    Edit { replace_all: true, ..edit(old, new) }
}

fn invalid(text: &str) -> Result<String, ToolError> {
    Err(ToolError::Invalid(text.to_owned()))
}

#[test]
fn an_edit_replaces_the_one_occurrence() {
    assert_eq!(apply("a b c", &edit("b", "x")), Ok("a x c".to_owned()));
    assert_eq!(apply("a b b", &everywhere("b", "x")), Ok("a x x".to_owned()));
    assert_eq!(apply("", &edit("", "new\n")), Ok("new\n".to_owned()));
}

#[test]
fn an_edit_that_does_not_apply_is_refused() {
    assert_eq!(apply("a", &edit("b", "x")), invalid("old_string not found in file"));
    assert_eq!(apply("a", &edit("a", "a")), invalid("old_string and new_string are the same"));
    assert_eq!(apply("a", &edit("", "x")), invalid("old_string is empty, and the file is not"));
    assert_eq!(
        apply("b b b", &edit("b", "x")),
        invalid(
            "old_string occurs 3 times in the file: include more of the surrounding text, or set \
             replace_all"
        )
    );
}

#[test]
fn hidden_characters_are_replaced_by_their_codes_or_by_themselves() {
    let text = "a\u{e0041}b\r\nc\r\n";
    let by_code = edit("a<U+E0041>b\nc", "x<U+E0041>y\nc");
    assert_eq!(apply(text, &by_code), Ok("x\u{e0041}y\r\nc\r\n".to_owned()));
    assert_eq!(apply(text, &edit("a\u{e0041}b", "ab")), Ok("ab\r\nc\r\n".to_owned()));
    // Text that has the form of a code is text, if the file has it.
    let literal = "a<U+E0041>b";
    assert_eq!(apply(literal, &edit(literal, "<U+E0041>")), Ok("<U+E0041>".to_owned()));
    assert_eq!(apply("ab", &edit("a<U+E0041>b", "x")), invalid("old_string not found in file"));
}

#[test]
fn a_replacement_with_a_result_above_the_size_limit_is_refused() {
    let text = "a".repeat(1 << 20);
    let bomb = everywhere("a", &text);
    assert_eq!(apply(&text, &bomb), invalid("the file would become too large"));
}

#[test]
fn edits_apply_in_order_and_all_or_none() {
    assert_eq!(apply_all("one", &[edit("one", "two"), edit("two", "three")]), Ok("three".into()));
    assert_eq!(
        apply_all("one", &[edit("one", "two"), edit("one", "x"), edit("two", "y")]),
        invalid("edit 2 of 3: old_string not found in file; no edit was made")
    );
}

#[test]
fn edits_match_lf_and_write_the_line_ends_of_the_file() {
    assert_eq!(
        apply("a\r\nb\r\nc\r\n", &edit("a\nb", "a\nx\nb")),
        Ok("a\r\nx\r\nb\r\nc\r\n".into())
    );
    assert_eq!(apply("a\r\nb\r\n", &edit("b", "x\ny")), Ok("a\r\nx\r\ny\r\n".into()));
    assert_eq!(apply("a\nb\n", &edit("b", "x\ny")), Ok("a\nx\ny\n".into()));
}

#[test]
fn unchanged_lines_in_an_edit_keep_their_line_ends() {
    let mixed = "one\r\ntwo\nthree\r\nfour\n";
    assert_eq!(
        apply(mixed, &edit("one\ntwo\nthree\nfour\n", "one\ntwo\n3\nfour\n")),
        Ok("one\r\ntwo\n3\r\nfour\n".to_owned())
    );
    assert_eq!(
        apply(mixed, &edit("three\n", "three\nmore\n")),
        Ok("one\r\ntwo\nthree\r\nmore\r\nfour\n".to_owned())
    );
    assert_eq!(
        apply(mixed, &edit("two\n", "two\nmore\n")),
        Ok("one\r\ntwo\nmore\nthree\r\nfour\n".to_owned())
    );
}

#[test]
fn a_new_text_keeps_crlf_if_the_old_text_has_only_crlf() {
    assert_eq!(with_line_ends_of("a\r\nb\r\n", "x\ny\n"), "x\r\ny\r\n");
    assert_eq!(with_line_ends_of("a\r\nb\n", "x\ny\n"), "x\ny\n");
    assert_eq!(with_line_ends_of("", "x\ny\n"), "x\ny\n");
}

#[test]
fn every_encoding_round_trips_byte_for_byte() {
    let utf16 = |mark: [u8; 2], bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
        mark.into_iter().chain("añ→😀\r\n".encode_utf16().flat_map(bytes)).collect()
    };
    for bytes in [
        "añ→😀\r\n".as_bytes().to_vec(),
        "\u{feff}añ→😀\r\n".as_bytes().to_vec(),
        utf16([0xff, 0xfe], u16::to_le_bytes),
        utf16([0xfe, 0xff], u16::to_be_bytes),
    ] {
        let file = TextFile::read("x", &bytes).unwrap();
        assert!(file.is_exact());
        assert_eq!(file.text, "añ→😀\r\n");
        assert_eq!(file.bytes_of(&file.text), bytes);
    }
}

#[test]
fn binary_files_are_refused_and_unknown_encodings_are_marked() {
    for bytes in [b"a\0b".as_slice(), &[0xff, 0xfe, 0x00], &[0xff, 0xfe, 0x00, 0xd8]] {
        let refused = ToolError::Failed("x is not a text file".to_owned());
        assert_eq!(TextFile::read("x", bytes), Err(refused));
    }
    let latin = TextFile::read("x", b"caf\xe9").unwrap();
    assert!(!latin.is_exact());
    assert_eq!(latin.text, "caf\u{fffd}");
}

#[test]
fn lines_are_numbered_in_the_format_of_cat() {
    let all = Part { offset: 0, limit: 2000 };
    assert_eq!(page("package main\n\n\tx\r\n", all), "     1→package main\n     2→\n     3→\tx");
    assert_eq!(
        page("1\n2\n3\n4\n", Part { offset: 1, limit: 2 }),
        "     2→2\n     3→3\n[the file has 4 lines; read on with offset 3]"
    );
    assert_eq!(
        page("1\n", Part { offset: 7, limit: 2 }),
        "[the file has 1 lines, and offset 7 skips them all]"
    );
}

#[test]
fn a_long_line_is_truncated_and_a_long_page_ends_between_lines() {
    let all = Part { offset: 0, limit: 2000 };
    let long = "ü".repeat(2001);
    let shown = format!("     1→{}… [the line has 2001 characters]", "ü".repeat(2000));
    assert_eq!(page(&long, all), shown);
    let many = format!("{}\n", "x".repeat(1000)).repeat(200);
    let page = page(&many, all);
    assert!(page.len() < 100 * 1024, "{}", page.len());
    assert!(
        page.ends_with("\n[the file has 200 lines; read on with offset 97]"),
        "{}",
        &page[page.len() - 80..]
    );
}

#[test]
fn each_place_that_changed_has_a_snippet_of_its_own() {
    let numbers: Vec<String> = (1..=100).map(|number| number.to_string()).collect();
    let before = numbers.join("\n");
    let after = before.replace("\n10\n", "\nten\n").replace("\n50\n51\n", "\n");
    let after = after.replace("\n90\n", &format!("\n{}", "x\n".repeat(500)));
    let text = snippets(&before, &after);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines[0], lines[4], lines[8]), ("     6→6", "    10→ten", "    14→14"));
    assert_eq!((lines[9], lines[10]), ("[31 unchanged lines]", "    46→46"));
    assert_eq!((lines[13], lines[14], lines[17]), ("    49→49", "    50→52", "    53→55"));
    assert_eq!((lines[18], lines[19]), ("[30 unchanged lines]", "    84→86"));
    assert_eq!((lines.len(), lines[lines.len() - 1]), (19 + 133 + 1, "[375 more lines]"));
}

#[test]
fn the_number_of_snippets_is_limited_and_the_others_are_counted() {
    let before = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n".repeat(40);
    let text = snippets(&before, &before.replace("\n5\n", "\nfive\n"));
    assert_eq!(text.matches("five").count(), 32);
    assert!(text.ends_with("\n[8 more changes]"), "{text}");
}

#[test]
fn a_snippet_shows_the_changed_lines_with_four_lines_of_context() {
    let before = (1..=20).fold(String::new(), |text, n| text + &format!("line {n}\n"));
    let after = before.replace("line 10\n", "ten\nand a half\n");
    let lines: Vec<String> = snippets(&before, &after).lines().map(str::to_owned).collect();
    assert_eq!(lines.first().unwrap(), "     6→line 6");
    assert_eq!(lines.last().unwrap(), "    15→line 14");
    assert_eq!(lines[4..6], ["    10→ten", "    11→and a half"]);
    assert_eq!(snippets("", "new\n"), "     1→new");
    assert_eq!(snippets("old\n", ""), "[the file is empty]");
    let flood = "x\n".repeat(1000);
    assert!(snippets("", &flood).ends_with("   400→x\n[600 more lines]"));
}

/// Generates texts of few letters and all kinds of line ends, so that matches are likely.
fn texts() -> impl Strategy<Value = String> {
    prop::collection::vec(
        prop_oneof![Just("a"), Just("b"), Just("é"), Just("\n"), Just("\r\n")],
        0..24,
    )
    .prop_map(|parts| parts.concat())
}

fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

proptest! {
    /// With LF line ends, an edit equals a plain replacement. Text before and after the match keeps
    /// its bytes.
    #[test]
    fn an_edit_equals_a_plain_replacement_and_preserves_the_rest(
        before in texts(), old in texts(), after in texts(), new in texts(),
    ) {
        let text = format!("{before}{old}{after}");
        let plain = |text: &str| text.replace("\r\n", "\n");
        if let Ok(changed) = apply(&text, &edit(&plain(&old), &plain(&new))) {
            let at = plain(&text).find(&plain(&old)).unwrap_or_default();
            let expected = if old.is_empty() {
                plain(&new)
            } else {
                plain(&text).replacen(&plain(&old), &plain(&new), 1)
            };
            prop_assert_eq!(plain(&changed), expected);
            let untouched = plain(&text)[..at].matches('\n').count();
            prop_assert_eq!(&lines(&changed)[..untouched], &lines(&text)[..untouched]);
        }
    }
}
