//! Hostile documents result in a text or an error, within the limits of time and memory.

use std::time::{Duration, Instant};

use miniz_oxide::deflate::compress_to_vec_zlib;

use super::builder::{compressed, document, page, stream};
use super::{fixture, reader};

pub(crate) const FONT: &str = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>";
const HELLO: &[u8] = b"BT /F 12 Tf 50 700 Td (Hello) Tj ET";
const TEXT_LIMIT: usize = 1024 * 1024;
/// The limit of a document (10 s), and time for a busy machine to start and stop a process.
const TIME_LIMIT: Duration = Duration::from_secs(25);

/// Returns the text of a document, or the error.
async fn outcome(bytes: &[u8]) -> Result<String, String> {
    let started = Instant::now();
    let document = reader().read(bytes, TEXT_LIMIT).await;
    assert!(started.elapsed() < TIME_LIMIT, "{:?}", started.elapsed());
    document.map(|document| document.text()).map_err(|error| error.to_string())
}

async fn assert_read(bytes: &[u8]) {
    assert_eq!(outcome(bytes).await.as_deref(), Ok("Hello"));
}

async fn assert_fails(bytes: &[u8], reason: &str) {
    assert_eq!(outcome(bytes).await, Err(reason.to_owned()));
}

#[tokio::test]
async fn a_page_of_the_builder_is_read() {
    assert_read(&page(stream("", HELLO), FONT, &[])).await;
    assert_read(&page(compressed("", HELLO), FONT, &[])).await;
}

#[tokio::test]
async fn documents_of_real_programs_are_read_under_confinement() {
    for name in ["plain", "columns", "in-turn", "letters", "asian", "drawn", "packed", "owned"] {
        let text = outcome(&fixture(&format!("{name}.pdf"))).await;
        assert!(text.as_ref().is_ok_and(|text| !text.is_empty()), "{name}: {text:?}");
    }
    assert_fails(&fixture("encrypted.pdf"), "it is encrypted and needs a password").await;
    assert_fails(&fixture("scan.pdf"), "it has no text, only images").await;
}

#[tokio::test]
async fn decompression_fails_at_the_memory_limit() {
    // 16 MiB of runs, each of which is 128 letters: 1 GiB, from a few kilobytes.
    let runs = [0x81, b' '].repeat(8 * 1024 * 1024);
    let small = compress_to_vec_zlib(&runs, 6);
    assert!(small.len() < 100_000);
    let bomb = stream("/Filter[/FlateDecode/RunLengthDecode]", &small);
    assert_fails(&page(bomb.clone(), FONT, &[]), "it needs more than 512 MiB of memory").await;
    let more = [stream("/Type/XObject/Subtype/Form/Filter[/FlateDecode/RunLengthDecode]", &small)];
    let drawn = page(stream("", b"/D6 Do"), FONT, &more);
    assert_fails(&drawn, "it needs more than 512 MiB of memory").await;
}

#[tokio::test]
async fn slow_extraction_fails_at_the_time_limit() {
    // Each of ten drawings draws the next one ten times.
    let drawings: Vec<Vec<u8>> = (7..=16)
        .map(|next| {
            let own = format!("/Subtype/Form/Resources<</XObject<</D{next} {next} 0 R>>>>");
            stream(&own, format!("/D{next} Do ").repeat(10).as_bytes())
        })
        .chain([stream("/Subtype/Form", b"q Q")])
        .collect();
    assert_fails(&page(stream("", b"/D6 Do"), FONT, &drawings), "it takes longer than 10 s").await;
}

#[tokio::test]
async fn cyclic_references_are_followed_once() {
    let kids = |kids: &str| format!("<</Type/Pages/Count 9/Kids[{kids}]/Parent 2 0 R>>");
    let pages = |tree: &str, other: &str| {
        document(&[
            b"<</Type/Catalog/Pages 2 0 R>>".to_vec(),
            tree.into(),
            b"<</Type/Page/Parent 2 0 R/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>".to_vec(),
            stream("", HELLO),
            FONT.into(),
            other.into(),
        ])
    };
    assert_read(&pages(&kids("2 0 R 3 0 R 2 0 R"), "null")).await;
    assert_read(&pages(&kids("6 0 R"), &kids("2 0 R 6 0 R 3 0 R"))).await;

    let drawing = [HELLO, b" /D6 Do"].concat();
    let own = "/Subtype/Form/Resources<</Font<</F 5 0 R>>/XObject<</D6 6 0 R>>>>";
    let text = outcome(&page(stream("", b"/D6 Do"), FONT, &[stream(own, &drawing)])).await.unwrap();
    assert!(text.starts_with("Hello") && text.len() < 1000, "{text}");

    let length = b"<</Length 4 0 R>>\nstream\n/F 12 Tf (Hello) Tj\nendstream".to_vec();
    outcome(&page(length, FONT, &[])).await.ok();
    let contents = "<</Type/Pages/Kids 2 0 R/Count 2 0 R/Parent 2 0 R>>";
    // Pages that the page tree does not reference are searched for among all objects.
    assert_read(&pages(contents, "6 0 R")).await;
    let font = "<</Type/Font/Subtype/Type0/BaseFont/A/Encoding 5 0 R/DescendantFonts[5 0 R]>>";
    outcome(&page(stream("", HELLO), font, &[])).await.unwrap_err();
}

