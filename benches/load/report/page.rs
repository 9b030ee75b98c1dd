//! Replaces the generated parts of a Markdown page.

/// Replaces the lines between the comments `<!-- begin NAME -->` and `<!-- end NAME -->`.
pub(crate) fn replace(page: &str, name: &str, lines: &[String]) -> Result<String, String> {
    let (begin, end) = (format!("<!-- begin {name} -->\n"), format!("<!-- end {name} -->"));
    let parts = page.split_once(&begin).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(&end)?;
        Some((before, after))
    });
    let Some((before, after)) = parts else {
        return Err(format!("the page has no lines {begin:?} and {end:?}"));
    };
    Ok(format!("{before}{begin}\n{}\n\n{end}{after}", lines.join("\n")))
}
