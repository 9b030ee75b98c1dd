//! Builds documents byte by byte.

use std::fmt::Write as _;

use miniz_oxide::deflate::compress_to_vec_zlib;

/// Returns a document of these objects, which are numbered from 1. The first one is its root.
pub(crate) fn document(objects: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = b"%PDF-1.7\n".to_vec();
    let mut table = format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1);
    for (number, object) in (1..).zip(objects) {
        writeln!(table, "{:010} 00000 n ", bytes.len()).unwrap();
        bytes.extend(format!("{number} 0 obj\n").bytes());
        bytes.extend(object);
        bytes.extend(b"\nendobj\n");
    }
    let (size, at) = (objects.len() + 1, bytes.len());
    let end = format!("trailer\n<</Size {size}/Root 1 0 R>>\nstartxref\n{at}\n%%EOF\n");
    bytes.extend(table.bytes());
    bytes.extend(end.bytes());
    bytes
}

/// Returns a stream with these entries in its dictionary.
pub(crate) fn stream(entries: &str, data: &[u8]) -> Vec<u8> {
    let head = format!("<<{entries}/Length {}>>\nstream\n", data.len());
    [head.as_bytes(), data, b"\nendstream"].concat()
}

/// Returns a compressed stream.
pub(crate) fn compressed(entries: &str, data: &[u8]) -> Vec<u8> {
    stream(&format!("{entries}/Filter/FlateDecode"), &compress_to_vec_zlib(data, 6))
}

/// Returns a document of one page. Object 4 is its content, object 5 its font. `more` objects are
/// the drawings `/D6`, `/D7` and so on.
pub(crate) fn page(content: Vec<u8>, font: &str, more: &[Vec<u8>]) -> Vec<u8> {
    let drawings = (6..).zip(more).map(|(number, _)| format!("/D{number} {number} 0 R"));
    let drawings: String = drawings.collect();
    let page = format!(
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R\
         /Resources<</Font<</F 5 0 R>>/XObject<<{drawings}>>>>>>"
    );
    let mut objects = vec![
        b"<</Type/Catalog/Pages 2 0 R>>".to_vec(),
        b"<</Type/Pages/Count 1/Kids[3 0 R]>>".to_vec(),
        page.into_bytes(),
        content,
        font.into(),
    ];
    objects.extend_from_slice(more);
    document(&objects)
}