#[tokio::test]
async fn deep_nesting_is_read_or_refused() {
    // Deeper nesting can take so long that the time limit is reached.
    const DEEP: usize = 5000;
    let within = |begin: &str, end: &str| begin.repeat(DEEP) + &end.repeat(DEEP);
    for nested in [within("[", "]"), within("<</A ", ">>"), within("[<</A ", ">>]")] {
        let font = format!("<</Type/Font/Subtype/Type1/BaseFont/Helvetica/A {nested}>>");
        let content = [nested.as_bytes(), b" TJ ", HELLO].concat();
        for bytes in [page(stream("", HELLO), &font, &[]), page(stream("", &content), FONT, &[])] {
            // Only the reference to the font may be lost.
            if let Err(reason) = outcome(&bytes).await {
                assert!(
                    ["it has no text", "its fonts do not define which characters they show"]
                        .contains(&&*reason),
                    "{reason}"
                );
            }
        }
    }
    let states = [&b"q ".repeat(DEEP)[..], HELLO, &b" Q".repeat(DEEP)].concat();
    assert_read(&page(compressed("", &states), FONT, &[])).await;
    // A page tree in which each branch is nested in the previous one.
    let mut tree: Vec<Vec<u8>> = vec![b"<</Type/Catalog/Pages 2 0 R>>".into()];
    let branches: usize = 5000;
    tree.extend((3..branches + 3).map(|next| format!("<</Type/Pages/Kids[{next} 0 R]>>").into()));
    let (content, font) = (branches + 3, branches + 4);
    let leaf = format!("<</Type/Page/Contents {content} 0 R/Resources<</Font<</F {font} 0 R>>>>>>");
    tree.extend([leaf.into_bytes(), stream("", HELLO), FONT.into()]);
    assert_read(&document(&tree)).await;
}

#[tokio::test]
async fn numbers_that_are_too_large_are_harmless() {
    let content =
        b"BT /F 1e38 Tf 1e38 0 0 1e38 1e38 1e38 Tm 1e38 Tc (ab) Tj 0 Tf -1e38 Tz (a) Tj ET";
    outcome(&page(stream("", content), FONT, &[])).await.ok();
    for widths in ["[0 4294967295 500]", "[0 65535 500 0 2147483647 1]", "[-5 [1 2] 0 -9 1]"] {
        let font = format!(
            "<</Type/Font/Subtype/Type0/BaseFont/A/Encoding/Identity-H/DescendantFonts[<</Type\
             /Font/Subtype/CIDFontType2/BaseFont/A/CIDSystemInfo<</Registry(Adobe)/Ordering\
             (Japan1)/Supplement 0>>/W {widths}>>]>>"
        );
        outcome(&page(stream("", HELLO), &font, &[])).await.ok();
    }
    let page_count = document(&[
        b"<</Type/Catalog/Pages 2 0 R>>".into(),
        b"<</Type/Pages/Count 2147483647/Kids[3 0 R]>>".into(),
        b"<</Type/Page/Rotate 77777777777/MediaBox[0 0 1e38 -1e38]>>".into(),
    ]);
    assert_fails(&page_count, "it has no text").await;
}

#[tokio::test]
async fn a_text_above_the_limit_is_truncated() {
    let content = b"BT /F 1 Tf (aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa) Tj ET ".repeat(100_000);
    let document = reader().read(&page(compressed("", &content), FONT, &[]), 1000).await.unwrap();
    assert_eq!((document.text().len(), document.left_out), (1000, 1));
}

#[tokio::test]
async fn a_file_that_is_not_a_document_is_refused() {
    for bytes in [&b""[..], b"%PDF-1.7", b"%PDF-1.7\nstartxref\n9\n%%EOF", &[0xff; 10_000]] {
        assert_fails(bytes, "it is damaged or not a PDF").await;
    }
    // The cross-reference table names itself as the previous one.
    let round =
        b"%PDF-1.7\nxref\n0 1\n0000000000 65535 f \ntrailer\n<</Size 1/Prev 9/Root 1 0 R>>\n\
                  startxref\n9\n%%EOF";
    assert_fails(round, "it is damaged or not a PDF").await;
}
